"""Computes the room that a node on GKE has for pods.

Source of what GKE reserves: docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_catalog import Machine

from ...gcp.machine.rules import LOCAL_SSD_GIB
from ...kubernetes.pool.rules import Node

# The reserved share of each step of a node's memory, in GiB. The last step has no end.
_RESERVED_MEMORY = ((4, 0.25), (4, 0.2), (8, 0.1), (112, 0.06), (float("inf"), 0.02))
_EVICTION_MEMORY_GIB = 100 / 1024
# The CPUs and memory that runners cannot use: GKE reserves less than one CPU, and its own pods on the node, such as
# those for logs, metrics, storage and the GPUs, request CPUs and memory too. No source lists their requests. These
# values are estimates of this project, with a margin. A pod that fits on no node would stay pending without an error.
# The pod of prePull is part of the margin.
_RESERVED_CPUS, _OWN_PODS_GIB = 1, 1
# The GiB that GKE reserves on one, on two, and on more local SSDs for ephemeral storage.
_RESERVED_ON_SSDS_GIB = (50, 75, 100)
# The kubelet evicts pods before the disk is full.
_USABLE_DISK_SHARE = 0.9


def node(machine: Machine, disk_gib: int | None, local_ssds: int | None) -> Node:
    """Return a node of this machine. `disk_gib` and `local_ssds` are None if the field of the pool is invalid."""
    cpus, memory_gib = free_for_pods(machine)
    free_disk_gib = None if disk_gib is None or local_ssds is None else free_disk(disk_gib, local_ssds)
    larger = "more local SSDs" if local_ssds else "a larger diskGib"
    return Node(
        machine, cpus, memory_gib, _disk(disk_gib, local_ssds), free_disk_gib, "machine type", larger_disk=larger
    )


def free_for_pods(machine: Machine) -> tuple[int, int]:
    """Return the CPUs and the GiB of memory that all pods of one node can use."""
    reserved = _stepwise(machine.memory_gib, _RESERVED_MEMORY)
    return machine.vcpus - _RESERVED_CPUS, int(machine.memory_gib - reserved - _EVICTION_MEMORY_GIB) - _OWN_PODS_GIB


def free_disk(disk_gib: int, local_ssds: int) -> int:
    """Return the GiB of ephemeral storage that all pods of one node can use: of the boot disk, or of local SSDs."""
    if local_ssds:
        reserved: float = _RESERVED_ON_SSDS_GIB[min(local_ssds, len(_RESERVED_ON_SSDS_GIB)) - 1]
        return int(local_ssds * LOCAL_SSD_GIB * _USABLE_DISK_SHARE - reserved)
    return int(disk_gib * _USABLE_DISK_SHARE - min(disk_gib / 2, 6 + disk_gib * 0.35, 100))


def _disk(disk_gib: int | None, local_ssds: int | None) -> int | None:
    return local_ssds * LOCAL_SSD_GIB if local_ssds else disk_gib


def _stepwise(amount: float, steps: Sequence[tuple[float, float]]) -> float:
    reserved = 0.0
    for width, share in steps:
        part = min(amount, width)
        reserved += part * share
        amount -= part
    return reserved
