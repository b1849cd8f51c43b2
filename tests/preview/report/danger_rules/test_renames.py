"""Tests of the rule `like-a-rename`."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_preview.model import Severity
from gpu_preview.report.dangers import find

from ...danger_cases import CREATE, DELETE, UNKNOWN, resource, state

TOPIC, POOL = "gcp:pubsub/topic:Topic", "gpu-ci:gcp:RunnerPool"


def renamed(
    before: dict[str, Any], after: dict[str, Any], types: tuple[str, str] = (TOPIC, TOPIC), **others: Any
) -> Any:
    old, new = state(types[0], "old", before), state(types[1], "new", after, **others)
    changes = [resource(types[0], DELETE, "old"), resource(types[1], CREATE, "new")]
    return [each for each in find({old.urn: old}, {new.urn: new}, changes) if each.rule == "like-a-rename"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"name": "a", "kind": "x"}, {"name": "b", "kind": "x"}),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, UNKNOWN]}}),
    ],
)
def test_a_created_resource_with_similar_inputs_may_be_a_rename(before: Any, after: Any) -> None:
    [finding] = renamed(before, after)
    assert finding.text == "Topic old is deleted and new is created: this may be a rename"
    assert (finding.severity, finding.urn.rpartition("::")[2]) == (Severity.NOTE, "new")


def test_a_created_resource_with_other_inputs_is_no_rename() -> None:
    assert renamed({"name": "a", "kind": "x", "size": 1}, {"name": "b", "kind": "x", "size": 2}) == []
    assert renamed({}, {}) == []
    assert renamed({"a": 1}, {"a": 1}, (TOPIC, POOL)) == []
    assert renamed({"a": 1}, {"a": 1}, parent="urn:other") == []


def test_only_a_renamed_component_is_reported_and_not_its_children() -> None:
    found, sides = [], []
    for name, operation in (("old", DELETE), ("new", CREATE)):
        pool = state(POOL, name)
        topic = state(TOPIC, f"{name}-topic", parent=pool.urn)
        sides.append({each.urn: each for each in (pool, topic)})
        found += [resource(POOL, operation, name), resource(TOPIC, operation, f"{name}-topic")]
    assert [each.text for each in find(sides[0], sides[1], found) if each.rule == "like-a-rename"] == [
        "RunnerPool old is deleted and new is created: this may be a rename"
    ]
