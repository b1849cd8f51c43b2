"""The effective rules of an organization policy for a project of images and for a zone."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.cli.doctor.policies import covers_project, covers_zone, is_enforced, refuses

TAG = {"expression": "resource.matchTag('1/environment', 'prod')"}


@pytest.mark.parametrize(
    ("value", "covered"),
    [
        ("us-central1-a", True),
        ("in:us-central1-locations", True),
        ("in:us-central10-locations", False),
        ("in:us-locations", True),
        ("in:europe-locations", False),
        ("in:eu-locations", None),
        ("us", False),
        ("us-central1", None),
    ],
)
def test_a_location_covers_its_own_zones(value: str, covered: bool | None) -> None:
    assert covers_zone(value, "us-central1-a") is covered


@pytest.mark.parametrize(
    ("value", "covered"),
    [
        ("projects/debian-cloud", True),
        ("under:projects/debian-cloud", True),
        ("projects/debian", False),
        ("under:folders/1", None),
    ],
)
def test_a_project_is_covered_by_its_name_or_a_subtree(value: str, covered: bool | None) -> None:
    assert covers_project(value, "projects/debian-cloud") is covered


@pytest.mark.parametrize(
    ("rules", "refused"),
    [
        ([], False),
        ([{"values": {"allowedValues": ["projects/a"]}}], False),
        ([{"values": {"allowedValues": ["projects/b"]}}], True),
        ([{"values": {"allowedValues": ["projects/b"]}}, {"values": {"allowedValues": ["projects/a"]}}], False),
        ([{"values": {"allowedValues": ["projects/a"], "deniedValues": ["under:projects/a"]}}], True),
        ([{"values": {"deniedValues": ["projects/b"]}}], False),
        ([{"values": {"deniedValues": ["under:folders/1"]}}], None),
        ([{"values": {"allowedValues": ["under:folders/1", "projects/b"]}}], None),
        ([{"values": {"allowedValues": ["under:folders/1", "projects/a"]}}], False),
        ([{"allowAll": True, "condition": TAG}, {"denyAll": True}], None),
        ([{"denyAll": True, "condition": TAG}, {"values": {"allowedValues": ["projects/b"]}}], True),
    ],
)
def test_a_list_constraint_refuses_what_it_does_not_allow(rules: list[dict[str, Any]], refused: bool | None) -> None:
    assert refuses(rules, "projects/a", covers_project) is refused


@pytest.mark.parametrize(
    ("rules", "enforced"),
    [
        ([], False),
        ([{"enforce": True}], True),
        ([{"enforce": True, "condition": TAG}, {"enforce": False}], None),
    ],
)
def test_a_boolean_constraint_with_a_condition_is_enforced_by_tags(
    rules: list[dict[str, Any]], enforced: bool | None
) -> None:
    assert is_enforced(rules) is enforced
