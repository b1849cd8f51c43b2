"""GitHub's refusals that depend on other resources: a name is taken, or a referenced resource is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.repositories import Repository, from_record
from pulumi_sandbox.providers.github.types import numbers, same_name
from pulumi_sandbox.providers.inputs import text_of
from pulumi_sandbox.world.store import World

API = "https://api.github.com"
# "All organizations have a single default runner group": docs.github.com/en/actions/hosting-your-own-runners/
# managing-access-to-self-hosted-runners-using-groups. The name of the group is Default.
DEFAULT_GROUP = "Default"


# GitHub's refusal of a name that is in use: the path at which a resource is created, and the answer.
# - A runner group: the status is from lindluni/actions-runner-manager. The message is that for a runner's name
#   (github.com/runs-on/runs-on/issues/33), because no source quotes the message for a group.
# - A ruleset: github.com/github-community-projects/safe-settings/pull/1047.
IN_USE = {
    types.RUNNER_GROUP: (
        "orgs/{owner}/actions/runner-groups", 409,
        "Already exists - A runner group with the name {name} already exists.", "",
    ),
    types.RULESET: ("repos/{owner}/{repository}/rulesets", 422, "Validation Failed", "Name must be unique"),
}  # fmt: skip


def refusal_text(method: str, path: str, status: int, message: str, errors: str = "") -> str:
    """Format an error of GitHub's API in the form of the provider's client.

    Source: google/go-github v88, github/github.go, ErrorResponse.Error.
    """
    return f"{method} {API}/{path}: {status} {message} [{errors}]"


@dataclass
class ExistingResources:
    """The resources that references may name: those of the world (emulated cloud state) and those outside of any stack.

    Paths are `owner/repository`, paths below it, and `repositories/<number>`.
    """

    world: World
    owner: str
    patterns: tuple[str, ...] = ()
    looked_up: list[Repository] = field(default_factory=list)
    """The repositories of lookups in this run. A stack may use a repository that it has looked up."""

    def repository(self, path: str) -> Repository | None:
        """Return the repository at `owner/repository` or `repositories/<number>` that a stack created or looked up."""
        known = [*map(from_record, self.world.find(types.REPOSITORY)), *self.looked_up]
        return next((one for one in known if path.lower() in (one.full_name.lower(), f"repositories/{one.id}")), None)

    def exists(self, path: str) -> bool:
        """Return True if the path is of a created or looked up repository, or if sandbox.yaml lists it."""
        lower_path = path.lower()
        return self.repository(path) is not None or any(fnmatchcase(lower_path, one.lower()) for one in self.patterns)

    # -- at Create and Update -----------------------------------------------------------------------------------------

    def name_in_use(self, token: str, inputs: dict[str, Any]) -> Iterator[str]:
        """Yield GitHub's refusal if the same repository or organization has a runner group or ruleset of this name."""
        if token not in IN_USE:
            return
        path, status, message, errors = IN_USE[token]
        given = {key: text_of(inputs, key) for key in ("name", "repository")}
        if (token == types.RUNNER_GROUP and same_name(given["name"], DEFAULT_GROUP)) or any(
            all(same_name(text_of(one.inputs, key), value) for key, value in given.items())
            for one in self.world.find(token)
        ):
            text = message.format(name=given["name"])
            yield refusal_text("POST", path.format(owner=self.owner, **given), status, text, errors)

    def missing_references(self, token: str, inputs: dict[str, Any]) -> Iterator[str]:
        """Yield GitHub's refusals of references to missing resources."""
        name, environment = text_of(inputs, "repository"), text_of(inputs, "environment")
        if token in types.BELONGINGS and name and not self.exists(f"{self.owner}/{name}"):
            yield self._not_found(f"repos/{self.owner}/{name}")
        of_environment = token in (types.ENVIRONMENT_SECRET, types.ENVIRONMENT_VARIABLE) and name
        if of_environment and not self._environment_exists(name, environment):
            yield self._not_found(f"repos/{self.owner}/{name}/environments/{environment}")
        if token in (types.RUNNER_GROUP, types.ORGANIZATION_SECRET, types.ORGANIZATION_VARIABLE):
            yield from self._selected_repositories(inputs)

    def _environment_exists(self, repository: str, environment: str) -> bool:
        return self.exists(f"{self.owner}/{repository}/environments/{environment}") or any(
            same_name(text_of(one.inputs, "repository"), repository)
            and same_name(text_of(one.inputs, "environment"), environment)
            for one in self.world.find(types.ENVIRONMENT)
        )

    def _selected_repositories(self, inputs: dict[str, Any]) -> Iterator[str]:
        for number in numbers(inputs, "selectedRepositoryIds"):
            path = f"repositories/{number}"
            if not self.exists(path):
                # GitHub's answer to a number without a repository is not documented.
                yield self._not_found(path)

    def is_public(self, path: str) -> bool:
        """Return True if the repository is public. A repository without a lookup counts as private."""
        repository = self.repository(path)
        return repository is not None and not repository.private

    def _not_found(self, path: str) -> str:
        listed = path.removeprefix("repos/")
        hint = f"if the resource exists on GitHub, list it in sandbox.yaml: exists: {{github: [{listed}]}}"
        return f"{refusal_text('GET', path, 404, 'Not Found')}\n  hint: {hint}"
