"""Compares the places of pods in the sandbox with the real scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import Placement

from tests.control_plane.cluster_state import SIZE, Both, gpu_node
from tests.control_plane.objects import smoke_job
from tests.gpu_ci.kubernetes.clusters import GPU_TAINT
from tests.sandbox.providers.kubernetes.conftest import GPU

UNTOLERATED = "node(s) had untolerated taint(s)"
OTHERS = "node(s) didn't match Pod's node affinity/selector"
NO_GPU = f"Insufficient {GPU}"
WRONG_TAINT = {**GPU_TAINT, "value": "true"}


def pending(nodes: int, why: str) -> Placement:
    return Placement(message=f"0/{nodes} nodes are available: {why}.")


def placed(pod: Mapping[str, Any]) -> Placement:
    """Return the decision of the real scheduler in the sandbox's form: without the part about claims and preemption."""
    if pod["spec"].get("nodeName"):
        return Placement(pod["spec"]["nodeName"])
    [condition] = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    return Placement(message=condition["message"].partition(" no new claims")[0])


PLACES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Placement]] = {
    "fits": ([gpu_node("a", "h100"), gpu_node("b")], {}, Placement("b")),
    "no node": ([], {}, Placement(message="no nodes available to schedule pods")),
    "taint": ([gpu_node(pool="h100", taints=[WRONG_TAINT])], {}, pending(1, f"1 {UNTOLERATED}")),
    "label": ([gpu_node(labels={"gpu-ci-pool": "l4"})], {}, pending(1, f"1 {OTHERS}")),
    "no device plugin": ([gpu_node(gpus=0)], {}, pending(1, f"1 {NO_GPU}")),
    "three reasons": (
        [gpu_node("a", "h100"), gpu_node("b", taints=[WRONG_TAINT]), gpu_node("c", allocatable={**SIZE, "memory": 1})],
        {},
        pending(3, f"1 Insufficient memory, 1 {NO_GPU}, 1 {OTHERS}, 1 {UNTOLERATED}"),
    ),
}


@pytest.mark.parametrize(("nodes", "job", "expected"), PLACES.values(), ids=PLACES)
def test_the_check_gets_the_same_node_or_the_same_reason(
    both: Both, nodes: list[dict[str, Any]], job: dict[str, Any], expected: Placement
) -> None:
    both.nodes(*nodes)
    given = smoke_job(**job)
    both.make(given)
    emulated = both.sandbox.cloud.workloads.scheduler.place(given["spec"]["template"]["spec"])
    assert (placed(both.pods_decided(given)[0]), emulated) == (expected, expected)


@pytest.mark.parametrize("nodes", [("a", "b"), ("a",)])
def test_each_pod_of_a_check_of_two_nodes_gets_a_node_of_its_own(both: Both, nodes: tuple[str, ...]) -> None:
    both.nodes(*(gpu_node(name, gpus=2) for name in nodes))
    job = smoke_job(nodes=2)
    both.make(job)
    waits = pending(1, "1 node(s) didn't match pod anti-affinity rules")
    expected = {Placement("a"), Placement("b") if len(nodes) == 2 else waits}
    assert {placed(pod) for pod in both.pods_decided(job, 2)} == expected
