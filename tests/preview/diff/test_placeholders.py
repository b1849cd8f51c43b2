"""Tests of the placeholders for values that are unknown before the update."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_preview.diff.placeholders import UNKNOWNS, is_plain, is_unknown
from gpu_preview.diff.value_pairs import plain
from gpu_preview.diff.values import shown

from ..danger_cases import SECRET, UPDATE, found

GROUP = "github:index/actionsRunnerGroup:ActionsRunnerGroup"
RULESET = "github:index/repositoryRuleset:RepositoryRuleset"
PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
# Each would be a danger if the second inputs had a value instead of `...`.
NO_DANGER: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("gcp:compute/instance:Instance", {"metadata": {"key": SECRET}}, {"metadata": {"key": ...}}),
    (PROVIDER, {"attributeCondition": "a == 'b'"}, {"attributeCondition": ...}),
    (RULESET, {"enforcement": "active"}, {"enforcement": ...}),
    (RULESET, {"bypassActors": []}, {"bypassActors": [...]}),
    (GROUP, {"restrictedToWorkflows": True}, {"restrictedToWorkflows": ...}),
]


def filled(value: Any, unknown: str) -> Any:
    if isinstance(value, dict):
        return {key: filled(each, unknown) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, unknown) for each in value]
    return unknown if value is ... else value


@pytest.mark.parametrize("unknown", sorted(UNKNOWNS))
def test_an_unknown_of_any_type_is_no_danger(unknown: str) -> None:
    assert [found(type_, UPDATE, before, filled(after, unknown)) for type_, before, after in NO_DANGER] == [[]] * 5
    assert all(found(type_, UPDATE, before, filled(after, "x")) for type_, before, after in NO_DANGER)


@pytest.mark.parametrize("unknown", sorted(UNKNOWNS))
def test_an_unknown_of_any_type_is_none_that_can_be_read(unknown: str) -> None:
    assert (is_unknown(unknown), is_plain(unknown), plain([unknown, None]), shown(unknown)) == (
        True,
        False,
        False,
        "(unknown)",
    )
