"""List the nodes of GKE node pools.

A pool has one instance group for each of its zones. GKE's autoscaler knows the labels and taints of a pool without
nodes, so its prediction is the node itself (docs.cloud.google.com/kubernetes-engine/docs/concepts/cluster-autoscaler).
Sources of labels, taints and added tolerations: docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus (2026-04-08),
concepts/spot-vms and concepts/dws. Source of the reserved resources: concepts/plan-node-sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.outputs.container import endpoint, group_name, version_numbers
from pulumi_sandbox.providers.kubernetes.objects import inner, items, pairs
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import (
    ARCHITECTURES,
    DISK,
    GPU,
    Group,
    Node,
    number,
    taints,
)
from pulumi_sandbox.world.store import Record, World

NODE_POOL = "gcp:container/nodePool:NodePool"
GIB = 1024**3
# The label of a pool without GKE's own device plugin (NVIDIA/aicr#1998).
WITHOUT_PLUGIN = "gke-no-default-nvidia-gpu-device-plugin"
# Labels that GKE sets for a field of nodeConfig that is true.
OF_MARKET = {
    "flexStart": "cloud.google.com/gke-flex-start",
    "preemptible": "cloud.google.com/gke-preemptible",
    "spot": "cloud.google.com/gke-spot",
}
SSD_GIB = 375


def groups(world: World, cluster: str) -> Iterator[Group]:
    """Yield a group for each zone of each node pool of a cluster. Without a name, it is the only one with pools."""
    rows = world.find(NODE_POOL)
    if not cluster and len({cluster_of(row) for row in rows}) > 1:
        return
    for row in rows:
        if not cluster or is_cluster(cluster, cluster_of(row)):
            yield from _groups(row)


def cluster_of(row: Record) -> str:
    """Return the path of a pool's cluster."""
    return row.id.partition("/nodePools/")[0]


def is_cluster(cluster: str, path: str) -> bool:
    """Return True if the identity of a cluster (kubernetes/cluster.py) is that of the GKE cluster at the path."""
    _, project, _, location, _, name = path.split("/")
    return cluster in (f"gke_{project}_{location}_{name}", f"https://{endpoint(path)}")


def _groups(row: Record) -> Iterator[Group]:
    zones = [str(zone) for zone in row.outputs.get("nodeLocations") or []]
    scaling = inner(row.inputs, "autoscaling") or {}
    size = number(row.outputs.get("nodeCount"))
    total_least, total = (number(scaling.get(name)) for name in ("totalMinNodeCount", "totalMaxNodeCount"))
    for index, zone in enumerate(zones):
        # The total minimum is spread over the zones.
        least = max(number(scaling.get("minNodeCount")), (total_least + len(zones) - 1 - index) // len(zones))
        most = (total or number(scaling.get("maxNodeCount"))) if scaling else size
        pattern = _pattern(row, zone)
        name = group_name(row.id, zone)
        desired = max(size, least) if scaling else size
        gpus = {GPU: Fraction(pattern.gpus)} if pattern.gpus and pattern.has_builtin_plugin else {}
        predicted = replace(pattern, allocatable={**pattern.allocatable, **gpus})
        yield Group(name, (NODE_POOL, row.id), desired, max(most, desired), pattern, predicted, total or None)


def _pattern(row: Record, zone: str) -> Node:
    config = inner(row.outputs, "nodeConfig") or {}
    kind = machine_types.short(str(config.get("machineType")))
    machine = machine_types.machine(kind)
    accelerator = next((one for _, one in items(config.get("guestAccelerators"))), {})
    accelerator_type = machine_types.short(str(accelerator.get("type") or (machine.accelerator if machine else "")))
    declared = {key: str(value) for key, value in pairs(config.get("labels"))}
    is_cos = str(config.get("imageType")).upper().startswith("COS")
    offer = machine.offer if machine else None
    labels = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": ARCHITECTURES[offer.architecture] if offer else "amd64",
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/region": zone.rpartition("-")[0],
        "topology.kubernetes.io/zone": zone,
        "cloud.google.com/gke-nodepool": row.id.rpartition("/")[2],
        "cloud.google.com/gke-os-distribution": "cos" if is_cos else "ubuntu",
        **({"cloud.google.com/gke-accelerator": accelerator_type} if accelerator_type else {}),
        **{label: "true" for name, label in OF_MARKET.items() if config.get(name) is True},
        **declared,
    }
    gpus = _gpus(accelerator, machine.gpus if machine else 0, str(row.outputs.get("version")))
    has_plugin = declared.get(WITHOUT_PLUGIN) != "true"
    size, of_pool = _allocatable(machine, config), taints(config.get("effectiveTaints"))
    return Node("", labels, of_pool, size, gpus, has_plugin, adds_tolerations=True)


def _gpus(accelerator: Mapping[str, Any], of_machine: int, version: str) -> int:
    """Return the GPUs that a node advertises: with GPU sharing, several for each GPU. Without a driver, none."""
    driver = inner(accelerator, "gpuDriverInstallationConfig", "gpuDriverVersion")
    if driver in (None, "INSTALLATION_DISABLED") and (accelerator or version_numbers(version) < (1, 30, 1, 1156000)):
        return 0
    clients = number(inner(accelerator, "gpuSharingConfig", "maxSharedClientsPerGpu"))
    return (number(accelerator.get("count")) or of_machine) * max(clients, 1)


def _allocatable(machine: machine_types.MachineType | None, config: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return the size of a node. What GKE reserves is not subtracted.

    Pods have the boot disk, or the local SSDs for ephemeral storage.
    """
    ssds = number(inner(config, "ephemeralStorageLocalSsdConfig", "localSsdCount"))
    allocatable = {DISK: Fraction(ssds * SSD_GIB or number(config.get("diskSizeGb"))) * GIB}
    if machine and machine.vcpus and machine.memory_gb:
        allocatable |= {"cpu": Fraction(machine.vcpus), "memory": Fraction(machine.memory_gb) * GIB}
    return allocatable
