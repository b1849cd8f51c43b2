"""The pod that pulls images, with the real DaemonSet controller and scheduler: its nodes, and the room it leaves."""

from __future__ import annotations

from typing import Any

import gpu_catalog as catalog
from gpu_ci.aws import node_capacity
from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.image_pre_pull import ImagePrePull, ImagePrePullArgs

from tests.control_plane.api import until
from tests.control_plane.cluster_state import Both, gpu_node
from tests.control_plane.objects import declared

# What the kubelet of a g6.2xlarge (8 vCPUs, 32 GiB, at most 58 pods) leaves for pods, by
# awslabs/amazon-eks-ami@81fec2e:nodeadm/internal/kubelet/config.go.
MACHINE = catalog.machine("g6.2xlarge", "aws")
SIZE = {"cpu": "7910m", "memory": f"{32 * 1024 - (255 + 11 * 58) - 100}Mi", "pods": "58", gpu_nodes.RESOURCE: "1"}


def pre_pull() -> dict[str, Any]:
    """Return the DaemonSet of an ImagePrePull of the pool l4 with two images."""
    images = [f"ghcr.io/acme/job@sha256:{digest * 64}" for digest in "ab"]
    args = ImagePrePullArgs(namespace="gpu-ci", pool="l4", images=images)
    [(_, given)] = declared(lambda: ImagePrePull("l4-pre-pull", args))
    return given


def runner(name: str, cpu: str, memory: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory, gpu_nodes.RESOURCE: "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeSelector": gpu_nodes.labels("l4"),
            "tolerations": [gpu_nodes.toleration()],
            "containers": [{"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}}],
        },
    }


def placed(both: Both, daemon_set: dict[str, Any], count: int) -> list[str]:
    """Return the nodes of the DaemonSet's pods after the scheduler has placed this number of pods."""
    labels = daemon_set["spec"]["selector"]["matchLabels"].items()

    def nodes() -> list[str] | None:
        pods = [one for one in both.api.get("v1", "Pod", "gpu-ci") if labels <= one["metadata"]["labels"].items()]
        found = sorted(one["spec"]["nodeName"] for one in pods if one["spec"].get("nodeName"))
        return found if len(found) == count else None

    return until(nodes, f"{count} pods have a node")


def test_every_node_of_the_pool_gets_one_pod_and_no_other_node(both: Both) -> None:
    taint = {"key": gpu_nodes.TAINT_KEY, "value": "other", "effect": "NoSchedule"}
    both.nodes(gpu_node("a"), gpu_node("b"), gpu_node("c", pool="h100"), gpu_node("d", taints=[taint]))
    given = pre_pull()
    both.make(given)
    assert placed(both, given, 2) == ["a", "b"]
    until(
        lambda: (
            both.api.get("apps/v1", "DaemonSet", "gpu-ci", given["metadata"]["name"])[0]["status"].get(
                "desiredNumberScheduled"
            )
            == 2
        ),
        "the controller wants two pods",
    )


def test_a_runner_with_all_that_a_node_has_for_pods_still_fits(both: Both) -> None:
    both.nodes(gpu_node("a", allocatable=SIZE))
    given = pre_pull()
    both.make(given)
    assert placed(both, given, 1) == ["a"]
    both.make(runner("too-large", "7901m", "1Gi"))
    [why] = both.decided("default", "too-large")["status"]["conditions"]
    assert why["message"].startswith("0/1 nodes are available: 1 Insufficient cpu. ")
    cpus, memory_gib = node_capacity.free_for_pods(MACHINE)
    both.make(runner("largest", str(cpus), f"{memory_gib}Gi"))
    assert both.decided("default", "largest")["spec"].get("nodeName") == "a"
