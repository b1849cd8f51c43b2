"""Pods on the nodes of EKS node groups: who advertises GPUs, which groups grow, and what stays Pending."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.kubernetes.conftest import GPU, Cluster
from tests.sandbox.providers.kubernetes.helm.test_releases import RELEASE, release, scale_set

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


def test_a_group_without_nodes_grows_for_a_pod_that_its_labels_and_taints_allow(cluster: Cluster) -> None:
    group(cluster, desired=0, max_nodes=2, amiType="BOTTLEROCKET_x86_64_NVIDIA")
    assert place(cluster) == Placement("t4-0", started="t4")
    assert place(cluster, tolerations=[]) == Placement(message="no nodes available to schedule pods")
    group(cluster, "l4", desired=0, instanceTypes=["g6.xlarge"], labels={"gpu-ci-pool": "l4"})
    # The autoscaler starts the node, on which no device plugin runs.
    assert place(cluster, nodeSelector={"gpu-ci-pool": "l4"}).message == NO_GPU


@pytest.mark.parametrize("desired", [0, 1])
def test_a_runner_waits_for_the_end_of_a_startup_taint_and_a_job_must_tolerate_it(
    cluster: Cluster, desired: int
) -> None:
    startup = {"key": "startup-taint.cluster-autoscaler.kubernetes.io/unproven", "value": "true"}
    bottlerocket = {"amiType": "BOTTLEROCKET_x86_64_NVIDIA", "taints": [TAINT, startup | {"effect": "NO_SCHEDULE"}]}
    group(cluster, desired=desired, **bottlerocket)
    scheduler = cluster.cloud.workloads.scheduler
    launches = scheduler.launches(lambda *_: None)
    assert place(cluster).node == "t4-0"
    assert scheduler.place(SPEC, launches).node == ""
    tolerations = [*SPEC["tolerations"], {"key": startup["key"], "operator": "Exists"}]
    assert scheduler.place({**SPEC, "tolerations": tolerations}, launches).node == "t4-0"


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
