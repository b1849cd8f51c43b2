"""The sizes of a node group after an update."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks import node_groups
from pulumi_sandbox.providers.resource import Resource

from tests.sandbox.providers.aws.conftest import NODE_GROUP, Amazon


def sizes(least: int, wanted: int, most: int) -> dict[str, int]:
    return {"minSize": least, "desiredSize": wanted, "maxSize": most}


@pytest.fixture
def group(account: Amazon) -> Resource:
    """A group whose autoscaler has started two nodes since: the engine's state knows of none."""
    made = account.make(types.NODE_GROUP, "l4", NODE_GROUP)
    row = account.world.get(types.NODE_GROUP, made.id)
    assert row is not None
    node_groups.set_sizes(account.world, row, {**node_groups.current_sizes(row), "desiredSize": 2})
    return made


def test_a_change_of_max_sends_the_desired_size_of_the_state(account: Amazon, group: Resource) -> None:
    res = account.change(group, scalingConfig=sizes(0, 0, 6))
    assert res.outputs["scalingConfig"] == sizes(0, 0, 6)


@pytest.mark.parametrize("change", [{"labels": {"team": "ml"}}, {"releaseVersion": "1.35.3-20260917"}])
def test_a_change_of_anything_else_sends_no_size(account: Amazon, group: Resource, change: dict[str, Any]) -> None:
    res = account.change(group, **change)
    assert res.outputs["scalingConfig"] == sizes(0, 2, 4)
