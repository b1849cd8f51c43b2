"""Compares the place of a SmokeJob's pod in the sandbox with the real scheduler: a node, or the reason to wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import Placement

from tests.control_plane.cluster_state import SIZE, Both, gpu_node
from tests.control_plane.objects import smoke_job
from tests.gpu_ci.kubernetes.clusters import GPU_TAINT
from tests.sandbox.providers.kubernetes.conftest import changed

UNTOLERATED = "node(s) had untolerated taint(s)"
OTHERS = "node(s) didn't match Pod's node affinity/selector"
NO_GPU = "Insufficient nvidia.com/gpu"
NO_USE = "Preemption is not helpful for scheduling"
POD = "spec/template/spec"


def pending(nodes: int, why: str, preemption: str) -> Placement:
    none = f"0/{nodes} nodes are available"
    return Placement(message=f"{none}: {why}. no new claims to deallocate, preemption: {none}: {preemption}.")


def placed(pod: Mapping[str, Any]) -> Placement:
    """Return the decision of the real scheduler in the sandbox's form."""
    if pod["spec"].get("nodeName"):
        return Placement(pod["spec"]["nodeName"])
    [condition] = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    return Placement(message=condition["message"])


@pytest.mark.parametrize(
    ("nodes", "job", "expected"),
    [
        ([gpu_node()], smoke_job(), Placement("gpu-1")),
        ([gpu_node("a", "h100"), gpu_node("b")], smoke_job(), Placement("b")),
        ([], smoke_job(), Placement(message="no nodes available to schedule pods")),
        (
            [gpu_node(taints=[{**GPU_TAINT, "value": "true"}])],
            smoke_job(),
            pending(1, f"1 {UNTOLERATED}", f"1 {NO_USE}"),
        ),
        (
            [gpu_node(taints=[{**GPU_TAINT, "effect": "NoExecute"}])],
            smoke_job(),
            pending(1, f"1 {UNTOLERATED}", f"1 {NO_USE}"),
        ),
        (
            [gpu_node()],
            changed(smoke_job(), f"{POD}/tolerations", ...),
            pending(1, f"1 {UNTOLERATED}", f"1 {NO_USE}"),
        ),
        ([gpu_node(pool="h100")], smoke_job(), pending(1, f"1 {OTHERS}", f"1 {NO_USE}")),
        ([gpu_node(labels={"gpu-ci-pool": "l4"})], smoke_job(), pending(1, f"1 {OTHERS}", f"1 {NO_USE}")),
        (
            [gpu_node(pool="h100", taints=[{**GPU_TAINT, "value": "true"}])],
            smoke_job(),
            pending(1, f"1 {UNTOLERATED}", f"1 {NO_USE}"),
        ),
        ([gpu_node(gpus=0)], smoke_job(), pending(1, f"1 {NO_GPU}", f"1 {NO_USE}")),
        ([gpu_node()], smoke_job(gpus=2), pending(1, f"1 {NO_GPU}", f"1 {NO_USE}")),
        (
            [gpu_node(allocatable={**SIZE, "memory": "4Gi"})],
            smoke_job(),
            pending(1, f"1 Insufficient memory, 1 {NO_GPU}", f"1 {NO_USE}"),
        ),
        (
            [gpu_node("a", "h100"), gpu_node("b", taints=[{**GPU_TAINT, "value": "true"}]), gpu_node("c", gpus=0)],
            smoke_job(),
            pending(3, f"1 {NO_GPU}, 1 {OTHERS}, 1 {UNTOLERATED}", f"3 {NO_USE}"),
        ),
    ],
    ids=[
        "our-words",
        "two-pools",
        "no-node",
        "taint-value",
        "taint-effect",
        "no-toleration",
        "other-pool",
        "no-label",
        "taint-before-label",
        "no-device-plugin",
        "too-few-gpus",
        "memory-too",
        "three-reasons",
    ],
)
def test_the_pod_gets_the_same_node_or_the_same_reason_as_in_the_sandbox(
    both: Both, nodes: list[dict[str, Any]], job: dict[str, Any], expected: Placement
) -> None:
    both.nodes(*nodes)
    both.make(job)
    real = placed(both.pod_of(job))
    said = both.place_and_keep(job)
    assert {"real": real, "sandbox": said} == {"real": expected, "sandbox": expected}


def test_a_second_job_waits_for_the_first_ones_gpu(both: Both) -> None:
    both.nodes(gpu_node())
    real, said = [], []
    for job in (smoke_job(), changed(smoke_job(), "metadata/name", "second")):
        both.make(job)
        real.append(placed(both.pod_of(job)))
        said.append(both.place_and_keep(job))
    nobody = "1 No preemption victims found for incoming pod"
    expected = [Placement("gpu-1"), pending(1, f"1 {NO_GPU}", nobody)]
    assert {"real": real, "sandbox": said} == {"real": expected, "sandbox": expected}
