"""Settings that no rule reads."""

from __future__ import annotations

import pytest
from gpu_ci_policies.rules import RULES
from gpu_ci_policies.settings import problems


def test_every_setting_of_every_rule_is_known_and_so_is_the_level_of_all() -> None:
    given = {rule.name: [*rule.settings, "exempt", "enforcementLevel"] for rule in RULES}
    assert list(problems(given | {"all": ["enforcementLevel"]})) == []


def test_a_rule_that_is_not_there_is_reported_with_the_nearest() -> None:
    [problem] = problems({"no-public-ips": []})
    listed = ", ".join(sorted(["all", *(rule.name for rule in RULES)]))
    assert problem == (
        f"no-public-ips: no such rule\n  got: no-public-ips\n  expected: {listed}\n  hint: did you mean no-public-ip?"
    )


@pytest.mark.parametrize(
    ("rule", "setting", "problem"),
    [
        ("imds-hop-limit", "maxHop", "enforcementLevel, exempt, maxHops\n  hint: did you mean maxHops?"),
        ("no-public-ip", "zzz", "enforcementLevel, exempt"),
        ("all", "exempt", "enforcementLevel"),
    ],
)
def test_a_setting_that_the_rule_has_not_is_reported_with_the_nearest(rule: str, setting: str, problem: str) -> None:
    assert list(problems({rule: [setting]})) == [
        f"{rule}.{setting}: no such setting\n  got: {setting}\n  expected: {problem}"
    ]


def test_every_problem_is_reported_at_once() -> None:
    found = list(problems({"own-keys": ["requred", "exemt"], "nope": ["x"]}))
    assert [each.partition(":")[0] for each in found] == ["nope", "own-keys.exemt", "own-keys.requred"]
