"""Tests of the text for a value in a report: no secret, and at most one line."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_common import pulumi_wire
from gpu_preview.diff.value_pairs import plain
from gpu_preview.diff.values import UNKNOWNS, in_digest_form, is_plain, is_unknown, short, shown

from ..danger_cases import SECRET, UPDATE, found

STRING = pulumi_wire.UNKNOWN_STRING


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        (4, "4"),
        (True, "true"),
        (None, "null"),
        (["a", 1], '["a", 1]'),
        ({"b": 1, "a": 2}, '{"a": 2, "b": 1}'),
        ({"__defaults": ["name"], "a": {"__defaults": [], "b": 1}}, '{"a": {"b": 1}}'),
        ("é", '"é"'),
        ("a\x1b[2J\nb", '"a\\u001b[2J\\nb"'),
        (STRING, "(unknown)"),
        ({"id": STRING}, '{"id": "(unknown)"}'),
        ("[secret]", "[secret]"),
        ({"token": "[secret]"}, '{"token": "[secret]"}'),
    ],
)
def test_a_value_is_one_line_of_json(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_long_text_is_its_beginning_its_length_and_a_digest() -> None:
    assert short("x" * 160) == "x" * 160
    assert short("x" * 161) == "x" * 80 + "… (161 characters, sha256 fdb7f3c4)"
    assert short("x" * 160 + "y") != short("x" * 160 + "z")


def test_a_secret_of_the_configuration_in_an_output_is_reported_from_one_that_stays_secret() -> None:
    """The engine's log marks the secret value, and has its own word in the text."""
    secret = {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "ciphertext": "[secret]"}
    assert in_digest_form({"a": secret, "b": "[secret]", "c": "x-[secret]"}) == {
        "a": "[secret]",
        "b": "(a secret, in plain)",
        "c": "x-(a secret, in plain)",
    }


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
