"""Tests that no rule fails or reports a violation because a value is unknown in a preview."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN, at, boolean, document, entries, mapping, number, texts
from gpu_ci_policies.rule import Resource, RuleContext

from .samples import GOOD
from .support import BY_NAME

# So that nothing is asked less than everything.
SETTINGS: dict[str, dict[str, Any]] = {"own-keys": {"required": True}}
# When 2.338.0 was new, whatever has been released since.
DAY = date(2026, 10, 8)
ODD: list[Any] = [None, True, 5, "", "x", "{}", [], [None], [5], ["x"], [[]], {}, {"x": 5}, {"": None}]


def violations(name: str, kind: str, props: Any) -> list[str]:
    rule, resource = BY_NAME[name], Resource(kind, "x", "urn", props)
    context = RuleContext(rule.defaults | SETTINGS.get(name, {}), DAY)
    return list(rule.check(resource, context))


def with_one_replaced(value: Any, other: Any) -> Iterator[Any]:
    """Yield the value with one of its elements replaced, for each element."""
    yield other
    if isinstance(value, dict):
        for key, element in value.items():
            yield from ({**value, key: changed} for changed in with_one_replaced(element, other))
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in with_one_replaced(element, other))


def test_every_rule_is_content_with_every_sample_and_with_any_element_of_it_unknown() -> None:
    broken = [
        (name, kind, changed)
        for kind, props in GOOD
        for changed in (props, *with_one_replaced(props, UNKNOWN))
        for name in BY_NAME
        if violations(name, kind, changed)
    ]
    assert broken == []


def test_no_rule_crashes_for_any_replaced_element() -> None:
    for kind, props in GOOD:
        for other in ODD:
            for changed in with_one_replaced(props, other):
                for name in BY_NAME:
                    assert all(isinstance(text, str) for text in violations(name, kind, changed)), (
                        name,
                        changed,
                    )


def test_an_unknown_cannot_be_taken_for_true_or_false_by_mistake() -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(UNKNOWN)
    assert repr(UNKNOWN) == "(unknown)"


def test_a_part_of_an_unknown_value_is_unknown_and_a_part_of_a_missing_value_is_missing() -> None:
    props = {"a": {"b": UNKNOWN, "c": [1, UNKNOWN, {"d": 2}], "e": {"f": 1}}}
    assert at(props, "a", "b", "x", "y") is UNKNOWN
    assert at(props, "a", "x", "y") is None
    assert entries(props, "a", "c") == [1, {"d": 2}]
    assert entries(props, "a", "e") == [{"f": 1}]
    assert entries(props, "a", "b") == entries(props, "x") == []
    assert mapping({"a": 1}) == {"a": 1}
    assert mapping(UNKNOWN) == mapping("a") == {}


def test_switches_and_numbers_are_read_as_texts_too() -> None:
    assert [boolean(each) for each in (True, "true", "False", "yes", None, UNKNOWN, 1)] == [
        True, True, False, None, None, None, None,
    ]  # fmt: skip
    assert [number(each) for each in (1, 1.5, "2", "x", True, None, UNKNOWN)] == [1, 1.5, 2, None, None, None, None]


def test_json_in_a_text_is_read_and_every_text_has_its_path() -> None:
    assert document('{"a": [1]}') == {"a": [1]}
    assert document({"a": 1}) == {"a": 1}
    assert document("{") is None
    props = {"metadata": {"k": "v"}, "list": ["x", {"y": "z"}], "n": 1, "u": UNKNOWN}
    assert list(texts(props)) == [("metadata.k", "v"), ("list[0]", "x"), ("list[1].y", "z")]
