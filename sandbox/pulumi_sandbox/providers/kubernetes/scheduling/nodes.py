"""The nodes of a cluster: those of EKS node groups, of GKE node pools, and of sandbox.yaml.

Sources of GKE's labels and added tolerations: docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus (2026-04-08),
concepts/spot-vms and concepts/dws. What a cloud reserves on a node is not subtracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.gke import group_name
from pulumi_sandbox.providers.gcp.names import last
from pulumi_sandbox.providers.kubernetes.cluster import is_same, of_gke
from pulumi_sandbox.providers.kubernetes.objects import inner, items, pairs
from pulumi_sandbox.providers.kubernetes.quantities import amounts
from pulumi_sandbox.world.store import Record, World

NODE_GROUP, NODE_POOL = "aws:eks/nodeGroup:NodeGroup", "gcp:container/nodePool:NodePool"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
# Taint effects of the APIs of EKS and GKE, with those of Kubernetes (docs.aws.amazon.com/eks/latest/APIReference/
# API_Taint.html; discovery document container v1, NodeTaint.effect).
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
# The default instance type (docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html).
DEFAULT_TYPE = "t3.medium"
# The label of a pool without GKE's own device plugin (NVIDIA/aicr#1998).
WITHOUT_PLUGIN = "gke-no-default-nvidia-gpu-device-plugin"
# Labels that GKE sets for a field of nodeConfig that is true.
OF_MARKET = {
    "flexStart": "cloud.google.com/gke-flex-start",
    "preemptible": "cloud.google.com/gke-preemptible",
    "spot": "cloud.google.com/gke-spot",
}


@dataclass(frozen=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class Node:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    # A missing native resource has no limit. A missing extended resource does not exist on the node.
    allocatable: Mapping[str, Fraction] = field(default_factory=dict)
    needs_plugin: bool = False
    """Whether the GPUs are allocatable only with a device plugin of the cluster."""
    adds_tolerations: bool = False
    """Whether the cluster's API server adds tolerations to pods that request extended resources."""

    def without(self, prefix: str | None) -> Node:
        """Return the node without the taints whose keys have this prefix."""
        kept = (one for one in self.taints if prefix is None or not one.key.startswith(prefix))
        return replace(self, taints=tuple(kept))


@dataclass(frozen=True)
class Group:
    """The nodes that one autoscaling group of a cloud starts, with their desired and their maximum number."""

    name: str
    row: Record
    """The node group or node pool."""
    desired: int
    max_nodes: int
    pattern: Node

    def node(self, number: int) -> Node:
        name = f"{self.name}-{number}"
        return replace(self.pattern, name=name, labels={**self.pattern.labels, "kubernetes.io/hostname": name})


def groups(world: World, cluster: str) -> Iterator[Group]:
    """Yield the groups of a cluster. Without a name, it is the only cluster with groups."""
    rows = [(row, _cluster_of(row)) for token in (NODE_GROUP, NODE_POOL) for row in world.find(token)]
    if not cluster and len({owner for _, owner in rows}) > 1:
        return
    for row, owner in rows:
        if cluster and not is_same(cluster, owner):
            continue
        if row.type == NODE_GROUP:
            yield _of_node_group(row, world)
        else:
            yield from (_of_node_pool(row, str(zone)) for zone in row.outputs.get("nodeLocations") or ())


def listed_nodes(entries: Any, cluster: str) -> Iterator[Node]:
    """Yield the nodes of `values: {kubernetes: {nodes: [...]}}` in sandbox.yaml.

    The keys of a node are name, labels, taints, allocatable and cluster.
    """
    for index, entry in items(entries):
        if cluster and entry.get("cluster") not in (None, cluster, cluster.rpartition("/")[2]):
            continue
        name = str(entry.get("name") or f"node-{index}")
        labels = {"kubernetes.io/hostname": name, **{key: str(value) for key, value in pairs(entry.get("labels"))}}
        yield Node(name, labels, _taints(entry.get("taints")), amounts(entry.get("allocatable")))


def _cluster_of(row: Record) -> str:
    """Return the identity of the cluster of a node group or node pool."""
    if row.type == NODE_GROUP:
        return f"{row.outputs.get('region') or ''}/{row.inputs.get('clusterName')}"
    return of_gke(row.id.partition("/nodePools/")[0])


