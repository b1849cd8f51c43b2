"""Pods on the nodes of GKE node pools: labels, taints, GPUs, limits of pools, and launches that fail."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.gke import ClusterFacts, group_name, node_pool
from pulumi_sandbox.providers.gcp.site import Located, Site
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.gcp.gke.pools import CLUSTER_PATH, L4, POOL, POOL_PATH, with_config
from tests.sandbox.providers.kubernetes.conftest import GPU, JOB, Cluster, job

A, B = (group_name(POOL_PATH, zone) for zone in ("us-central1-a", "us-central1-b"))
SPEC: dict[str, Any] = {
    "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
    "nodeSelector": {"gpu-ci-pool": "l4"},
    "containers": [{"name": "runner", "image": "x", "resources": {"limits": {GPU: 1}}}],
}


def pool(cluster: Cluster, inputs: dict[str, Any] = POOL, path: str = CLUSTER_PATH) -> None:
    facts = ClusterFacts(path, "1.34.1-gke.3720000", ("us-central1-a", "us-central1-b"))
    pool_path = f"{path}/nodePools/{inputs['name']}"
    outputs = {**inputs, **node_pool(Located(inputs, {}, Site(), pool_path, ""), facts)}
    cluster.world.insert(Record(types.NODE_POOL, pool_path, inputs["name"], "", inputs, outputs))


def place(cluster: Cluster, **changes: Any) -> Placement:
    return cluster.cloud.workloads.scheduler.place({**SPEC, **changes})


def run(cluster: Cluster, name: str = "smoke", **changes: Any) -> str:
    """Run a Job of one pod on the pool, and return its node."""
    given = job(activeDeadlineSeconds=600)
    given["metadata"]["name"] = name
    given["spec"]["template"]["spec"] |= {**SPEC, **changes}
    cluster.up(JOB, name, given)
    [row] = [row for row in cluster.world.find(POD) if row.name.startswith(f"{name}-")]
    return str(row.inputs["spec"]["nodeName"])


def test_a_pool_without_nodes_starts_one_for_a_pod_and_has_the_labels_of_gke(cluster: Cluster) -> None:
    pool(cluster)
    assert place(cluster) == Placement(f"{A}-0", started=A)
    for label, value in {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-nodepool": "l4",
        "cloud.google.com/gke-os-distribution": "cos",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "g2-standard-8",
        "topology.kubernetes.io/region": "us-central1",
    }.items():
        assert place(cluster, nodeSelector={label: value}).node == f"{A}-0", label
    assert place(cluster, nodeSelector={"topology.kubernetes.io/zone": "us-central1-b"}).node == f"{B}-0"
    assert place(cluster, nodeSelector={"nvidia.com/gpu.present": "true"}).node == ""


def test_only_pods_that_request_gpus_get_the_toleration_of_the_taint_that_gke_adds(cluster: Cluster) -> None:
    pool(cluster, with_config(taints=None))
    assert place(cluster, tolerations=[]).node == f"{A}-0"
    without_gpu = [{"name": "runner", "image": "x", "resources": {"limits": {"cpu": 1}}}]
    assert place(cluster, tolerations=[], containers=without_gpu).message.startswith("no nodes available")
    assert place(cluster, containers=without_gpu).node == f"{A}-0"


GPUS: dict[str, tuple[dict[str, Any], int]] = {
    "one": ({}, 1),
    "the machine's own": ({"guestAccelerators": None}, 1),
    "four": ({"machineType": "g2-standard-48", "guestAccelerators": [{**L4, "count": 4}]}, 4),
    "no driver": (
        {"guestAccelerators": [{**L4, "gpuDriverInstallationConfig": {"gpuDriverVersion": "INSTALLATION_DISABLED"}}]},
        0,
    ),
    "another device plugin": (
        {"labels": {"gpu-ci-pool": "l4", "gke-no-default-nvidia-gpu-device-plugin": "true"}},
        0,
    ),
}


@pytest.mark.parametrize(("config", "count"), GPUS.values(), ids=GPUS)
def test_the_gpus_of_a_node_are_those_of_gkes_own_device_plugin(
    cluster: Cluster, config: dict[str, Any], count: int
) -> None:
    pool(cluster, {**with_config(**config), "initialNodeCount": 1})
    first = cluster.cloud.workloads.scheduler.nodes()[0]
    assert int(first.allocatable.get(GPU, 0)) == count


def test_a_zone_that_is_sold_out_leaves_the_pod_to_the_next_zone(cluster: Cluster) -> None:
    pool(cluster)
    cluster.world.add_fault(Fault("stockout", zone="us-central1-a"))
    assert run(cluster) == f"{B}-0"
    lines = [text for severity, text in cluster.messages if severity == "info"]
    assert lines[:3] == [
        f"the cluster autoscaler gets no node for {A}: GCE out of resources",
        "the cluster autoscaler tries again after 5 minutes; the sandbox tries again at once",
        f"the cluster autoscaler starts {B}-0 in the group {B}",
    ]
