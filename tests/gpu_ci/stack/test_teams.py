"""The key gpu-ci:teams of a stack file."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.stack.parse import Stack
from gpu_ci.stack.teams import TEAMS, Team, check

TEAM = {"repositories": ["kernels", "detector"], "usdPerMonth": 300, "onBudget": "stop"}


def test_the_teams_of_a_stack_are_read_by_name() -> None:
    stack = Stack("Pulumi.dev.yaml", "dev", {TEAMS: {"vision": TEAM, "speech": {"repositories": ["asr"]}}})
    assert stack.problems_of_teams == []
    assert stack.teams == {
        "vision": Team(repositories=["kernels", "detector"], usd_per_month=300, on_budget="stop"),
        "speech": Team(repositories=["asr"], usd_per_month=None, on_budget="warn"),
    }
    assert check(None) == ({}, [])


def test_a_secret_names_no_teams() -> None:
    stack = Stack("Pulumi.dev.yaml", "dev", {TEAMS: "{}"}, secrets=[TEAMS])
    assert (stack.teams, [each.rule for each in stack.problems_of_teams]) == ({}, ["secret-value"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([TEAM], ["gpu-ci:teams: must be a map"]),
        ({"(no team)": TEAM}, ['gpu-ci:teams["(no team)"]: has a form that is not accepted']),
        ({"vision": None}, ["gpu-ci:teams.vision: must be a map"]),
        ({"vision": {}}, ["gpu-ci:teams.vision.repositories: is missing"]),
        ({"vision": TEAM | {"repositories": []}}, ["gpu-ci:teams.vision.repositories: needs at least one"]),
        ({"vision": TEAM | {"repositories": ["acme/a"]}},
         ["gpu-ci:teams.vision.repositories[0]: has a form that is not accepted"]),
        ({"vision": TEAM | {"usdPerMonth": 0}}, ["gpu-ci:teams.vision.usdPerMonth: must be more than 0.0"]),
        ({"vision": TEAM | {"budget": 3}}, ["gpu-ci:teams.vision.budget: unknown key"]),
        ({"vision": TEAM | {"onBudget": "halt"}}, ["gpu-ci:teams.vision.onBudget: must be one of 'warn' or 'stop'"]),
        ({"vision": {"repositories": ["a"], "onBudget": "stop"}},
         ["gpu-ci:teams.vision.onBudget: has no effect without usdPerMonth"]),
        ({"vision": TEAM, "speech": {"repositories": ["asr", "Kernels"], "usdPerMonth": -1}},
         ["gpu-ci:teams.speech.usdPerMonth: must be more than 0.0",
          "gpu-ci:teams.speech.repositories[1]: is also a repository of vision"]),
    ],
)  # fmt: skip
def test_every_mistake_has_its_path_and_a_hint(given: Any, expected: list[str]) -> None:
    teams, problems = check(given)
    assert teams == {}
    assert [f"{each.path}: {each.text}" for each in problems] == expected
    assert problems == [each for each in Stack("x", "x", {TEAMS: given}).problems if each.path.startswith(TEAMS)]
    assert all(each.got and each.expected and each.hint for each in problems)
