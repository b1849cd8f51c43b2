"""Pods on the nodes of EKS node groups: who advertises GPUs, which groups grow, and what stays Pending."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.kubernetes.conftest import GPU, Cluster
from tests.sandbox.providers.kubernetes.helm.test_charts import RELEASE, release, scale_set

PRESENT = {"nvidia.com/gpu.present": "true"}
TAINT = {"key": GPU, "value": "present", "effect": "NO_SCHEDULE"}
UNTOLERATED = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
NO_GPU = f"0/1 nodes are available: 1 Insufficient {GPU}."
TERM = {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "Exists"}]}
REQUIRED = {"nodeSelectorTerms": [TERM]}
APART = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": REQUIRED}}
SPEC: dict[str, Any] = {
    "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
    "nodeSelector": PRESENT,
    "containers": [{"name": "runner", "image": "x", "resources": {"limits": {GPU: 1}}}],
}


def group(cluster: Cluster, name: str = "t4", desired: int = 1, max_nodes: int = 1, **inputs: Any) -> None:
    given = {
        "clusterName": "ci",
        "nodeGroupName": name,
        "instanceTypes": ["g4dn.xlarge"],
        "amiType": "AL2023_x86_64_NVIDIA",
        "labels": PRESENT,
        "taints": [TAINT],
        "scalingConfig": {"desiredSize": desired, "minSize": 0, "maxSize": max_nodes},
        **inputs,
    }
    cluster.world.insert(Record("aws:eks/nodeGroup:NodeGroup", f"ci:{name}", name, "", given, given))


def tag(cluster: Cluster, key: str, value: str, target: str = "eks-t4-0c1d") -> None:
    key = f"k8s.io/cluster-autoscaler/node-template/{key}"
    given = {"autoscalingGroupName": target, "tag": {"key": key, "value": value, "propagateAtLaunch": False}}
    cluster.world.insert(Record("aws:autoscaling/tag:Tag", f"{target},{key}", key, "", given))


def plugin(cluster: Cluster, **values: Any) -> None:
    cluster.settings("values: {kubernetes: {namespaces: [ci], secrets: [ci/github-app]}}\n")
    cluster.up(RELEASE, "plugin", release("nvidia-device-plugin", values, name="plugin"))


def place(cluster: Cluster, **changes: Any) -> Placement:
    return cluster.cloud.workloads.scheduler.place({**SPEC, **changes})


def test_gpus_are_there_once_a_device_plugin_runs_on_the_node(cluster: Cluster) -> None:
    group(cluster)
    assert place(cluster) == Placement(message=NO_GPU)
    plugin(cluster)
    assert place(cluster) == Placement("t4-0")
    assert ("info", "plugin-nvidia-device-plugin runs on 1 of 1 nodes") in cluster.messages


@pytest.mark.parametrize(
    ("inputs", "values", "placed"),
    [
        ({"labels": {}}, {"affinity": APART}, False),
        ({}, {"affinity": APART}, True),
        ({"taints": [TAINT | {"key": "ci"}]}, {}, False),
        ({"taints": [TAINT | {"key": "ci"}]}, {"tolerations": [{"operator": "Exists"}]}, True),
        ({}, {"devicePlugin": {"enabled": False}}, False),
        ({"amiType": "AL2023_x86_64_STANDARD"}, {}, False),
        ({"instanceTypes": ["m7i.xlarge"]}, {}, False),
    ],
)
def test_a_device_plugin_goes_by_affinity_and_tolerations_and_needs_a_driver(
    cluster: Cluster, inputs: dict[str, Any], values: dict[str, Any], placed: bool
) -> None:
    group(cluster, **inputs)
    plugin(cluster, **values)
    assert place(cluster, nodeSelector={}, tolerations=[{"operator": "Exists"}]) == (
        Placement("t4-0") if placed else Placement(message=NO_GPU)
    )


def test_a_group_without_nodes_grows_only_when_its_tags_tell_the_autoscaler_enough(cluster: Cluster) -> None:
    group(cluster, desired=0, max_nodes=2, amiType="BOTTLEROCKET_x86_64_NVIDIA")
    assert place(cluster) == Placement(message="no nodes available to schedule pods")
    tag(cluster, "label/nvidia.com/gpu.present", "true", target="eks-l4-0c1d")
    assert place(cluster).node == ""
    tag(cluster, "label/nvidia.com/gpu.present", "true")
    assert place(cluster) == Placement("t4-0", started="t4")
    # The tags may tell of a taint too, which then counts before a node is there.
    tag(cluster, "taint/dedicated", "ci:NoSchedule")
    assert place(cluster).node == ""


def test_a_scale_set_at_zero_says_whether_a_runner_would_start(cluster: Cluster) -> None:
    group(cluster)
    plugin(cluster, tolerations=[])
    account = {"name": "a", "namespace": "b"}
    cluster.up(RELEASE, "gpu-t4", scale_set(template={"spec": SPEC}, controllerServiceAccount=account))
    assert cluster.messages[-1] == ("warning", f"a runner for a job would stay Pending: {NO_GPU}")
    assert cluster.world.find(POD) == []


def test_nodes_a_person_lists_are_nodes_too(cluster: Cluster) -> None:
    assert cluster.cloud.workloads.scheduler.knows_no_node()
    taint = f"{{key: {GPU}, value: present, effect: NoSchedule}}"
    node = f"{{name: own, labels: {{gpu: t4}}, taints: [{taint}], allocatable: {{{GPU}: 1, cpu: 2}}}}"
    cluster.settings(f"values: {{kubernetes: {{nodes: [{node}]}}}}\n")
    assert not cluster.cloud.workloads.scheduler.knows_no_node()
    assert place(cluster, nodeSelector={"gpu": "t4"}) == Placement("own")
    assert place(cluster, nodeSelector={"gpu": "t4"}, tolerations=[]).message == UNTOLERATED


def daemon_set(cluster: Cluster, **spec: Any) -> None:
    """Create a DaemonSet of GPU nodes whose pod requests half a CPU and 1 GiB."""
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    labels = {"app": "images"}
    pod = {
        "nodeSelector": PRESENT,
        "tolerations": SPEC["tolerations"],
        "initContainers": [{"name": "image-0", "image": "x", "command": ["true"], "resources": resources}],
        "containers": [{"name": "pause", "image": "pause:3.10", "resources": resources}],
        **spec,
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    cluster.settings("values: {kubernetes: {namespaces: [ci], secrets: [ci/here]}}\n")
    cluster.up(
        "kubernetes:apps/v1:DaemonSet",
        "images",
        {"metadata": {"namespace": "ci"}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
    )


def runner(cpu: str, memory: str) -> list[dict[str, Any]]:
    resources = {"requests": {"cpu": cpu, "memory": memory, GPU: "1"}, "limits": {GPU: "1"}}
    return [{"name": "runner", "image": "x", "resources": resources}]


@pytest.mark.parametrize("desired", [1, 0], ids=["running-node", "new-node"])
def test_a_daemon_sets_pod_takes_its_requests_of_every_node_it_runs_on(cluster: Cluster, desired: int) -> None:
    """A g4dn.xlarge has 4 CPUs and 16 GiB. The init container and the other container do not run at the same time."""
    group(cluster, desired=desired, max_nodes=1, amiType="BOTTLEROCKET_x86_64_NVIDIA")
    for name, value in PRESENT.items():
        tag(cluster, f"label/{name}", value)
    tag(cluster, f"taint/{GPU}", "present:NoSchedule")
    assert place(cluster, containers=runner("4", "16Gi")).node == "t4-0"
    daemon_set(cluster)
    assert place(cluster, containers=runner("3500m", "15Gi")).node == "t4-0"
    too_large = place(cluster, containers=runner("3501m", "15Gi"))
    # The autoscaler starts no node for a pod that would not fit on it.
    assert too_large.message.startswith("0/1 nodes are" if desired else "no nodes available to schedule pods")
    assert place(cluster, containers=runner("3500m", "15361Mi")).node == ""
