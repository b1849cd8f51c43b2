"""Repositories by name: what GitHub's API wants to have is their numbers, and whether they are public it tells too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_github as github

from ..component import Component
from ..errors import ArgsError, Problem


def repository_ids(
    owner: Component, subject: str, path: str, names: Sequence[pulumi.Input[str]], *, public: bool
) -> pulumi.Output[list[int]]:
    """The numbers of these repositories, in a fixed order.

    One that is not there is refused, and so is a public one unless they may be `public`: in the preview already, where
    its name is known and nothing of the same stack makes it.
    """
    options = pulumi.InvokeOutputOptions(parent=owner)
    found = [github.get_repository_output(name=name, opts=options) for name in names]

    def check(answers: list[Any]) -> list[int]:
        problems = [
            problem
            for at, answer in enumerate(answers)
            if (problem := _problem(f"{path}[{at}]", answer, public=public))
        ]
        if problems:
            raise ArgsError(subject, problems)
        return sorted(int(answer.repo_id) for answer in answers)

    return pulumi.Output.all(*found).apply(check)


def _problem(path: str, answer: Any, *, public: bool) -> Problem | None:
    # The provider answers a repository that is not there with nothing, and no error (terraform-provider-github v6.13.0,
    # github/data_source_github_repository.go).
    if answer.repo_id is None:
        hint = "check the name and github:owner, and that the token may see it"
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
