"""required-labels."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN
from gpu_ci_policies.rule import Resource, RuleContext

from .support import BY_NAME, LAUNCH_TEMPLATE, TEMPLATE, TODAY, found


@pytest.mark.parametrize(
    ("kind", "props", "violations"),
    [
        (TEMPLATE, {}, ["labels has no team"]),
        (TEMPLATE, {"labels": {"team": ""}}, ["labels has no team"]),
        (LAUNCH_TEMPLATE, {"tags": {"Team": "web"}}, ["tags has no team"]),
        (TEMPLATE, {"labels": {"team": "web"}}, []),
        (TEMPLATE, {"labels": {"team": UNKNOWN}}, []),
        (TEMPLATE, {"labels": UNKNOWN}, []),
        ("gcp:projects/iAMMember:IAMMember", {}, []),
    ],
)
def test_a_resource_that_costs_money_must_name_its_owner(
    kind: str, props: dict[str, Any], violations: list[str]
) -> None:
    assert found("required-labels", kind, props) == violations


def test_which_labels_is_chosen() -> None:
    assert found("required-labels", TEMPLATE, {"labels": {"b": "1"}}, required=["a", "b", "c"]) == [
        "labels has no a and no c"
    ]
    assert found("required-labels", TEMPLATE, {}, required=[]) == []


@pytest.mark.parametrize(
    ("kind", "provider", "violations"),
    [
        (LAUNCH_TEMPLATE, {"defaultTags": {"tags": {"team": "web"}}}, []),
        (TEMPLATE, {"defaultLabels": {"team": "web"}}, []),
        (TEMPLATE, {"defaultLabels": UNKNOWN}, []),
        (TEMPLATE, {"defaultLabels": {"other": "web"}}, ["labels has no team"]),
    ],
)
def test_default_labels_of_the_provider_count(kind: str, provider: dict[str, Any], violations: list[str]) -> None:
    rule = BY_NAME["required-labels"]
    assert rule.check is not None
    resource = Resource(kind, "x", "urn", {}, provider)
    assert list(rule.check(resource, RuleContext(rule.defaults, TODAY))) == violations
