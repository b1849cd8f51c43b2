"""Validates the machines of a pool on rented hosts, and of the rungs of its ladder, by the facts of gpu_catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import gpu_catalog as catalog
from gpu_catalog import Machine
from pydantic_core import InitErrorDetails, PydanticCustomError

from ...aws.resource_names import REGION as _AWS_REGION
from ...errors import at_path, did_you_mean, invalid, raise_problems
from ...gcp.resource_names import REGION
from ...machines.rules import less_capable

GOOGLE_REGION, AWS_REGION = re.compile(REGION), re.compile(_AWS_REGION)


def machine_of(name: str, vendor: str) -> Machine:
    """Return a machine of a vendor. Vendors have the names of clouds in the catalog."""
    return catalog.machine(name, cast("catalog.Cloud", vendor))


def machine_type(value: str, others: Mapping[str, Any]) -> str:
    """Return the machine type. The vendor must have it."""
    if vendor := others.get("vendor"):
        try:
            machine_of(value, vendor)
        except catalog.UnknownMachine:
            cloud = cast("catalog.Cloud", vendor)
            known, with_gpu = catalog.machine_types(cloud), catalog.machine_with_gpu(value, cloud)
            near = f"such as {with_gpu.machine_type}" if with_gpu else did_you_mean(value, known)
            text, expected = (
                f"is not a machine type of {vendor}",
                "the number of GPUs, x, and the vendor's name of the GPU",
            )
            hint = near or f"one of {', '.join(known)}"
            raise invalid(text, "not-a-gpu-machine", expected=expected, hint=hint) from None
    return value


def zones(values: list[str], others: Mapping[str, Any]) -> list[str]:
    """Return the zones, each once. The vendor must have the machine in them."""
    if not {"vendor", "machine_type"} <= others.keys():
        return values
    machine = machine_of(others["machine_type"], others["vendor"])
    problems: list[tuple[PydanticCustomError, int]] = []
    for index, zone in enumerate(values):
        if zone in values[:index]:
            problems.append((invalid("is a duplicate", "duplicate", hint="remove it"), index))
        elif zone not in machine.regions:
            text = f"{machine.machine_type} is not available there"
            hint = f"use {' or '.join(machine.regions)}"
            problems.append((invalid(text, "type-not-in-region", hint=hint), index))
    raise_problems([at_path(problem, values[index], index) for problem, index in problems])
    return values


def require_trust(others: Mapping[str, Any]) -> None:
    """Raise an error if code that is not trusted may run on reused hosts, or if a job is root there.

    In a stack file, a pool has runners only with gpu-ci:github.runnerGroup, whose group RunnerGroup compares with
    GitHub: the listed repositories only, and no public ones. Forks of public repositories therefore run no job there.
    """
    if {"github", "runner"} <= others.keys():
        github, runner = others["github"], others["runner"]
        if github is None or (isinstance(github.runner_group, str) and github.runner_group.lower() == "default"):
            raise invalid(
                "lets a job change a host for later jobs, and the runner group is not closed to other repositories",
                "open-group",
                expected="a runner group that only listed private repositories may use",
                hint="give gpu-ci:github.runnerGroup and gpu-ci:site.github.managerApp, or remove reuse",
            )
        if runner.docker == "rootful":
            text = "is not supported with runner.docker: rootful: a job is root, and no cleaning removes what it leaves"
            raise invalid(text, "reuse-of-root", safe_hint="use docker: rootless or none, or remove reuse")


def rung_fields(rung: Any, pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine type and the zones of a rung, with the pool's values for omitted fields."""
    return {name: getattr(rung, name) or pool[name] for name in ("machine_type", "zones")}


def ladder(rungs: list[Any], pool: Mapping[str, Any]) -> list[Any]:
    """Return the ladder. Each rung differs from the pool, and its machine is at least as capable as the pool's."""
    if {"vendor", "machine_type", "zones"} <= pool.keys():
        raise_problems([each for number, rung in enumerate(rungs) for each in _problems(number, rung, pool)])
    return rungs


def _problems(number: int, rung: Any, pool: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
    chosen = {**rung_fields(rung, pool), "vendor": pool["vendor"]}
    if chosen == {name: pool[name] for name in chosen}:
        error = invalid("is the pool itself", "same-as-pool", safe_hint="add machineType or zones")
        yield at_path(error, None, number)
        return
    try:
        machine_type(chosen["machine_type"], chosen)
    except PydanticCustomError as wrong:
        yield at_path(wrong, rung.machine_type, number, "machine_type")
        return
    machine = machine_of(chosen["machine_type"], pool["vendor"])
    missing = [zone for zone in chosen["zones"] if zone not in machine.regions]
    if missing:
        hint = f"use zones: [{', '.join(machine.regions)}]"
        error = invalid(f"is not available in {', '.join(missing)}", "type-not-in-region", hint=hint)
        yield at_path(error, machine.machine_type, number, "machine_type" if rung.machine_type else "zones")
    for error in less_capable(machine, machine_of(pool["machine_type"], pool["vendor"])):
        yield at_path(error, machine.machine_type, number, "machine_type")
