"""Returns the size of a runner that fits on a small node, for pools on clusters."""

from __future__ import annotations

from typing import Any, cast

from gpu_catalog import Machine

from gpu_ci.gcp.machine.args import GuestAccelerator
from gpu_ci.kinds import args_for


def of(kind: str, machine: Machine) -> dict[str, int]:
    """Return the fields `cpus` and `memoryGib` of a runner whose defaults do not fit on a node with this machine.

    Return nothing if the defaults fit, or if a package of the cloud is missing: the check of the stack file reports
    that.
    """
    try:
        from gpu_ci.kubernetes.pool.args import RunnerPoolArgs
        from gpu_ci.kubernetes.scale_set.args import RunnerChoices

        args = cast(type[RunnerPoolArgs], args_for(kind))
    except ModuleNotFoundError:
        return {}
    node = args.node_of(_fields(machine))
    if node is None:
        return {}
    free = {"cpus": node.cpus, "memory_gib": node.memory_gib}
    names = {"cpus": "cpus", "memory_gib": "memoryGib"}
    return {names[name]: value for name, value in free.items() if 0 < value < RunnerChoices.model_fields[name].default}


def _fields(machine: Machine) -> dict[str, Any]:
    if machine.cloud == "aws":
        return {"instance_types": [machine.machine_type]}
    attached = machine.attached and GuestAccelerator(type=machine.accelerator, count=machine.api_gpu_count)
    return {"machine_type": machine.machine_type, "guest_accelerator": attached or None}