def _of_node_group(row: Record, world: World) -> Group:
    """Return the group of an EKS node group."""
    inputs = row.inputs
    name = str(row.outputs.get("nodeGroupName") or inputs.get("nodeGroupName") or row.name)
    # The cluster autoscaler also uses the first instance type of the list.
    kind = str(
        next(iter(inputs.get("instanceTypes") or ()), _template(world, inputs).get("instanceType") or DEFAULT_TYPE)
    )
    machine = gpu_catalog.machine(kind, "aws") if kind in gpu_catalog.machine_types("aws") else None
    ami = str(inputs.get("amiType") or "")
    labels = {
        **_common_labels(kind, machine),
        "eks.amazonaws.com/nodegroup": name,
        "eks.amazonaws.com/capacityType": str(inputs.get("capacityType") or "ON_DEMAND"),
        **{key: str(value) for key, value in pairs(inputs.get("labels"))},
    }
    size: dict[str, Fraction] = {}
    if machine:
        size = {"cpu": Fraction(machine.vcpus), "memory": Fraction(machine.memory_gib) * 1024**3}
    if machine and _has_driver(ami) and gpu_catalog.is_nvidia(machine):
        size[GPU] = Fraction(ceil(machine.gpu_count))
    # NVIDIA variants of Bottlerocket contain the device plugin
    # (docs.aws.amazon.com/eks/latest/userguide/eks-ami-nvidia.html).
    needs_plugin = not (ami.startswith("BOTTLEROCKET_") and "NVIDIA" in ami)
    desired, most = (_number(inner(inputs, "scalingConfig", key)) for key in ("desiredSize", "maxSize"))
    return Group(name, row, desired, most, Node("", labels, _taints(inputs.get("taints")), size, needs_plugin))


def _of_node_pool(row: Record, zone: str) -> Group:
    """Return the group that a GKE node pool has in a zone."""
    config = inner(row.outputs, "nodeConfig") or {}
    kind = last(str(config.get("machineType")))
    machine = machine_types.machine(kind) or machine_types.MachineType(kind)
    accelerator = next((one for _, one in items(config.get("guestAccelerators"))), {})
    accelerator_type = last(str(accelerator.get("type") or machine.accelerator))
    declared = {key: str(value) for key, value in pairs(config.get("labels"))}
    labels = {
        **_common_labels(kind, machine.offer),
        "topology.kubernetes.io/region": zone.rpartition("-")[0],
        ZONE: zone,
        "cloud.google.com/gke-nodepool": row.id.rpartition("/")[2],
        "cloud.google.com/gke-os-distribution": "cos" if "COS" in str(config.get("imageType")).upper() else "ubuntu",
        **({"cloud.google.com/gke-accelerator": accelerator_type} if accelerator_type else {}),
        **{label: "true" for name, label in OF_MARKET.items() if config.get(name) is True},
        **declared,
    }
    size: dict[str, Fraction] = {}
    if machine.vcpus and machine.memory_gb:
        size = {"cpu": Fraction(machine.vcpus), "memory": Fraction(machine.memory_gb) * 1024**3}
    driver = inner(accelerator, "gpuDriverInstallationConfig", "gpuDriverVersion")
    if not accelerator or driver not in (None, "INSTALLATION_DISABLED"):
        size[GPU] = Fraction(_number(accelerator.get("count")) or machine.gpus)
    scaling = inner(row.inputs, "autoscaling") or {}
    desired = max(_number(row.outputs.get("nodeCount")), _number(scaling.get("minNodeCount")))
    most = max(desired, *(_number(scaling.get(name)) for name in ("maxNodeCount", "totalMaxNodeCount")))
    needs_plugin, taints = declared.get(WITHOUT_PLUGIN) == "true", _taints(config.get("effectiveTaints"))
    return Group(group_name(row.id, zone), row, desired, most, Node("", labels, taints, size, needs_plugin, True))


def _common_labels(kind: str, machine: gpu_catalog.Machine | None) -> dict[str, str]:
    return {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": ARCHITECTURES[machine.architecture] if machine else "amd64",
        "node.kubernetes.io/instance-type": kind,
    }


def _has_driver(ami: str) -> bool:
    """Return True if an image has the NVIDIA driver. Custom images are assumed to have the driver."""
    known = {one.ami_type: one.nvidia for one in gpu_catalog.ami_types()}
    return ami in ("", "CUSTOM") or known.get(ami, False)


def _template(world: World, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inputs of a group's launch template."""
    reference = inner(inputs, "launchTemplate") or {}
    for row in world.find(TEMPLATE):
        if reference and (row.id == reference.get("id") or row.inputs.get("name") == reference.get("name")):
            return row.inputs
    return {}


def _taints(entries: Any) -> tuple[Taint, ...]:
    """Return taints with Kubernetes' names of their effects."""
    found = ((one, str(one.get("effect"))) for _, one in items(entries))
    return tuple(
        Taint(str(one.get("key")), str(one.get("value") or ""), EFFECTS.get(effect, effect)) for one, effect in found
    )


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0
