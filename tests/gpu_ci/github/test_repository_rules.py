"""The resources of repository rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_ci.github.repository_rules import RepositoryRules, RepositoryRulesArgs

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import CALLS, COMPUTED


def run(program: Callable[[], Any], **options: Any) -> Deployment:
    return deploy(program, computed=COMPUTED, calls=CALLS, **options)


def rules(**changes: Any) -> Deployment:
    return run(lambda: RepositoryRules("main", RepositoryRulesArgs(**{"repository": "web", **changes})))


PULL_REQUEST = {
    "requiredApprovingReviewCount": 1,
    "dismissStaleReviewsOnPush": True,
    "requireCodeOwnerReview": False,
    "requireLastPushApproval": False,
    "requiredReviewThreadResolution": True,
}


def test_the_default_branch_changes_by_pull_request_only_and_stays() -> None:
    made = rules()
    row = made.one(":RepositoryRuleset")
    assert row.inputs == {
        "name": "main",
        "repository": "web",
        "target": "branch",
        "enforcement": "active",
        "conditions": {"refName": {"includes": ["~DEFAULT_BRANCH"], "excludes": []}},
        "rules": {
            "deletion": True,
            "nonFastForward": True,
            "requiredLinearHistory": False,
            "pullRequest": PULL_REQUEST,
        },
        "bypassActors": [],
    }
    assert list(row.request.replaceOnChanges) == ["repository"]
    assert made.outputs[made.rows[0].urn] == {"rulesetId": 7}


def test_required_checks_must_have_passed_on_the_latest_commit() -> None:
    checks = [{"context": "gpu", "integrationId": 15368}, {"context": "lint"}]
    inputs = rules(requiredChecks=checks).one(":RepositoryRuleset").inputs
    assert inputs["rules"]["requiredStatusChecks"] == {
        "requiredChecks": [{"context": "gpu", "integrationId": 15368}, {"context": "lint"}],
        "strictRequiredStatusChecksPolicy": True,
    }


def test_every_kind_of_actor_is_named_as_github_does() -> None:
    actors = [
        {"type": "RepositoryRole", "role": "admin"},
        {"type": "RepositoryRole", "role": "maintain", "bypassMode": "always"},
        {"type": "RepositoryRole", "role": "write"},
        {"type": "Team", "id": 11},
        {"type": "Integration", "id": 12, "bypassMode": "exempt"},
        {"type": "User", "id": 13},
        {"type": "OrganizationAdmin"},
        {"type": "DeployKey", "bypassMode": "always"},
    ]
    given = rules(bypassActors=actors).one(":RepositoryRuleset").inputs["bypassActors"]
    assert [(each["actorType"], each.get("actorId"), each["bypassMode"]) for each in given] == [
        ("RepositoryRole", 5, "pull_request"),
        ("RepositoryRole", 2, "always"),
        ("RepositoryRole", 4, "pull_request"),
        ("Team", 11, "pull_request"),
        ("Integration", 12, "exempt"),
        ("User", 13, "pull_request"),
        ("OrganizationAdmin", None, "pull_request"),
        ("DeployKey", None, "always"),
    ]


def test_what_a_pull_request_needs_can_be_chosen() -> None:
    chosen = {"requiredApprovingReviewCount": 0, "requireCodeOwnerReview": True, "allowedMergeMethods": ["squash"]}
    inputs = rules(pullRequest=chosen, requiredLinearHistory=True, enforcement="evaluate").one(":RepositoryRuleset")
    assert inputs.inputs["enforcement"] == "evaluate"
    assert inputs.inputs["rules"]["requiredLinearHistory"] is True
    assert inputs.inputs["rules"]["pullRequest"] == {**PULL_REQUEST, **chosen}
