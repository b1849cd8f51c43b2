"""Tests that a report does not show a value that was a secret at another path of the same property."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_preview.diff.differences import (
    ANOTHER_MAYBE,
    MAYBE_SECRET,
    between,
    engine_diffs,
    exposes_secret,
    reported,
)
from gpu_preview.model import Severity

from ..danger_cases import CREATE, SECRET, UPDATE, found

PLAIN = "hunter2"
MOVED = {
    "a named part behind a new first one": (
        [{"name": "TOKEN", "value": SECRET}, {"name": "LEVEL", "value": "info"}],
        [{"name": "LEVEL", "value": "debug"}, {"name": "TOKEN", "value": PLAIN}],
    ),
    "a named part that is renamed": ([{"name": "A", "value": SECRET}], [{"name": "B", "value": PLAIN}]),
    "a part in front that goes": ([SECRET, "--v"], ["--v", PLAIN]),
    "the one part that stays": (["a", SECRET], [PLAIN]),
    "another key": ({"old": SECRET}, {"new": PLAIN}),
    "a part that becomes the whole": ({"a": SECRET}, PLAIN),
    "a list that becomes the whole": ([SECRET], PLAIN),
    "a part higher up": ({"a": {"b": SECRET}}, {"a": PLAIN}),
    "a text of JSON": ('{"a": "[secret]"}', f'{{"b": "{PLAIN}"}}'),
}


@pytest.mark.parametrize(("before", "after"), MOVED.values(), ids=MOVED)
def test_a_secret_that_is_plain_somewhere_else_is_reported_and_never_shown(before: Any, after: Any) -> None:
    changes = list(between({"env": before}, {"env": after}))
    assert changes
    assert PLAIN not in repr(changes)
    [*findings] = found("my:own:Thing", UPDATE, {"env": before}, {"env": after})
    assert {each.rule for each in findings} == {"secret-exposed"}
    assert PLAIN not in repr(findings)


@pytest.mark.parametrize(("before", "after"), MOVED.values(), ids=MOVED)
def test_a_plain_value_that_becomes_secret_at_another_path_is_not_shown(before: Any, after: Any) -> None:
    assert PLAIN not in repr(list(between({"env": after}, {"env": before})))


def test_the_engine_names_places_and_the_values_there_are_hidden_too() -> None:
    before, after = MOVED["a named part behind a new first one"]
    named = {"detailedDiff": {"env[0].value": {"inputDiff": True}, "env[1].value": {"inputDiff": True}}}
    changes = reported({"inputs": {"env": before}}, {"inputs": {"env": after}}, engine_diffs(named))
    assert [(each.path, each.before, each.after) for each in changes] == [
        ("env[0].value", SECRET, "[was secret, not shown]"),
        ("env[1].value", '"info"', MAYBE_SECRET),
    ]


def test_two_values_that_are_hidden_are_still_seen_to_differ() -> None:
    before, after = {"a": SECRET, "b": "x"}, {"a": "y", "b": SECRET, "c": "z"}
    [*changes] = between({"p": {**before, "d": 1}}, {"p": {**after, "d": 2}})
    assert [(each.path, each.before, each.after) for each in changes if each.path == "p.d"] == [
        ("p.d", MAYBE_SECRET, ANOTHER_MAYBE)
    ]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ({"a": SECRET, "b": "x"}, {"a": SECRET, "b": "y"}, ('"x"', '"y"')),  # the secret stays where it is
        ({"a": SECRET, "b": "x", "c": "k"}, {"b": "k", "c": "k"}, ('"x"', '"k"')),  # it was plain before
        ({"a": SECRET, "b": False}, {"b": True}, ("false", "true")),  # no secret is one of two values
    ],
)
def test_a_value_that_cannot_be_the_secret_is_shown(before: Any, after: Any, shown: tuple[str, str]) -> None:
    [change] = [each for each in between({"p": before}, {"p": after}) if each.path == "p.b"]
    assert (change.before, change.after) == shown


def test_a_secret_that_only_goes_is_no_concern() -> None:
    assert not exposes_secret({"a": SECRET, "b": 1}, {"b": 1})
    assert found("my:own:Thing", UPDATE, {"env": {"a": SECRET, "b": "x"}}, {"env": {"b": "x"}}) == []


def test_a_possible_secret_is_a_warning_and_a_certain_one_is_a_danger() -> None:
    [maybe] = found("my:own:Thing", UPDATE, {"env": {"a": SECRET}}, {"env": {"b": PLAIN}})
    assert (maybe.severity, maybe.text) == (
        Severity.WARNING,
        "Thing x: env loses a secret and gets a new plain value: make sure that the plain value is not the secret",
    )
    [surely] = found("my:own:Thing", UPDATE, {"env": {"a": SECRET}}, {"env": {"a": PLAIN}})
    assert surely.severity == Severity.DANGER


@pytest.mark.parametrize("operation", [CREATE, UPDATE])
def test_a_value_that_the_stack_file_encrypts_is_a_danger_where_it_is_used_as_plain_text(operation: Any) -> None:
    inputs = {"labels": {"k": "a-placeholder-of-a-secret-df909d96"}}
    [finding] = found("my:own:Thing", operation, {}, inputs)
    assert finding.severity == Severity.DANGER
    assert finding.text == "Thing x: labels.k has a value as plain text that the stack file encrypts"
    assert found("my:own:Thing", UPDATE, inputs, {**inputs, "b": 1}) == []  # as it was
    [change, *_] = between({}, inputs)
    assert change.after == '{"k": "a-(a secret, in plain)"}'
