"""Repositories by name: what GitHub's API wants to have is their numbers, and whether they are public it tells too."""

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
    """The numbers of these repositories, which stand at `path` of the arguments, in a fixed order.

    One that is not there is refused, and so is a public one unless they may be `public`: in the preview already, where
    its name is known and nothing of the same stack makes it.
    """
    options = pulumi.InvokeOutputOptions(parent=owner)
    found: list[pulumi.Output[Any]] = [
        github.get_repository_output(name=name, opts=options).recover(_refused) for name in names
    ]

    async def check() -> None:
        # One by one: a repository that the same stack makes is unknown, and the others are not.
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
    """The provider's answer to a lookup that it could not make."""

    message: str


def _refused(error: Exception) -> Any:
    return _Refusal(provider_message(error))


def _problem(path: str, answer: Any, *, public: bool) -> Problem | None:
    if isinstance(answer, _Refusal):
        return Problem(
            path,
            "cannot be looked up on GitHub",
            answer.message,
            "an answer to GET /repos/{owner}/{repo}",
            "check that the token or the App may read the repository's metadata, and that api.github.com is reached",
        )
    # The provider answers a repository that is not there with nothing, and no error (terraform-provider-github v6.13.0,
    # github/data_source_github_repository.go).
    if answer.repo_id is None:
        hint = "check the name and the owner, and that the token may see it"
        return Problem(path, "GitHub has no such repository", repr(answer.name) if answer.name else "", hint=hint)
    if answer.visibility == "public" and not public:
        return Problem(
            path,
            "is a public repository: anybody's pull request could run code on the machines",
            repr(answer.name),
            "a private or an internal repository",
            "remove it, and let it use GitHub's own runners",
        )
    return None
