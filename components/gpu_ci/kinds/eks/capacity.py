"""The room that a node on EKS has for pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_catalog import Machine

from ...aws.nodes import rules
from ...aws.nodes.launch_template import free_for_pods_gib
from ...kubernetes.pool.rules import Node

# The CPUs and memory of a node that runners cannot use. The kubelet reserves memory for each possible pod, and the pods
# of the cluster itself run on the node, too (awslabs/amazon-eks-ami@e48b98a:nodeadm/internal/kubelet/config.go). The
# real amount varies. These values are estimates of this project, with a margin. A pod that fits on no node would stay
# pending without an error. The pod of prePull is part of the margin: a whole CPU for its 10 thousandths of a CPU would
# be too much. A test computes the margin of every instance type.
_RESERVED_CPUS = 1
_USABLE_MEMORY_SHARE, _RESERVED_MEMORY_GIB = 0.9, 1


def free_for_pods(machine: Machine) -> tuple[int, int]:
    """Return the CPUs and the GiB of memory that all pods of one node can use."""
    return machine.vcpus - _RESERVED_CPUS, int(machine.memory_gib * _USABLE_MEMORY_SHARE) - _RESERVED_MEMORY_GIB


def node(machine: Machine, fields: Mapping[str, Any]) -> Node:
    """Return a node of this instance type, with the disks of a pool with these fields. Invalid fields are missing."""
    cpus, memory_gib = free_for_pods(machine)
    disk_gib = rules.for_pods_gib(fields)
    free_disk_gib = None if disk_gib is None else free_for_pods_gib(disk_gib)
    larger_disk = "a larger instance type" if fields.get("instance_store") else "a larger diskGib"
    return Node(machine, cpus, memory_gib, disk_gib, free_disk_gib, "instance type", larger_disk)
