"""What must fit for the runners of a pool to get on its nodes: pure functions over plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_catalog import Machine

from ..errors import invalid, located, refuse
from ..kubernetes.runner_choices import RunnerChoices
from .node_rules import machines_of

# What is left to pods of a node: the kubelet keeps memory by the number of pods there may be, and the cluster's own
# pods run on it too (awslabs/amazon-eks-ami@e48b98a:nodeadm/internal/kubelet/config.go). How much that is differs, so
# these are ours, and on the safe side: a pod that fits on no node waits for ever, and nothing says why.
_CPUS_KEPT = 1
_MEMORY_SHARE, _MEMORY_KEPT_GIB = 0.9, 1


def free_for_pods(machine: Machine) -> tuple[int, int]:
    """CPUs and GiB of memory that pods can have together on one node."""
    return machine.vcpus - _CPUS_KEPT, int(machine.memory_gib * _MEMORY_SHARE) - _MEMORY_KEPT_GIB


def runner(value: RunnerChoices, others: Mapping[str, Any]) -> RunnerChoices:
    """One that fits on the smallest node of the pool."""
    machines = machines_of(others)
    if not machines:
        return value
    smallest = machines[0]
    cpus, memory = free_for_pods(smallest)
    problems = []
    for key, wanted, free, unit in (("cpus", value.cpus, cpus, "CPUs"), ("memoryGib", value.memory_gib, memory, "GiB")):
        if wanted > free:
            error = invalid(
                f"is more than {smallest.machine_type} has left for pods, {free} {unit}: no runner would ever start",
                hint=f"{key}: {free}, or a larger instance type",
            )
            problems.append(located(error, wanted, key))
    if value.gpus > smallest.gpu_count >= 1:
        error = invalid(
            f"is more than {smallest.machine_type} has, {smallest.gpu_count:g}: no runner would ever start",
            hint=f"gpus: {smallest.gpu_count:g}, or an instance type with more",
        )
        problems.append(located(error, value.gpus, "gpus"))
    refuse(problems)
    return value


def runners_on_a_node(value: RunnerChoices, machine: Machine) -> int:
    """How many runners a node has room for, at least one."""
    cpus, memory = free_for_pods(machine)
    return max(1, min(int(max(machine.gpu_count, 1)) // value.gpus, cpus // value.cpus, memory // value.memory_gib))


def min_idle(value: int, others: Mapping[str, Any]) -> int:
    """No more than there may be at all."""
    machines, most, chosen = machines_of(others), others.get("max"), others.get("runner")
    if machines and most and chosen:
        all_of_them = most * runners_on_a_node(chosen, machines[0])
        if value > all_of_them:
            raise invalid(
                f"is more than the pool has room for, {all_of_them} on {most} nodes", hint="lower it, or raise max"
            )
    return value
