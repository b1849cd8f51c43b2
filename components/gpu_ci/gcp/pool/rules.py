"""What a pool adds to its machines, checked: their labels, their check, those that wait, and their runner.

The machines themselves, their zones and GPUs among it, are checked in machine/rules.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gpu_catalog as catalog

from ...errors import at_path, invalid, raise_problems
from ..machine.args import GpuMachineArgs
from ..machine.rules import DEFAULT_RUN_LIMIT_SEC, LOCAL_SSD_GIB, machine_of


def smoke(value: Any, others: Mapping[str, Any]) -> Any:
    """A check that can end before the machine's own time does."""
    limit = others.get("max_run_duration_sec") or DEFAULT_RUN_LIMIT_SEC
    if value.deadline_sec >= limit:
        problem = invalid(
            "leaves a machine no time to end its check: maxRunDurationSec deletes it first",
            expected=f"less than maxRunDurationSec, which is {limit}",
            hint="raise maxRunDurationSec, or lower smoke.deadlineSec",
        )
        raise_problems([at_path(problem, value.deadline_sec, "deadline_sec")])
    return value


def standby(value: Any, others: Mapping[str, Any]) -> Any:
    """Only for machines that stay the pool's own: others are deleted when they are taken away."""
    chosen = others.get("market")
    if value is not None and chosen in ("spot", "flex-start"):
        raise invalid(f"{chosen} machines cannot wait stopped", hint="use market: standard, or remove standby")
    if value is not None and others.get("max") and value.stopped_size > others["max"]:
        problem = invalid("is more than max", expected=f"at most {others['max']}", hint="lower it, or raise max")
        raise_problems([at_path(problem, value.stopped_size, "stopped_size")])
    return value


# The runner's word for an architecture of the catalog.
_ARCHIVES = {"x86_64": "x64", "arm64": "arm64"}

UNREADABLE = "no job can read: this pool registers runners, and their jobs are kept from the machine's identity"
ANOTHER_WAY = "give it to workflows by gpu-ci:github.secrets, or by an identity of their own (docs/gcp.md)"


def runner(value: Any, others: Mapping[str, Any]) -> Any:
    """One that the machine can run, and that ends before the machine's own time does."""
    machine = machine_of(others)
    archive = _ARCHIVES[machine.architecture] if machine else ""
    if machine and archive not in value.archives:
        problem = invalid(f"has none for {archive}, which {machine.machine_type} needs", safe_hint=f"add {archive}")
        raise_problems([at_path(problem, value.archives, "sha256")])
    limit = others.get("max_run_duration_sec") or DEFAULT_RUN_LIMIT_SEC
    if value.idle_sec >= limit:
        problem = invalid(
            "leaves a job no time: maxRunDurationSec deletes the machine first",
            expected=f"less than maxRunDurationSec, which is {limit}",
            hint="raise maxRunDurationSec, or lower runner.idleSec",
        )
        raise_problems([at_path(problem, value.idle_sec, "idle_sec")])
    return value


RUNNERLESS = "runs no runner: Container-Optimized OS has neither Python nor what GitHub's runner needs"
ANOTHER_IMAGE = "take an image of Ubuntu or Debian, or leave driver and image out"

STANDING = "cannot wait stopped: a machine registers its runner as soon as it runs, and would be stopped with its job"
NO_STANDBY = "leave standby out"


def github(value: Any, others: Mapping[str, Any]) -> Any:
    """Only where the machine's system can run GitHub's runner."""
    driver = others.get("driver")
    if value is not None and others.get("standby") is not None:
        raise invalid(STANDING, safe_hint=NO_STANDBY)
    if value is not None and driver is not None and driver.source == "cos":
        raise invalid(f"driver.source cos {RUNNERLESS}", safe_hint=ANOTHER_IMAGE)
    return value


def secrets(values: Any, others: Mapping[str, Any]) -> Any:
    """Only where a job can still be somebody who may read them."""
    runner = others.get("runner")
    if others.get("github") is not None and runner is not None and runner.docker != "rootful":
        raise_problems(
            [at_path(invalid(UNREADABLE, safe_hint=ANOTHER_WAY), value, at) for at, value in enumerate(values)]
        )
    return values


def each_once(values: list[Any]) -> list[Any]:
    """No entry twice."""
    error = invalid("is there twice", safe_hint="remove one")
    raise_problems([at_path(error, value, index) for index, value in enumerate(values) if value in values[:index]])
    return values


def runner_labels(values: list[Any]) -> list[Any]:
    """No label twice; GitHub compares them without regard to case."""
    error = invalid("is there twice; case does not count", hint="remove one")
    lower = [str(value).lower() for value in values]
    raise_problems([at_path(error, value, at) for at, value in enumerate(values) if lower[at] in lower[:at]])
    return values


def default_runner_labels(name: str) -> list[str]:
    """The labels of a pool that chooses none."""
    return ["self-hosted", "gpu", name]


def demand(name: str, args: GpuMachineArgs, max_machines: int) -> catalog.Demand:
    """What a pool asks of Google: no machine at rest, and one beside the others while a template is checked."""
    return catalog.Demand(
        pool=name,
        machine=args.machine,
        market=catalog.market(args.market),
        region=args.region,
        max_machines=max_machines,
        machines_of_a_check=1,
        boot_disk=args.boot_disk_type,
        boot_disk_gib=args.disk_gib,
        local_ssd_gib=args.local_ssd_count * LOCAL_SSD_GIB,
        max_run_sec=args.run_limit_sec,
    )
