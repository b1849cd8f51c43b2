"""Looks up repositories by name: their id numbers, which GitHub's API requires, and whether they are public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_github as github

from ..args import Args
from ..component import Component
from ..errors import Problem, provider_message


def repository_ids(
    owner: Component, args: Args, path: str, names: Sequence[pulumi.Input[str]], *, public: bool
) -> pulumi.Output[list[int]]:
    """Return the ids of these repositories, sorted. `path` is the path of the names in the arguments.

    A missing repository is an error. A public repository is an error if `public` is False. The preview reports these
    errors, except for a repository that the same stack creates, whose name is not known yet.
    """
    options = pulumi.InvokeOutputOptions(parent=owner)
    found: list[pulumi.Output[Any]] = [
        github.get_repository_output(name=name, opts=options).recover(_refused) for name in names
    ]

    async def check() -> None:
        # Each repository is checked separately, because repositories that the same stack creates are unknown in a
        # preview.
        known = [(at, await each.future()) for at, each in enumerate(found) if await each.is_known()]
        problems = [_problem(f"{path}[{at}]", answer, public=public) for at, answer in known]
        if wrong := [problem for problem in problems if problem]:
            raise args.wrong(wrong)

    checked: pulumi.Output[Any] = pulumi.Output.from_input(check())
    return pulumi.Output.all(checked, *found).apply(
        lambda answers: sorted(int(answer.repo_id) for answer in answers[1:])
    )


@dataclass(frozen=True)
class _Refusal:
    """The result of a failed lookup, with the provider's error message."""

    message: str


def _refused(error: Exception) -> Any:
    return _Refusal(provider_message(error))


def _problem(path: str, answer: Any, *, public: bool) -> Problem | None:
    if isinstance(answer, _Refusal):
        return Problem(
            path,
            "could not be looked up on GitHub",
            answer.message,
            "an answer to GET /repos/{owner}/{repo}",
            "check that the token or the App may read the repository's metadata, and that api.github.com is reachable",
            rule="lookup-failed",
        )
    # For a missing repository the provider returns nothing, and no error (terraform-provider-github v6.13.0,
    # github/data_source_github_repository.go).
    if answer.repo_id is None:
        hint = "check the name and the owner, and that the token has access to the repository"
        return Problem(
            path,
            "GitHub has no such repository",
            repr(answer.name) if answer.name else "",
            hint=hint,
            rule="no-such-repository",
        )
    if answer.visibility == "public" and not public:
        return Problem(
            path,
            "is a public repository: any user's pull request could run code on the machines",
            repr(answer.name),
            "a private or internal repository",
            "remove it, or set publicRepositories: true in a stack of its own (docs/guides/github.md)",
            rule="public-repository",
        )
    return None
