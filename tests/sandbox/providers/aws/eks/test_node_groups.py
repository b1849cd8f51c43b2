"""The sizes of a node group after an update."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks import node_groups
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.values import Decoded

from tests.sandbox.providers.aws.conftest import NODE_GROUP, Amazon

UPDATING = (
    "updating EKS Node Group (ci:l4): operation error EKS: UpdateNodegroupConfig, https response error "
    "StatusCode: 400, InvalidParameterException: "
)


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


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (sizes(1, 0, 4), "minSize can't be greater than desiredSize"),
        (sizes(0, 5, 4), "desiredSize can't be greater than maxSize"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(account: Amazon, group: Resource, wrong: dict[str, int], text: str) -> None:
    changed = account.resource(
        group.token,
        group.name,
        {**group.inputs, "scalingConfig": wrong},
        old_inputs=group.inputs,
        outputs=group.outputs,
        id=group.id,
    )
    with pytest.raises(Refused) as answer:
        account.lifecycle.update(changed, Decoded(group.outputs))
    assert str(answer.value) == UPDATING + text
