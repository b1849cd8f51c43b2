"""Checks that the runners of a pool fit on its nodes. The validators of EksRunnerPoolArgs call these functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_catalog import Machine

from ..errors import at_path, invalid, raise_problems
from ..kubernetes.scale_set.args import RunnerChoices
from .nodes.autoscaler_tags import free_for_pods_gib
from .nodes.rules import machines_of

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


def runner(value: RunnerChoices | Mapping[str, Any], others: Mapping[str, Any]) -> RunnerChoices | Mapping[str, Any]:
    """Return the runner settings. Raise an error if a runner does not fit on the smallest node of the pool.

    `value` is a map instead of a model if the settings have other errors.
    """
    machines = machines_of(others)
    if not machines:
        return value
    smallest = machines[0]
    cpus, memory = free_for_pods(smallest)
    problems = []
    for key, free, unit in (("cpus", cpus, "CPUs"), ("memoryGib", memory, "GiB")):
        if (requested := _requested(value, key)) > free:
            error = invalid(
                f"is more than the {free} {unit} that {smallest.machine_type} has for pods, so no runner would start",
                hint=f"{key}: {free}, or a larger instance type",
            )
            problems.append(at_path(error, requested, key))
    if disk_gib := others.get("disk_gib"):
        free = free_for_pods_gib(disk_gib)
        if (requested := _requested(value, "ephemeralStorageGib")) > free:
            error = invalid(
                f"is more than the {free} GiB that a disk of {disk_gib} GiB has for pods, so no runner would start",
                hint=f"ephemeralStorageGib: {free}, or a larger diskGib",
            )
            problems.append(at_path(error, requested, "ephemeralStorageGib"))
    if (requested := _requested(value, "gpus")) > smallest.gpu_count >= 1:
        error = invalid(
            f"is more than the {smallest.gpu_count:g} of {smallest.machine_type}, so no runner would start",
            hint=f"gpus: {smallest.gpu_count:g}, or an instance type with more GPUs",
        )
        problems.append(at_path(error, requested, "gpus"))
    raise_problems(problems)
    return value


def _requested(value: RunnerChoices | Mapping[str, Any], key: str) -> float:
    """Return the amount that a runner requests, or 0 for an invalid value, which is reported elsewhere."""
    name, field = next((name, each) for name, each in RunnerChoices.model_fields.items() if each.alias == key)
    found = getattr(value, name) if isinstance(value, RunnerChoices) else value.get(key, field.default)
    return found if isinstance(found, int | float) else 0


def runners_on_a_node(value: RunnerChoices, machine: Machine, disk_gib: int) -> int:
    """Return the number of runners that fit on a node, at least one."""
    cpus, memory = free_for_pods(machine)
    runners_by_resource = (
        int(max(machine.gpu_count, 1)) // value.gpus,
        cpus // value.cpus,
        memory // value.memory_gib,
        free_for_pods_gib(disk_gib) // value.ephemeral_storage_gib,
    )
    return max(1, min(runners_by_resource))


def min_idle(value: int, others: Mapping[str, Any]) -> int:
    """Return the number of idle runners. Raise an error if it is above the number of runners that fit on all nodes.

    If the settings of the runner or the disk are invalid, each GPU counts as one runner.
    """
    machines, max_nodes = machines_of(others), others.get("max")
    runner, disk_gib = others.get("runner"), others.get("disk_gib")
    if machines and max_nodes:
        gpus = int(max(machines[0].gpu_count, 1))
        runners_per_node = runners_on_a_node(runner, machines[0], disk_gib) if runner and disk_gib else gpus
        capacity = max_nodes * runners_per_node
        if value > capacity:
            raise invalid(
                f"is more than the {capacity} runners that fit on {max_nodes} nodes", hint="lower minIdle, or raise max"
            )
    return value


def smoke(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the settings of the smoke check. Raise an error if they need more nodes than the pool may have."""
    max_nodes = others.get("max")
    nodes = value.get("nodes") if isinstance(value, Mapping) else value.nodes
    if max_nodes and isinstance(nodes, int) and nodes > max_nodes:
        error = invalid(
            f"is more than the pool's maximum of {max_nodes} nodes, so the check could never pass",
            hint=f"nodes: {max_nodes}, which is the whole pool, or raise max",
        )
        raise_problems([at_path(error, nodes, "nodes")])
    return value
