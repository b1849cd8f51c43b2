"""Puts mistakes to the GitHub components' arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pulumi
from gpu_ci.args import Args
from gpu_ci.errors import ArgsError, Problem
from gpu_ci.github.actions_secrets import ActionsSecrets, ActionsSecretsArgs
from gpu_ci.github.repository_rules import RepositoryRules, RepositoryRulesArgs
from gpu_ci.github.runner_group import RunnerGroup, RunnerGroupArgs

from tests.gpu_ci.support import run

SECRET, GROUP, RULES = ActionsSecretsArgs, RunnerGroupArgs, RepositoryRulesArgs
EXAMPLES = {SECRET: ActionsSecrets.EXAMPLE, GROUP: RunnerGroup.EXAMPLE, RULES: RepositoryRules.EXAMPLE}
HUSH = "hush-hush-hush"


def hidden(value: str = HUSH) -> pulumi.Output[str]:
    return pulumi.Output.secret(value)


def problems(model: type[Args], changes: Callable[[], dict[str, Any]]) -> list[Problem]:
    """Return the problems of the example after these changes, at once or when its Outputs resolve."""

    async def settled() -> list[Problem]:
        try:
            await model(**{**EXAMPLES[model], **changes()}).settle()
        except ArgsError as error:
            return list(error.problems)
        return []

    return run(settled())


# Changes of an example, the path at which they are wrong, the problem, and the hint.
Case: TypeAlias = tuple[type[Args], Callable[[], dict[str, Any]], str, str, str]


def judge(case: Case) -> None:
    """One cause is one problem, with its hint and with what would be right, and without any secret."""
    model, changes, path, text, hint = case
    [found] = problems(model, changes)
    assert (found.path, found.text, found.hint) == (path, text, hint)
    assert found.expected
    assert HUSH not in found.render("ActionsSecrets")
