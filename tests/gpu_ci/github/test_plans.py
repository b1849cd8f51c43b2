"""The GitHub plan that a stack file needs."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.github.plans import needs, notes, problems

WORKFLOW = "acme/web/.github/workflows/gpu.yml@refs/heads/main"
ALL: dict[str, Any] = {
    "runnerGroup": {"repositories": ["web"], "selectedWorkflows": [WORKFLOW]},
    "secrets": {
        "one": {"scope": {"kind": "repository", "repository": "web"}},
        "two": {"scope": {"kind": "environment", "repository": "web", "environment": "prod"}},
        "three": {"scope": {"kind": "organization", "repositories": ["web"]}},
        "four": {"scope": {"kind": "organization", "visibility": "private"}},
        "five": {"scope": {"kind": "organization", "visibility": "all"}},
        "six": {"scope": {"kind": "dependabot", "repository": "web"}},
    },
    "rules": {"web": {"repository": "web"}, "trial": {"repository": "web", "enforcement": "evaluate"}},
}


def test_each_part_needs_the_plan_that_has_it() -> None:
    assert [(each.path.removeprefix("gpu-ci:github."), each.plan, each.condition) for each in needs(ALL)] == [
        ("runnerGroup", "team", "because GitHub's pages disagree whether GitHub Free has runner groups"),
        ("runnerGroup.selectedWorkflows", "enterprise", ""),
        ("secrets.two.scope", "team", "for a private repository"),
        ("secrets.three.scope", "team", "for private repositories"),
        ("secrets.four.scope", "team", ""),
        ("rules.web", "team", "for a private repository"),
        ("rules.trial", "team", "for a private repository"),
        ("rules.trial.enforcement", "enterprise", ""),
    ]


@pytest.mark.parametrize(
    ("plan", "paths"),
    [
        ("free", ["runnerGroup.selectedWorkflows", "secrets.four.scope", "rules.trial.enforcement"]),
        ("team", ["runnerGroup.selectedWorkflows", "rules.trial.enforcement"]),
        ("enterprise", []),
        (None, []),
        ("gold", []),
    ],
)
def test_what_the_plan_never_has_is_refused(plan: Any, paths: list[str]) -> None:
    assert [each.path.removeprefix("gpu-ci:github.") for each in problems(ALL, plan)] == paths


def test_a_plan_problem_has_the_given_and_the_needed_plan() -> None:
    [problem] = problems({"runnerGroup": ALL["runnerGroup"]}, "team")
    assert problem.render("Pulumi.dev.yaml") == (
        "Pulumi.dev.yaml: gpu-ci:github.runnerGroup.selectedWorkflows: needs GitHub Enterprise Cloud\n"
        "  got: gpu-ci:site.github.plan: team\n"
        "  expected: a plan with this feature: enterprise\n"
        "  hint: remove this field, or change the organization's plan and gpu-ci:site.github.plan (docs/guides/"
        "github.md, Plans)"
    )


def test_without_a_plan_the_note_names_every_plan_that_is_needed() -> None:
    assert notes({"runnerGroup": ALL["runnerGroup"], "rules": {"web": {}}}, None) == [
        (
            "GitHub plans: gpu-ci:github.runnerGroup may need GitHub Team because GitHub's pages disagree whether "
            "GitHub Free has runner groups; gpu-ci:github.runnerGroup.selectedWorkflows needs GitHub Enterprise Cloud; "
            "gpu-ci:github.rules.web needs GitHub Team for a private repository; hint: set gpu-ci:site."
            "github.plan: free or team or enterprise, so that the preview rejects features that the plan lacks"
        )
    ]


@pytest.mark.parametrize(("plan", "count"), [("free", 1), ("team", 0), ("enterprise", 0)])
def test_with_a_plan_the_note_has_what_the_visibility_of_a_repository_decides(plan: str, count: int) -> None:
    assert len(notes({"rules": {"web": {}}}, plan)) == count


@pytest.mark.parametrize("wrong", [None, [], "x", {"rules": []}, {"secrets": {"a": None}}, {"runnerGroup": 7}])
def test_what_cannot_be_read_needs_no_plan(wrong: Any) -> None:
    assert (needs(wrong), problems(wrong, "free"), notes(wrong, None)) == ([], [], [])
