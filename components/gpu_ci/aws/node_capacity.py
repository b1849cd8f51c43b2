"""What must fit for the runners of a pool to get on its nodes: pure functions over plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_catalog import Machine

from ..errors import at_path, invalid, raise_problems
from ..kubernetes.scale_set.args import RunnerChoices
from .nodes.autoscaler_tags import free_for_pods_gib
from .nodes.rules import machines_of

# What is left to pods of a node: the kubelet keeps memory by the number of pods there may be, and the cluster's own
# pods run on it too (awslabs/amazon-eks-ami@e48b98a:nodeadm/internal/kubelet/config.go). How much that is differs, so
# these are ours, and on the safe side: a pod that fits on no node waits for ever, and nothing says why.
_CPUS_KEPT = 1
_MEMORY_SHARE, _MEMORY_KEPT_GIB = 0.9, 1


def free_for_pods(machine: Machine) -> tuple[int, int]:
    """CPUs and GiB of memory that pods can have together on one node."""
    return machine.vcpus - _CPUS_KEPT, int(machine.memory_gib * _MEMORY_SHARE) - _MEMORY_KEPT_GIB


def runner(value: RunnerChoices | Mapping[str, Any], others: Mapping[str, Any]) -> RunnerChoices | Mapping[str, Any]:
    """One that fits on the smallest node of the pool; of choices that are wrong elsewhere, what is right among them."""
    machines = machines_of(others)
    if not machines:
        return value
    smallest = machines[0]
    cpus, memory = free_for_pods(smallest)
    problems = []
    for key, free, unit in (("cpus", cpus, "CPUs"), ("memoryGib", memory, "GiB")):
        if (wanted := _requested(value, key)) > free:
            error = invalid(
                f"is more than {smallest.machine_type} has left for pods, {free} {unit}: no runner would ever start",
                hint=f"{key}: {free}, or a larger instance type",
            )
            problems.append(at_path(error, wanted, key))
    if disk_gib := others.get("disk_gib"):
        free = free_for_pods_gib(disk_gib)
        if (wanted := _requested(value, "ephemeralStorageGib")) > free:
            error = invalid(
                f"is more than a disk of {disk_gib} GiB has left for pods, {free} GiB: no runner would ever start",
                hint=f"ephemeralStorageGib: {free}, or a larger diskGib",
            )
            problems.append(at_path(error, wanted, "ephemeralStorageGib"))
    if (wanted := _requested(value, "gpus")) > smallest.gpu_count >= 1:
        error = invalid(
            f"is more than {smallest.machine_type} has, {smallest.gpu_count:g}: no runner would ever start",
            hint=f"gpus: {smallest.gpu_count:g}, or an instance type with more",
        )
        problems.append(at_path(error, wanted, "gpus"))
    raise_problems(problems)
    return value


def _requested(value: RunnerChoices | Mapping[str, Any], key: str) -> float:
    """How much a runner asks for; nothing where that is no number, which is told already."""
    name, field = next((name, each) for name, each in RunnerChoices.model_fields.items() if each.alias == key)
    found = getattr(value, name) if isinstance(value, RunnerChoices) else value.get(key, field.default)
    return found if isinstance(found, int | float) else 0


def runners_on_a_node(value: RunnerChoices, machine: Machine, disk_gib: int) -> int:
    """How many runners a node has room for, at least one."""
    cpus, memory = free_for_pods(machine)
    room = (
        int(max(machine.gpu_count, 1)) // value.gpus,
        cpus // value.cpus,
        memory // value.memory_gib,
        free_for_pods_gib(disk_gib) // value.ephemeral_storage_gib,
    )
    return max(1, min(room))


def min_idle(value: int, others: Mapping[str, Any]) -> int:
    """No more than there may be at all; while the runner or the disk is wrong, no more than there are GPUs."""
    machines, most = machines_of(others), others.get("max")
    runner, disk_gib = others.get("runner"), others.get("disk_gib")
    if machines and most:
        gpus = int(max(machines[0].gpu_count, 1))
        on_a_node = runners_on_a_node(runner, machines[0], disk_gib) if runner and disk_gib else gpus
        all_of_them = most * on_a_node
        if value > all_of_them:
            raise invalid(
                f"is more than the pool has room for, {all_of_them} on {most} nodes", hint="lower it, or raise max"
            )
    return value


def smoke(value: Any, others: Mapping[str, Any]) -> Any:
    """It proves no more nodes than there may be."""
    most = others.get("max")
    nodes = value.get("nodes") if isinstance(value, Mapping) else value.nodes
    if most and isinstance(nodes, int) and nodes > most:
        error = invalid(
            f"is more than the pool may have, {most}: the last of them would never come",
            hint=f"nodes: {most}, which is the whole pool, or raise max",
        )
        raise_problems([at_path(error, nodes, "nodes")])
    return value
