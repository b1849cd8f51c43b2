"""Valid and invalid arguments of the runner group and of repository rules, with the messages."""

from __future__ import annotations

import pytest
from gpu_ci.args import Args

from tests.gpu_ci.github.mistakes import EXAMPLES, GROUP, problems


@pytest.mark.parametrize("model", EXAMPLES, ids=lambda model: model.__name__)
def test_the_examples_are_right(model: type[Args]) -> None:
    assert problems(model, dict) == []


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
