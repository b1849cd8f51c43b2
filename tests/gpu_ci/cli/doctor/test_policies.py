"""What an organization policy of Google says about a project of images, and about a zone."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.cli.doctor.google import refuses

TAG = {"expression": "resource.matchTag('1/environment', 'prod')"}


def only(*values: str) -> list[dict[str, Any]]:
    return [{"values": {"allowedValues": [*values]}}]


@pytest.mark.parametrize(
    ("value", "rules", "refused"),
    [
        ("us-central1-a", only("us-central1-a"), False),
        ("us-central1-a", only("in:us-central1-locations"), False),
        ("us-central1-a", only("in:us-locations"), False),
        ("us-central1-a", only("in:us-central10-locations"), True),
        ("us-central1-a", only("in:europe-locations"), True),
        ("us-central1-a", only("us"), True),
        ("us-central1-a", only("in:eu-locations"), None),
        ("us-central1-a", only("us-central1"), None),
        ("projects/a", [], False),
        ("projects/a", only("under:projects/a"), False),
        ("projects/a", only("projects/b"), True),
        ("projects/a-b", only("projects/a"), True),
        ("projects/a", only("under:folders/1", "projects/b"), None),
        ("projects/a", only("projects/b") + only("projects/a"), False),
        ("projects/a", [{"values": {"allowedValues": ["projects/a"], "deniedValues": ["under:projects/a"]}}], True),
        ("projects/a", [{"values": {"deniedValues": ["projects/b"]}}], False),
        ("projects/a", [{"values": {"deniedValues": ["under:folders/1"]}}], None),
        ("projects/a", [{"allowAll": True, "condition": TAG}, {"denyAll": True}], None),
        ("projects/a", [{"denyAll": True, "condition": TAG}, *only("projects/b")], True),
    ],
)
def test_a_policy_refuses_what_it_does_not_allow(value: str, rules: list[dict[str, Any]], refused: bool | None) -> None:
    assert refuses(rules, value) is refused
