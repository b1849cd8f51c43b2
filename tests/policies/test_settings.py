"""The settings of rules: exemptions, and settings that no rule reads."""

from __future__ import annotations

from datetime import date
from typing import Any

import jsonschema
import pytest
from gpu_ci_policies.rules import RULES
from gpu_ci_policies.settings import EXEMPT_SCHEMA, exemptions_of, problems, violation_text

URN = "urn:pulumi:dev::p::gpu-ci:gcp:RunnerPool$gcp:compute/instance:Instance::l4-template"
DAY = date(2026, 11, 22)


def entry(**changed: Any) -> dict[str, Any]:
    given = {"resource": "l4-template", "reason": "agreed with security", "until": "2026-11-22", **changed}
    return {name: value for name, value in given.items() if value is not None}


def result(*entries: dict[str, Any], today: date = DAY) -> str | None:
    return violation_text("it is wrong", "l4-template", URN, exemptions_of(entries), today)


@pytest.mark.parametrize("resource", ["l4-template", "l4-*", URN, "*gcp:RunnerPool$*::l4-template"])
def test_an_exemption_covers_a_name_or_a_urn_with_stars(resource: str) -> None:
    assert result(entry(resource=resource)) is None


@pytest.mark.parametrize("resource", ["t4-template", "l4", "*::L4-template"])
def test_it_covers_nothing_else(resource: str) -> None:
    assert result(entry(resource=resource)) == "it is wrong"


def test_it_holds_through_its_last_day_and_says_afterwards_that_it_has_expired() -> None:
    assert result(entry(until="2026-11-22")) is None
    expired = "it is wrong\nAn exemption expired on 2026-11-22: agreed with security."
    assert result(entry(until="2026-11-22"), today=date(2026, 11, 23)) == expired


def test_one_valid_exemption_of_several_is_enough_and_the_last_to_expire_is_named() -> None:
    old, older = entry(until="2026-02-01"), entry(until="2026-01-01", reason="an older reason")
    assert result(older, entry(until="2027-01-01"), old) is None
    assert result(older, old) == "it is wrong\nAn exemption expired on 2026-02-01: agreed with security."


def test_a_whole_exemption_fits_the_schema() -> None:
    jsonschema.validate([entry()], EXEMPT_SCHEMA, format_checker=jsonschema.FormatChecker())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reason": None}, "'reason' is a required property"),
        ({"until": None}, "'until' is a required property"),
        ({"resource": None}, "'resource' is a required property"),
        ({"until": "2027-02-30"}, "'2027-02-30' is not a 'date'"),
        ({"until": "never"}, "'never' is not a 'date'"),
        ({"reason": "because"}, "'because' does not match"),
        ({"resource": ""}, "should be non-empty"),
        ({"policy": "x"}, "Additional properties are not allowed"),
    ],
)
def test_one_without_a_reason_a_day_or_a_resource_is_refused(changed: dict[str, Any], message: str) -> None:
    validator = jsonschema.Draft7Validator(EXEMPT_SCHEMA, format_checker=jsonschema.FormatChecker())
    errors = " | ".join(error.message for error in validator.iter_errors([entry(**changed)]))
    assert message in errors


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
