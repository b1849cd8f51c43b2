"""Valid and invalid arguments of the runner group and of repository rules, with the messages."""

from __future__ import annotations

import pulumi
import pytest
from gpu_ci.args import Args

from tests.gpu_ci.github.mistakes import EXAMPLES, GROUP, RULES, Case, judge, problems

REPOSITORY = "letters, digits, dots, dashes and underscores, at most 100"
WORKFLOW = "acme/web/.github/workflows/gpu.yml@refs/heads/main"

REFUSED: dict[str, Case] = {
    "a repository with a space": (
        GROUP,
        lambda: {"repositories": ["web", "my web"]},
        "repositories[1]",
        "is not the name of a repository",
        REPOSITORY,
    ),
    "a repository that comes later and is none": (
        GROUP,
        lambda: {"repositories": [pulumi.Output.from_input("my web")]},
        "repositories[0]",
        "is not the name of a repository",
        REPOSITORY,
    ),
    "a repository twice": (
        GROUP,
        lambda: {"repositories": ["web", "Web"]},
        "repositories[1]",
        "is a duplicate of web; names are case-insensitive",
        "remove it",
    ),
    "a workflow twice": (
        GROUP,
        lambda: {"selectedWorkflows": [WORKFLOW, WORKFLOW]},
        "selectedWorkflows[1]",
        f"is a duplicate of {WORKFLOW}; names are case-insensitive",
        "remove it",
    ),
    "a group for nobody": (
        GROUP,
        lambda: {"repositories": []},
        "repositories",
        "needs at least one",
        "",
    ),
    "the default group": (
        GROUP,
        lambda: {"groupName": "Default"},
        "groupName",
        "is the default group, which every organization already has",
        "use another name, such as gpu",
    ),
    "a workflow without a ref": (
        GROUP,
        lambda: {"selectedWorkflows": ["acme/web/.github/workflows/gpu.yml"]},
        "selectedWorkflows[0]",
        "has no ref, so workflows from any branch would be allowed",
        WORKFLOW,
    ),
    "a workflow that is only a file": (
        GROUP,
        lambda: {"selectedWorkflows": ["gpu.yml@main"]},
        "selectedWorkflows[0]",
        "is not a workflow",
        WORKFLOW,
    ),
    "a workflow outside of its folder": (
        GROUP,
        lambda: {"selectedWorkflows": ["acme/web/workflows/gpu.yml@v1"]},
        "selectedWorkflows[0]",
        "is not a workflow",
        "did you mean acme/web/.github/workflows/gpu.yml@v1",
    ),
    "more reviews than GitHub counts": (
        RULES,
        lambda: {"pullRequest": {"requiredApprovingReviewCount": 11}},
        "pullRequest.requiredApprovingReviewCount",
        "must be at most 10",
        "",
    ),
    "no way to merge": (
        RULES,
        lambda: {"pullRequest": {"allowedMergeMethods": ["merge"]}, "requiredLinearHistory": True},
        "requiredLinearHistory",
        "allows no merge: pullRequest.allowedMergeMethods allows merge commits only",
        "add squash or rebase to pullRequest.allowedMergeMethods",
    ),
    "a check twice": (
        RULES,
        lambda: {"requiredChecks": [{"context": "gpu"}, {"context": "gpu"}]},
        "requiredChecks[1].context",
        "is a duplicate",
        "remove it",
    ),
    "a check that is only a name": (
        RULES,
        lambda: {"requiredChecks": ["gpu"]},
        "requiredChecks[0]",
        "must be a map",
        "",
    ),
    "an enforcement there is not": (
        RULES,
        lambda: {"enforcement": "enabled"},
        "enforcement",
        "must be one of 'active', 'evaluate' or 'disabled'",
        "",
    ),
    "an actor there is not": (
        RULES,
        lambda: {"bypassActors": [{"type": "team", "id": 5}]},
        "bypassActors[0].type",
        "is not one of the choices",
        "did you mean Team",
    ),
    "a team without its number": (
        RULES,
        lambda: {"bypassActors": [{"type": "Team"}]},
        "bypassActors[0].id",
        "is missing",
        "",
    ),
    "owners with a number": (
        RULES,
        lambda: {"bypassActors": [{"type": "OrganizationAdmin", "id": 1}]},
        "bypassActors[0].id",
        "unknown key",
        "remove it",
    ),
    "a deploy key that makes pull requests": (
        RULES,
        lambda: {"bypassActors": [{"type": "DeployKey", "bypassMode": "pull_request"}]},
        "bypassActors[0].bypassMode",
        "must be one of 'always' or 'exempt'",
        "",
    ),
    "a ruleset name that is too long": (
        RULES,
        lambda: {"rulesetName": "x" * 101},
        "rulesetName",
        "must have at most 100 characters",
        "",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_one_cause_is_one_problem_with_one_hint(case: Case) -> None:
    judge(case)


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
