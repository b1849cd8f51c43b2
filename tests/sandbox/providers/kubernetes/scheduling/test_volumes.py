"""Pods with volumes: claims and classes that are missing, and claims that only one pod or one node can use."""

from __future__ import annotations

from typing import Any

import yaml
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement
from pulumi_sandbox.providers.kubernetes.scheduling.volumes import CLAIM, CLASS
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.kubernetes.conftest import Cluster

NODES = [{"name": name, "allocatable": {"cpu": 8, "memory": "32Gi", "pods": 20}} for name in ("one", "two")]
MISSING = 'persistentvolumeclaim "models" not found'
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
IN_USE = (
    "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption "
    "victims found for incoming pod."
)


def settings(cluster: Cluster, **values: Any) -> None:
    given = {"namespaces": ["ci", "arc-systems"], "secrets": ["ci/github-app"], "nodes": NODES, **values}
    cluster.settings(yaml.safe_dump({"values": {"kubernetes": given}}))


def claimed(name: str = "models") -> dict[str, Any]:
    return {"volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": name}}], "containers": []}


def own(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}}
    return {"volumes": [{"name": "cache", "ephemeral": {"volumeClaimTemplate": template}}], "containers": []}


def place(cluster: Cluster, spec: dict[str, Any], namespace: str = "ci") -> Placement:
    return cluster.cloud.workloads.scheduler.place(spec, {"namespace": namespace})


def stored(cluster: Cluster, token: str, identity: str, **fields: Any) -> None:
    space, _, name = identity.rpartition("/")
    given = {"metadata": {"name": name, **({"namespace": space} if space else {})}, **fields}
    cluster.world.insert(Record(token, identity, name, "", given, given))


def claim(cluster: Cluster, **spec: Any) -> None:
    stored(cluster, CLAIM, "ci/models", spec={"accessModes": ["ReadWriteOnce"], **spec})


def running(cluster: Cluster, node: str, namespace: str = "ci") -> None:
    stored(cluster, POD, f"{namespace}/other", spec={**claimed(), "nodeName": node})


def pending(reason: str) -> Placement:
    return Placement(message=f"0/2 nodes are available: {reason}. not found")


def test_a_claim_must_exist_in_the_namespace_of_the_pod(cluster: Cluster) -> None:
    settings(cluster)
    assert place(cluster, claimed()) == pending(MISSING)
    settings(cluster, claims=[{"name": "ci/models", "accessModes": ["ReadWriteMany"]}])
    assert place(cluster, claimed()) == Placement("one")
    assert place(cluster, claimed(), namespace="other") == pending(MISSING)


def test_a_claim_of_the_stack_waits_for_its_class(cluster: Cluster) -> None:
    settings(cluster)
    claim(cluster, storageClassName="efs-sc")
    assert place(cluster, claimed()) == pending(UNBOUND)
    stored(cluster, CLASS, "efs-sc")
    assert place(cluster, claimed()) == Placement("one")


def test_a_claim_without_a_class_needs_a_default_class(cluster: Cluster) -> None:
    settings(cluster, storageClasses=[{"name": "gp2"}])
    claim(cluster)
    assert place(cluster, claimed()) == pending(UNBOUND)
    settings(cluster, storageClasses=[{"name": "gp3", "default": True}])
    assert place(cluster, claimed()) == Placement("one")


def test_the_own_volume_of_a_pod_needs_its_class(cluster: Cluster) -> None:
    settings(cluster, storageClasses=[{"name": "gp3"}])
    assert place(cluster, own(storageClassName="gp3")) == Placement("one")
    assert place(cluster, own(storageClassName="gp4")) == pending(UNBOUND)


def test_one_pod_at_a_time_uses_a_read_write_once_pod_claim(cluster: Cluster) -> None:
    settings(cluster)
    claim(cluster, accessModes=["ReadWriteOncePod"], volumeName="models")
    assert place(cluster, claimed()) == Placement("one")
    running(cluster, "one", namespace="other")
    assert place(cluster, claimed()) == Placement("one")
    running(cluster, "one")
    assert place(cluster, claimed()) == Placement(message=IN_USE)
