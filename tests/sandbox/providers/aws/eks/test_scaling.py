"""An update of a node group terminates nodes, with the jobs on them."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers import node_pods
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.aws.conftest import NODE_GROUP, Amazon

UPDATING = (
    "updating EKS Node Group (ci:l4): operation error EKS: UpdateNodegroupConfig, https response error "
    "StatusCode: 400, InvalidParameterException: "
)


KINDS = (node_pods.POD, node_pods.RUNNER)


def sizes(least: int, wanted: int, most: int) -> dict[str, int]:
    return {"minSize": least, "desiredSize": wanted, "maxSize": most}


def busy(account: Amazon, *nodes: str) -> None:
    """A runner with a job on each of these nodes."""
    for node in nodes:
        name = f"gpu-ci/runner-on-{node}"
        inputs: dict[str, Any] = {"metadata": {"name": f"runner-on-{node}"}, "spec": {"nodeName": node}}
        pod = Record(node_pods.POD, name, name, "", inputs, {**inputs, "status": {"phase": "Running"}}, "controller")
        account.world.insert(pod)
        status = {"phase": "Running", "jobId": "1"}
        account.world.insert(Record(node_pods.RUNNER, name, name, "", {}, {"status": status}, "controller"))


def left(account: Amazon) -> list[str]:
    """The nodes whose runner is still there, by its pod and by its object."""
    found = [[row.id.removeprefix("gpu-ci/runner-on-") for row in account.world.find(kind)] for kind in KINDS]
    assert found[0] == found[1]
    return found[0]


@pytest.fixture
def group(account: Amazon) -> Resource:
    """A group whose autoscaler has started two nodes since: the engine's state knows of none."""
    made = account.make(types.NODE_GROUP, "l4", NODE_GROUP)
    busy(account, "l4-0", "l4-1")
    return made


def test_a_change_of_max_sends_the_desired_size_of_the_state_and_ends_busy_nodes(
    account: Amazon, group: Resource
) -> None:
    res = account.change(group, scalingConfig=sizes(0, 0, 6))
    assert left(account) == []
    assert res.outputs["scalingConfig"] == sizes(0, 0, 6)


def test_nodes_up_to_the_desired_size_that_is_sent_stay(account: Amazon, group: Resource) -> None:
    account.change(group, scalingConfig=sizes(0, 1, 6))
    assert left(account) == ["l4-0"]


@pytest.mark.parametrize(
    "change",
    [{"labels": {"team": "ml"}}, {"taints": []}, {"updateConfig": {"maxUnavailable": 2}}, {"tags": {"a": "b"}}],
)
def test_a_change_of_anything_else_sends_no_size(account: Amazon, group: Resource, change: dict[str, Any]) -> None:
    res = account.change(group, **change)
    assert left(account) == ["l4-0", "l4-1"]
    assert res.outputs["scalingConfig"] == sizes(0, 2, 4)


def test_a_new_version_ends_every_node_with_its_job(account: Amazon, group: Resource) -> None:
    res = account.change(group, releaseVersion="1.35.3-20260917")
    assert left(account) == []
    assert res.outputs["scalingConfig"] == sizes(0, 2, 4)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (sizes(1, 0, 4), "minSize can't be greater than desiredSize"),
        (sizes(0, 5, 4), "desiredSize can't be greater than maxSize"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_and_no_node_ends(
    account: Amazon, group: Resource, wrong: dict[str, int], text: str
) -> None:
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
    assert left(account) == ["l4-0", "l4-1"]
