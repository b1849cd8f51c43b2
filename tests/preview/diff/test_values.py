"""Tests of the text for a value in a report: no secret, and at most one line."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_common import pulumi_wire
from gpu_preview.diff.value_pairs import decoded, joined, leaves, pairs, plain, steps_of
from gpu_preview.diff.values import SECRET, UNKNOWNS, in_digest_form, is_plain, is_unknown, short, shown
from hypothesis import given
from hypothesis import strategies as st

from ..danger_cases import UPDATE, found

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


UNKNOWN = pulumi_wire.UNKNOWN_STRING


def pairs_of(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """Return the pairs without parts."""
    return [
        (pair.text, pair.before, pair.after) for pair in pairs(before, after) if not isinstance(pair.after, dict | list)
    ]


def test_the_parts_of_a_json_text_stand_behind_a_sign() -> None:
    assert pairs_of({"m": {"x-y": '{"torch": "2.9"}'}}, {"m": {"x-y": '{"torch": "2.8"}'}}) == [
        ('m["x-y"]', '{"torch": "2.9"}', '{"torch": "2.8"}'),
        ('m["x-y"]#torch', "2.9", "2.8"),
    ]


def test_a_text_longer_than_any_policy_is_a_text_and_no_json() -> None:
    longest = f"[{' ' * 199_997}1]"
    assert decoded(longest) == [1]
    assert decoded(f"{longest} ") == f"{longest} "


def test_below_what_is_gone_secret_or_unknown_there_is_nothing() -> None:
    before = {"a": {"b": 1}, "c": {"d": 2}, "e": {"f": 3}}
    assert pairs_of(before, {"c": SECRET, "e": UNKNOWN}) == [
        ("c", {"d": 2}, SECRET),
        ("e", {"f": 3}, UNKNOWN),
        ("a", {"b": 1}, None),
    ]


def test_maps_of_a_list_are_the_same_by_their_names() -> None:
    before = [{"name": "a", "v": 1}, {"name": "b", "v": 2}]
    after = [{"name": "b", "v": 3}, {"name": "c", "v": 4}]
    assert pairs_of({"l": before}, {"l": after}) == [
        ("l[0].name", "b", "b"),
        ("l[0].v", 2, 3),
        ("l[1].name", None, "c"),
        ("l[1].v", None, 4),
    ]


def test_plain_parts_of_a_list_are_the_same_by_their_values_and_the_rest_in_order() -> None:
    assert pairs_of({"l": ["s", "a"]}, {"l": ["a", "t"]}) == [("l[0]", "a", "a"), ("l[1]", "s", "t")]
    assert pairs_of({"l": [{"v": 1}, {"v": 2}]}, {"l": [{"v": 3}]}) == [("l[0].v", 1, 3)]
    assert pairs_of({"l": [1]}, {"l": [True]}) == [("l[0]", 1, True)]


@pytest.mark.parametrize(
    ("value", "is_plain"),
    [
        (None, False),
        (SECRET, False),
        (UNKNOWN, False),
        ("", True),
        (0, True),
        ({}, False),
        ({"a": SECRET, "b": [UNKNOWN]}, False),
        ({"a": SECRET, "b": ["x"]}, True),
    ],
)
def test_a_value_is_plain_where_any_part_of_it_can_be_read(value: Any, is_plain: bool) -> None:
    assert plain(value) is is_plain


def test_a_value_that_nests_without_an_end_is_cut_off() -> None:
    value: Any = "deep"
    for _ in range(5000):
        value = [value]
    assert leaves(value) == ()
    assert len(list(pairs(value, value))) == 64


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ["a"]),
        ("versions[0].instanceTemplate", ["versions", 0, "instanceTemplate"]),
        ('labels["a.b/c"].d', ["labels", "a.b/c", "d"]),
        ('x["a\\"b"]', ["x", 'a"b']),
        ("gpu-ci:pools", ["gpu-ci:pools"]),
    ],
)
def test_a_path_of_the_engine_is_its_names_and_numbers(path: str, steps: list[str | int]) -> None:
    assert steps_of(path) == steps


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4))
def test_a_path_that_was_joined_is_read_back(names: list[str]) -> None:
    path = ""
    for name in names:
        path = joined(path, name)
    assert steps_of(path) == names


# What PropertyPath.String of the engine makes of them, but for the last two.
