"""Valid arguments of the GitHub components. tests/mistakes has the invalid ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from gpu_ci.args import Args
from gpu_ci.errors import ArgsError, Problem
from gpu_ci.github.actions_secrets import ActionsSecrets, ActionsSecretsArgs
from gpu_ci.github.repository_rules import RepositoryRules, RepositoryRulesArgs
from gpu_ci.github.runner_group import RunnerGroup, RunnerGroupArgs
from pulumi.output import UNKNOWN

from tests.gpu_ci.support import run

SECRET, GROUP, RULES = ActionsSecretsArgs, RunnerGroupArgs, RepositoryRulesArgs
EXAMPLES = {SECRET: ActionsSecrets.EXAMPLE, GROUP: RunnerGroup.EXAMPLE, RULES: RepositoryRules.EXAMPLE}


def hidden(value: str) -> pulumi.Output[str]:
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


def test_a_preview_lets_a_secret_pass_that_it_cannot_know_yet() -> None:
    """The result of a lookup is unknown in a preview, and is not yet marked as secret."""
    unknown = {"secrets": {"TOKEN": UNKNOWN}, "variables": {"REGION": UNKNOWN}}
    assert problems(SECRET, lambda: unknown) == []


@pytest.mark.parametrize("secret", ["x", "x" * 49152, "ä" * 24576])
def test_a_secret_may_be_as_large_as_github_takes_it(secret: str) -> None:
    assert problems(SECRET, lambda: {"secrets": {"TOKEN": hidden(secret)}}) == []


@pytest.mark.parametrize(
    "workflow",
    [
        "acme/web/.github/workflows/gpu.yml@refs/heads/main",
        "acme/web/.github/workflows/gpu.yaml@v1.2",
        "acme/web.js/.github/workflows/gpu.yml@d6dc6c96df4f32fa27b039f2084f576ed2c5c2a5",
        "acme/web/.github/workflows/gpu.yml@refs/heads/release/2026",
    ],
)
def test_a_workflow_is_named_at_a_branch_a_tag_or_a_commit(workflow: str) -> None:
    assert problems(GROUP, lambda: {"selectedWorkflows": [workflow]}) == []
