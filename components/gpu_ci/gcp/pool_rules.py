"""What Google takes in a GPU pool: pure functions over plain values, their facts from gpu_catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gpu_catalog as catalog
from gpu_catalog import Machine
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from ..errors import did_you_mean, invalid
from . import boot_image
from .places import ZONE

if TYPE_CHECKING:
    from .runner_pool import RunnerPoolArgs

_ZONE = re.compile(ZONE)


def machine_type(value: str) -> str:
    """Known, and with at least one whole GPU."""
    known = catalog.machine_types("gcp")
    if value not in known:
        hint = did_you_mean(value, known) or "GPUs come with a2, a3, a4, g2 and g4 types, and attach to n1"
        raise invalid("is no machine type that has a GPU", hint=hint)
    if not catalog.takes_accelerator(value) and catalog.machine(value).gpu_count < 1:
        raise invalid(
            "has a fraction of a GPU, which needs the vGPU guest driver the images here lack",
            hint="g4-standard-48 has the smallest whole one",
        )
    return value


def accelerator_type(value: str) -> str:
    """One that attaches to N1."""
    if value not in catalog.attachable():
        raise invalid(
            "is no accelerator n1 takes",
            hint=did_you_mean(value, catalog.attachable()),
            expected=_list(catalog.attachable()),
        )
    return value


def accelerator_count(value: int, others: Mapping[str, Any]) -> int:
    """A number of them that one machine can have."""
    kind = others.get("type")
    if kind and value not in catalog.attachment_counts(kind):
        counts = catalog.attachment_counts(kind)
        hint = f"such as count: {min(counts, key=lambda each: abs(each - value))}"
        raise invalid(f"no machine has this many {kind}", expected=_list(counts), hint=hint)
    return value


def accelerator(value: Any, others: Mapping[str, Any]) -> Any:
    """Given for n1, which has no GPU of its own, and for nothing else; and not for too big a machine."""
    machine = others.get("machine_type")
    if not machine:
        return value
    if not catalog.takes_accelerator(machine):
        if value is not None:
            raise invalid(f"is only for n1: {machine} has its GPUs built in", hint="remove it")
        return value
    if value is None:
        raise invalid(f"is missing: {machine} has no GPU of its own", hint="such as {type: nvidia-tesla-t4, count: 1}")
    if too_big := catalog.too_large(machine, value.type, value.count):
        raise invalid(f"does not go with {machine}", expected=too_big)
    return value


def machine_of(choices: Mapping[str, Any]) -> Machine | None:
    """The machine these choices come to, or nothing while one of them is wrong."""
    name, gpus = choices.get("machine_type"), choices.get("guest_accelerator")
    if not name or "guest_accelerator" not in choices:
        return None
    return catalog.attached(name, gpus.type, gpus.count) if gpus else catalog.machine(name)


def zones(values: list[str], others: Mapping[str, Any]) -> list[str]:
    """Zones of one region that each have the GPU."""
    machine, problems = machine_of(others), []
    for index, zone in enumerate(values):
        if not _ZONE.fullmatch(zone):
            problem = invalid("is no zone", expected="a GCE zone, such as us-central1-a")
        elif zone in values[:index]:
            problem = invalid("is there twice", hint="remove one")
        elif catalog.region_of(zone) != catalog.region_of(values[0]):
            problem = invalid(
                "is in another region; a pool is in one", expected=f"a zone of {catalog.region_of(values[0])}"
            )
        elif machine and not machine.is_in(zone):
            problem = _not_there(machine, zone)
        else:
            continue
        problems.append(_at(index, zone, problem))
    if problems:
        raise ValidationError.from_exception_data("zones", problems)
    return values


def market(value: str, others: Mapping[str, Any]) -> str:
    """A way this machine is sold."""
    machine = machine_of(others)
    if machine and value not in machine.markets:
        ours = [kind for kind in machine.markets if kind in ("standard", "spot")]
        hint = f"use {' or '.join(ours)}" if ours else f"only by {_list(machine.markets)}, which pools do not do yet"
        raise invalid(f"{others['machine_type']} is not sold this way", hint=hint)
    return value


def disk_type(value: str | None, others: Mapping[str, Any]) -> str | None:
    """A boot disk the series takes."""
    machine = machine_of(others)
    if value and machine and value not in machine.boot_disks:
        raise invalid(f"{others['machine_type']} does not boot from it", expected=_list(machine.boot_disks))
    return value


def image(value: str, others: Mapping[str, Any]) -> str:
    """With a driver and a torch the GPU can use, as far as the image's name tells."""
    machine = machine_of(others)
    if machine and (found := list(boot_image.faults(value, machine))):
        reasons, (first, *_) = "; ".join(fault.text for fault in found), found
        raise invalid(reasons, expected=first.instead, hint="or take nvidia-tesla-t4" if machine.attached else "")
    return value


def smoke(value: Any, others: Mapping[str, Any]) -> Any:
    """A check that can end before the machine's own time does."""
    limit = others.get("max_run_duration_sec")
    if limit and value.deadline_sec >= limit:
        problem = invalid(
            "leaves a machine no time to end its check: maxRunDurationSec deletes it first",
            expected=f"less than maxRunDurationSec, which is {limit}",
            hint="raise maxRunDurationSec, or lower smoke.deadlineSec",
        )
        raise ValidationError.from_exception_data("smoke", [_at("deadline_sec", value.deadline_sec, problem)])
    return value


def runner_labels(values: list[str] | None) -> list[str] | None:
    """No label twice; GitHub compares them without regard to case."""
    seen: set[str] = set()
    problems = []
    for index, value in enumerate(values or ()):
        if value.lower() in seen:
            problems.append(_at(index, value, invalid("is there twice; case does not count", hint="remove one")))
        seen.add(value.lower())
    if problems:
        raise ValidationError.from_exception_data("runnerLabels", problems)
    return values


def default_runner_labels(name: str) -> list[str]:
    """The labels of a pool that chooses none."""
    return ["self-hosted", "gpu", name]


def default_disk_type(machine: Machine) -> str:
    """Balanced persistent disk, where the series takes it."""
    return "pd-balanced" if "pd-balanced" in machine.boot_disks else machine.boot_disks[0]


def demand(name: str, args: RunnerPoolArgs) -> catalog.Demand:
    """What a pool asks of Google: no machine at rest, and one beside the others while a template is checked."""
    return catalog.Demand(
        pool=name,
        machine=args.machine,
        market=catalog.market(args.market),
        region=args.region,
        max_machines=args.max,
        machines_of_a_check=1,
        boot_disk=args.disk_type or default_disk_type(args.machine),
        boot_disk_gib=args.disk_gib,
        max_run_sec=args.max_run_duration_sec,
    )


def _not_there(machine: Machine, zone: str) -> PydanticCustomError:
    hint = f"zones that have it: {_list(machine.zones_near(zone))}"
    if machine.attached:
        # Some zones have the GPU, and take it beside smaller machines only.
        smaller = catalog.too_large(machine.machine_type, machine.accelerator, machine.api_gpu_count, (zone,))
        if smaller:
            return invalid(f"does not take {machine.machine_type} with them", expected=smaller, hint=hint)
    return invalid(f"has no {machine.accelerator}", hint=hint)


def _at(step: int | str, value: Any, problem: PydanticCustomError) -> InitErrorDetails:
    return InitErrorDetails(type=problem, loc=(step,), input=value)


def _list(items: tuple[Any, ...]) -> str:
    return ", ".join(map(str, items))
