"""Tests of the comparison of two states of a resource."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_common import pulumi_wire
from gpu_preview.diff.differences import between, engine_diffs, reported
from gpu_preview.diff.value_pairs import decoded
from hypothesis import given
from hypothesis import strategies as st

UNKNOWN = pulumi_wire.UNKNOWN_STRING
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["[secret]", UNKNOWN]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def lines(before: Any, after: Any) -> list[tuple[str, str, str | None, str | None]]:
    return [(each.path, each.kind, each.before, each.after) for each in between(before, after)]


def opened(value: Any) -> Any:
    """Return the value with JSON texts parsed, because another form of the same JSON is no difference."""
    if isinstance(value, dict):
        return {key: opened(part) for key, part in value.items()}
    if isinstance(value, list):
        return [opened(part) for part in value]
    inside = decoded(value)
    return value if inside is value else {"a text of JSON": opened(inside)}


def written(value: Any) -> str:
    """Return a JSON text, in which True and 1 differ, unlike in Python."""
    return json.dumps(opened(value), sort_keys=True)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", "update", "1", "2")]),
        ({"a": 1}, {}, [("a", "delete", "1", None)]),
        ({}, {"a": None}, [("a", "add", None, "null")]),
        ({"a": 1}, {"a": True}, [("a", "update", "1", "true")]),
        ({"a": {"b": 1}}, {"a": {"b": True}}, [("a.b", "update", "1", "true")]),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 3}]}}, [("a.b[1].c", "update", "2", "3")]),
        ({"a": ["x", "y"]}, {"a": ["x"]}, [("a", "update", '["x", "y"]', '["x"]')]),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}]}, [("a[1]", "delete", '{"b": 2}', None)]),
        ({"a.b": 1}, {"a.b": 2}, [('["a.b"]', "update", "1", "2")]),
        ({"m": {"x/y": 1}}, {"m": {"x/y": 2}}, [('m["x/y"]', "update", "1", "2")]),
        ({"m": '{"v": "1", "w": 0}'}, {"m": '{"v": "2", "w": 0}'}, [("m#v", "update", '"1"', '"2"')]),
        ({"m": '{"v": 1}'}, {"m": "[1]"}, [("m", "update", '"{\\"v\\": 1}"', '"[1]"')]),
        ({"a": 1}, {"a": UNKNOWN}, [("a", "update", "1", "(unknown)")]),
        ({"a": UNKNOWN}, {"a": UNKNOWN}, []),
        ({"a": {"b": 1}}, {"a": UNKNOWN}, [("a", "update", '{"b": 1}', "(unknown)")]),
        ({"__defaults": ["a"]}, {"__defaults": []}, []),
    ],
)
def test_every_leaf_that_differs_is_reported_once(before: Any, after: Any, found: list[Any]) -> None:
    assert lines(before, after) == found


def test_a_secret_that_becomes_plain_is_not_shown() -> None:
    assert lines({"a": "[secret]"}, {"a": "hunter2"}) == [("a", "update", "[secret]", "[was secret, not shown]")]
    assert lines({"a": "hunter2"}, {"a": "[secret]"}) == [("a", "update", "[was secret, not shown]", "[secret]")]
    assert lines({"a": "[secret]"}, {"a": {"b": "hunter2"}}) == [("a", "update", "[secret]", "[was secret, not shown]")]
    assert lines({"a": "[secret]"}, {"a": UNKNOWN}) == [("a", "update", "[secret]", "(unknown)")]


@given(JSON, JSON)
def test_any_two_values_can_be_compared(before: Any, after: Any) -> None:
    found = list(between(before, after, "p"))
    assert bool(found) is (written(before) != written(after))
    assert len({each.path for each in found}) == len(found)


def test_the_engines_paths_are_shown_with_what_they_force() -> None:
    old = {"inputs": {"machineType": "n1-standard-4", "labels": {"team": "a"}}, "outputs": {"size": 3}}
    new = {"inputs": {"machineType": "n1-standard-8", "labels": {"team": "b"}, "size": 4}}
    step = {
        "detailedDiff": {
            "machineType": {"kind": "update-replace", "inputDiff": True},
            "size": {"kind": "update", "inputDiff": False},
        }
    }
    assert [tuple(each.model_dump().values()) for each in reported(old, new, engine_diffs(step))] == [
        ("machineType", "update", True, '"n1-standard-4"', '"n1-standard-8"'),
        ("size", "update", False, "3", "4"),
    ]


def test_without_a_detailed_diff_the_reasons_are_taken_and_without_these_the_inputs() -> None:
    old, new = {"inputs": {"a": 1, "b": 1}}, {"inputs": {"a": 2, "b": 2}}
    by_reason = reported(old, new, engine_diffs({"diffReasons": ["a"], "replaceReasons": ["a"]}))
    assert [(each.path, each.forces_replacement) for each in by_reason] == [("a", True)]
    assert [each.path for each in reported(old, new, engine_diffs({}))] == ["a", "b"]
    assert engine_diffs({"replaceReasons": ["id"]}) == {"id": (True, True)}


def test_texts_in_texts_in_texts_are_compared_as_deep_as_any_value_goes() -> None:
    def nested(leaf: int) -> str:
        text = str(leaf)
        for _ in range(10):
            text = "[" * 120 + json.dumps(text) + "]" * 120
        return text

    (found,) = between(nested(1), nested(2))
    assert found.path.count("[0]") + found.path.count("#") == 128


def test_a_part_of_a_secret_that_the_engine_says_differs_is_another_secret() -> None:
    step = {"detailedDiff": {"stringData.t": {"kind": "update-replace", "inputDiff": True}}}
    state = {"inputs": {"stringData": "[secret]"}}
    [change] = reported(state, state, engine_diffs(step))
    assert (change.path, change.before, change.after) == ("stringData.t", "[secret]", "[another secret]")


def paths(before: Any, after: Any) -> list[tuple[str, str]]:
    return [(each.path, each.kind) for each in between(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # Another order is a difference. An entry at the index of a removed one counts as a change of that one. Entries
        # without a unique and visible name are compared by index.
        ([{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}],
         [("[0].name", "update"), ("[1].name", "update")]),
        ([{"name": "a", "x": 1}], [{"name": "b", "x": 1}], [("[0].name", "update")]),
        ([{"name": "a"}, {"name": "a"}], [{"name": "b"}, {"name": "a"}, {"name": "a"}],
         [("[0].name", "update"), ("[2]", "add")]),
        ([{"name": "[secret]"}], [{"name": "a"}, {"name": "[secret]"}], [("[0].name", "update"), ("[1]", "add")]),
        ([{"name": 1}, {"name": 2}], [{"name": 2}], [("[0].name", "update"), ("[1]", "delete")]),
        ([], [{"name": "a"}], [("[0]", "add")]),
        ([{"name": "a", "x": 1}, {"name": "b", "x": 2}], [{"name": "b", "x": 2}], [("[0]", "delete")]),
    ],
)  # fmt: skip
def test_names_are_taken_where_they_tell_parts_apart_and_less_differs_by_them(
    before: Any, after: Any, expected: list[tuple[str, str]]
) -> None:
    assert paths(before, after) == expected
