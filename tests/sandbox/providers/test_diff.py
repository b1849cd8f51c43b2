"""Changes between old and new inputs: their paths, and whether they replace the resource."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi_sandbox.cli.world_commands import with_value
from pulumi_sandbox.providers.diff import Change, Comparison, compare, is_replacing, response
from pulumi_sandbox.providers.values import STRIPPED, UNKNOWN

scalars = st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
keys = st.text("abc.", min_size=1, max_size=2)
trees = st.dictionaries(
    keys,
    st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
    ),
    max_size=4,
)


def found(old: dict[str, Any], new: dict[str, Any], *ignored: str, how: Comparison | None = None) -> dict[str, str]:
    return {change.text: change.kind for change in compare(old, new, ignored=ignored, comparison=how)}


@given(trees)
def test_equal_inputs_have_no_difference(tree: dict[str, Any]) -> None:
    assert compare(tree, tree) == []
    assert response(compare(tree, tree), lambda _: True).changes == pb.DiffResponse.DIFF_NONE


@given(trees, trees)
def test_applying_every_change_to_the_old_inputs_gives_the_new_ones(old: dict[str, Any], new: dict[str, Any]) -> None:
    changes = compare(old, new)
    patched: Any = old
    # The last items of a list go first, so that those before keep their places.
    for change in sorted(
        changes,
        key=lambda change: [(isinstance(one, int), one) for one in change.path if isinstance(one, int)],
        reverse=True,
    ):
        if change.kind == "DELETE":
            patched = with_value(patched, change.path, None)
    for change in changes:
        if change.kind != "DELETE":
            patched = with_value(patched, change.path, change.new)
    assert patched == new


def test_a_change_is_reported_at_the_deepest_path() -> None:
    old = {"versions": [{"name": "a", "instanceTemplate": "t1"}], "labels": {"a.b": "1", "c": "2"}, "gone": 1}
    new = {"versions": [{"name": "a", "instanceTemplate": "t2"}, {"name": "b"}], "labels": {"a.b": "9"}, "here": 1}
    assert found(old, new) == {
        "versions[0].instanceTemplate": "UPDATE",
        "versions[1]": "ADD",
        'labels["a.b"]': "UPDATE",
        "labels.c": "DELETE",
        "gone": "DELETE",
        "here": "ADD",
    }


def test_an_unknown_value_is_a_change_even_where_nothing_was() -> None:
    assert found({"a": "x", "b": {"c": [1]}}, {"a": UNKNOWN, "b": {"c": [UNKNOWN, UNKNOWN]}, "d": UNKNOWN}) == {
        "a": "UPDATE",
        "b.c[0]": "UPDATE",
        "b.c[1]": "ADD",
        "d": "ADD",
    }


def test_an_empty_list_is_nothing_only_to_a_bridged_provider() -> None:
    old: dict[str, Any] = {"a": [], "b": {"__defaults": []}}
    assert found(old, {}) == {"a": "DELETE", "b": "DELETE"}
    assert found(old, {}, how=Comparison(empty_is_missing=True)) == {}


def test_what_ignore_changes_names_is_left_out_with_all_within_it() -> None:
    old = {"targetSize": 1, "versions": [{"name": "a", "t": 1}, {"name": "b", "t": 1}], "tags": {"x": "1", "y": "1"}}
    new = {"targetSize": 2, "versions": [{"name": "z", "t": 2}, {"name": "z", "t": 2}], "tags": {"x": "2", "y": "2"}}
    assert found(old, new, "targetSize", "versions[*].t", "tags") == {
        "versions[0].name": "UPDATE",
        "versions[1].name": "UPDATE",
    }
    assert found(old, new, "*") == {}
    assert "targetSize" in found(old, new, "target", "targetSize.x", "a[")


def test_values_the_vendor_takes_for_the_same_are_no_change() -> None:
    how = Comparison(same=lambda path, old, new: path == "template" and old.rpartition("/")[2] == new)
    assert found({"template": "https://x/t1"}, {"template": "t1"}, how=how) == {}
    assert found({"template": "https://x/t1"}, {"template": "t2"}, how=how) == {"template": "UPDATE"}
    assert found({"other": "https://x/t1"}, {"other": "t1"}, how=how) == {"other": "UPDATE"}


def test_a_value_that_becomes_secret_is_an_update_that_replaces_nothing() -> None:
    values = {"a": {"b": "x"}, "c": "y"}
    hidden = frozenset({("a", "b")})
    [change] = compare(values, values, new_secrets=hidden)
    assert (change.text, change.kind, change.secrecy) == ("a.b", "UPDATE", True)
    assert is_replacing(change, lambda _: True) is False
    assert compare(values, values, old_secrets=hidden) == []
    assert compare(values, values, old_secrets=frozenset({("a",)}), new_secrets=hidden) == []
    [both] = compare(values, {**values, "a": {"b": "z"}}, new_secrets=hidden)
    assert both.secrecy is False


@pytest.mark.parametrize(
    ("new", "secrets"),
    [
        ({"key": "rotated", "size": 1}, {("key",)}),
        ({"key": {"a": "rotated"}, "size": 1}, {("key",)}),
        ({"key": {"a": "rotated"}, "size": 1}, {("key", "a")}),
    ],
)
def test_a_secret_that_was_taken_out_is_the_same_as_any_in_its_place(new: dict[str, Any], secrets: set[Any]) -> None:
    old = {"key": STRIPPED, "size": 1}
    assert compare(old, new, old_secrets=frozenset({("key",)}), new_secrets=frozenset(secrets)) == []
    [change] = compare({**old, "size": 2}, new, old_secrets=frozenset({("key",)}), new_secrets=frozenset(secrets))
    assert change.text == "size"


def test_a_secret_that_was_taken_out_is_no_plain_value_and_not_nothing() -> None:
    old, was = {"key": STRIPPED, "in": {"it": STRIPPED}}, frozenset({("key",), ("in", "it")})
    assert {each.text: each.kind for each in compare(old, {"key": "plain", "in": {}}, old_secrets=was)} == {
        "key": "UPDATE",
        "in.it": "DELETE",
    }
    assert {each.text for each in compare(old, {"key": STRIPPED, "in": {"it": "x"}}, old_secrets=was)} == {"in.it"}


def test_a_default_that_a_cloud_noted_down_is_not_missed() -> None:
    """Real providers keep their defaults among the inputs of a state, and name them in `__defaults`."""
    old = {"name": "a-1f3", "force": False, "in": {"tier": "a", "size": 1, "__defaults": ["tier"]}, "mine": 1}
    old["__defaults"] = ["name", "force"]
    assert found(old, {"name": "a-1f3", "in": {"size": 1}, "mine": 1}) == {}
    assert found(old, {"name": "b", "force": True, "in": {"size": 2}}) == {
        "name": "UPDATE",
        "force": "UPDATE",
        "in.size": "UPDATE",
        "mine": "DELETE",
    }


def test_a_block_that_comes_replaces_when_anything_within_it_would() -> None:
    def replaces(path: str) -> bool:
        return path == "disks[1].source"

    assert is_replacing(Change(("disks", 1), "ADD", None, {"source": "s"}), replaces) is True
    assert is_replacing(Change(("disks", 1), "DELETE", {"source": "s"}, None), replaces) is True
    assert is_replacing(Change(("disks", 1), "ADD", None, {"mode": "m"}), replaces) is False
    assert is_replacing(Change(("disks", 0), "ADD", None, {"source": "s"}), replaces) is False
    assert is_replacing(Change(("x",), "UPDATE"), lambda _: None) is None
