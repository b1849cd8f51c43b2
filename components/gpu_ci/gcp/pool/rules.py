"""What a pool adds to its machines, checked: their labels, their check, those that wait, and their runner.

The machines themselves, their zones and GPUs among it, are checked in machine/rules.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gpu_catalog as catalog
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import InitErrorDetails

from ...errors import at_path, invalid, raise_problems
from ..machine.args import GpuMachineArgs
from ..machine.rules import DEFAULT_RUN_LIMIT_SEC, LOCAL_SSD_GIB, has_local_disks, machine_of


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


STANDING = "cannot wait stopped: a machine registers its runner as soon as it runs, and would be stopped with its job"
NO_STANDBY = "leave standby out"

# Machines with local disks stop only where their data is discarded, and would boot without what they had prepared
# (discovery document compute v1, instances.stop, discardLocalSsd).
LOCAL_DISKS = "has local SSDs, which lose their data when the machine stops"
_OF_THE_GROUP = {
    "mode": "is not for pools with runners: the runner manager starts their machines, when a job waits",
    "initialDelaySec": "is not for pools with runners: the runner manager stops a machine once its check has passed",
}


def standby(value: Any, others: Mapping[str, Any]) -> Any:
    """Only for machines that can be stopped and started again. `value` may be a map with mistakes of its own."""
    # Without `github` in `others` that one is wrong, and who would start the machines is not known.
    if value is None or "github" not in others:
        return value
    choices = value if isinstance(value, Mapping) else value.model_dump(exclude_unset=True)
    given = {to_camel(key): each for key, each in choices.items()}
    github = others["github"]
    problems: list[InitErrorDetails] = []
    if github is not None and github.registered_by == "machine":
        raise invalid(STANDING, safe_hint=NO_STANDBY)
    cannot_stop = ("spot", "flex-start") if github is None else ("flex-start",)
    if (market := others.get("market")) in cannot_stop:
        markets = "standard" if github is None else "spot or standard"
        hint = f"use market: {markets}, or remove standby"
        problems.append(at_path(invalid(f"{market} machines cannot wait stopped", hint=hint), value))
    if github is not None:
        problems += _managed_standby(value, given, others)
    size, most = given.get("stoppedSize"), others.get("max")
    if most and isinstance(size, int) and size > most:
        problem = invalid("is more than max", expected=f"at most {most}", hint="lower it, or raise max")
        problems.append(at_path(problem, size, "stopped_size"))
    raise_problems(problems)
    return value


def _managed_standby(value: Any, given: Mapping[str, Any], others: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
    """What does not go with machines that the runner manager stops."""
    for key, text in _OF_THE_GROUP.items():
        if key in given:
            yield at_path(invalid(text, safe_hint="remove it"), given[key], to_snake(key))
    if has_local_disks(others):
        hint = "leave localSsdCount out" if others.get("local_ssd_count") else "take another machine type"
        yield at_path(invalid(f"the machine {LOCAL_DISKS}", hint=f"{hint}, or remove standby"), value)


# The runner's word for an architecture of the catalog.
_ARCHIVES = {"x86_64": "x64", "arm64": "arm64"}

UNREADABLE = "no job can read: this pool registers runners, and their jobs are kept from the machine's identity"
ANOTHER_WAY = (
    "pass it to workflows with gpu-ci:github.secrets, or with their own identity (docs/guides/compute-engine.md)"
)


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


def github(value: Any, others: Mapping[str, Any]) -> Any:
    """Only where the machine's system can run GitHub's runner."""
    driver = others.get("driver")
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


def demand(name: str, args: GpuMachineArgs, max_machines: int, stopped_machines: int) -> catalog.Demand:
    """What a pool asks of Google: no machine at rest, and one beside the others while a template is checked."""
    return catalog.Demand(
        pool=name,
        machine=args.machine,
        market=catalog.market(args.market),
        region=args.region,
        max_machines=max_machines,
        stopped_machines=stopped_machines,
        machines_of_a_check=1,
        boot_disk=args.boot_disk_type,
        boot_disk_gib=args.disk_gib,
        local_ssd_gib=args.local_ssd_count * LOCAL_SSD_GIB,
        max_run_sec=args.run_limit_sec,
    )
