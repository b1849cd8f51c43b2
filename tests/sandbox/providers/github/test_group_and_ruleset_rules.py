"""The provider refuses invalid runner groups, rulesets, repositories and environments before a request to GitHub."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.github import types

from tests.sandbox.providers.github.conftest import GROUP, RULESET, Hub

NO_CONDITIONS = {name: value for name, value in RULESET.items() if name != "conditions"}
FORM = "must include only alphanumeric characters, underscores or hyphens and consist of 100 characters or less"


def with_rules(**rules: Any) -> dict[str, Any]:
    return {**RULESET, "rules": {**RULESET["rules"], **rules}}


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a group's visibility": (
        types.RUNNER_GROUP,
        {**GROUP, "visibility": "public"},
        'visibility: expected visibility to be one of ["all" "selected" "private"], got public',
    ),
    "a repository's name": (types.REPOSITORY, {"name": "my web"}, f"name: invalid value for name ({FORM})"),
    "a repository's visibility": (
        types.REPOSITORY,
        {"name": "web", "visibility": "secret"},
        'visibility: expected visibility to be one of ["public" "private" "internal"], got secret',
    ),
    "a repository both ways": (
        types.REPOSITORY,
        {"name": "web", "visibility": "private", "private": True},
        'private: "private": conflicts with visibility',
    ),
    "an environment that waits too long": (
        types.ENVIRONMENT,
        {"repository": "web", "environment": "prod", "waitTimer": 43201},
        "waitTimer: expected wait_timer to be in the range (0 - 43200), got 43201",
    ),
    "an environment with too many reviewers": (
        types.ENVIRONMENT,
        {"repository": "web", "environment": "prod", "reviewers": [{"teams": [1, 2, 3, 4, 5, 6, 7]}]},
        "reviewers[0].teams: Too many teams: no more than 6 are taken",
    ),
    "a ruleset's name": (
        types.RULESET,
        {**RULESET, "name": "x" * 101},
        f"name: expected length of name to be in the range (1 - 100), got {'x' * 101}",
    ),
    "a ruleset's repository": (
        types.RULESET,
        {**RULESET, "repository": "acme/web"},
        f"repository: invalid value for repository ({FORM})",
    ),
    "a ruleset's target": (
        types.RULESET,
        {**NO_CONDITIONS, "target": "commit"},
        'target: expected target to be one of ["branch" "push" "tag"], got commit',
    ),
    "a ruleset's enforcement": (
        types.RULESET,
        {**RULESET, "enforcement": "on"},
        'enforcement: expected enforcement to be one of ["disabled" "active" "evaluate"], got on',
    ),
    "an actor": (
        types.RULESET,
        {**RULESET, "bypassActors": [{"actorType": "Bot", "bypassMode": "always"}]},
        (
            "bypassActors[0].actorType: expected actor_type to be one of "
            '["RepositoryRole" "Team" "Integration" "OrganizationAdmin" "DeployKey" "EnterpriseOwner" "User"], got Bot'
        ),
    ),
    "an actor's way": (
        types.RULESET,
        {**RULESET, "bypassActors": [{"actorType": "Team", "actorId": 1, "bypassMode": "never"}]},
        'bypassActors[0].bypassMode: expected bypass_mode to be one of ["always" "pull_request" "exempt"], got never',
    ),
    "too many reviews": (
        types.RULESET,
        with_rules(pullRequest={"requiredApprovingReviewCount": 11}),
        (
            "rules.pullRequest.requiredApprovingReviewCount: expected required_approving_review_count to be in the "
            "range (0 - 10), got 11"
        ),
    ),
    "a way to merge": (
        types.RULESET,
        with_rules(pullRequest={"allowedMergeMethods": ["octopus"]}),
        (
            "rules.pullRequest.allowedMergeMethods[0]: expected allowed_merge_methods to be one of "
            '["merge" "squash" "rebase"], got octopus'
        ),
    ),
    "checks without a check": (
        types.RULESET,
        with_rules(requiredStatusChecks={"requiredChecks": []}),
        "rules.requiredStatusChecks.requiredChecks: Not enough list items: requires 1 item minimum, but has only 0",
    ),
    "a rule of pushes for a branch": (
        types.RULESET,
        with_rules(maxFileSize={"maxFileSize": 5}),
        'rules.maxFileSize: rule "max_file_size" is not valid for branch target',
    ),
    "a rule of branches for pushes": (
        types.RULESET,
        {**NO_CONDITIONS, "target": "push", "rules": {"requiredLinearHistory": True}},
        'rules.requiredLinearHistory: rule "required_linear_history" is not valid for push target',
    ),
    "a branch for pushes": (
        types.RULESET,
        {**RULESET, "target": "push", "rules": {"maxFileSize": {"maxFileSize": 5}}},
        "conditions: ref_name must not be set for push target",
    ),
    "an operator": (
        types.RULESET,
        with_rules(branchNamePattern={"operator": "like", "pattern": "x"}),
        (
            'rules.branchNamePattern.operator: expected operator to be one of ["starts_with" "ends_with" "contains" '
            '"regex"], got like'
        ),
    ),
}


@pytest.mark.parametrize(("token", "inputs", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_the_provider_refuses_at_once_is_refused(
    hub: Hub, token: str, inputs: dict[str, Any], expected: str
) -> None:
    assert hub.problems(token, inputs) == [expected]


def test_a_rule_that_is_off_is_no_rule(hub: Hub) -> None:
    assert hub.problems(types.RULESET, with_rules(maxFileSize=None, creation=False)) == []
