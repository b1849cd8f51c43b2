"""What Google takes in a machine with GPUs: pure functions over plain values, their facts from gpu_catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine
from gpu_catalog.models import LocalDisks
from pydantic_core import PydanticCustomError

from ...errors import at_path, did_you_mean, invalid, raise_problems
from ..resource_names import ZONE

_ZONE = re.compile(ZONE)
_CUSTOM = re.compile(r"(?:(?P<series>n1|g2)-)?custom-(?P<vcpus>[0-9]{1,3})-(?P<mib>[0-9]{1,7})(?:-ext)?")

# Seconds. cloud.google.com/compute/docs/instances/about-flex-start-vms: 10 minutes to 7 days.
RUN_LIMIT_SEC = (600, 604_800)
DEFAULT_RUN_LIMIT_SEC = 14_400

LOCAL_SSD_GIB = 375
"""One local disk, on every machine that can choose how many it has (cloud.google.com/compute/docs/disks/local-ssd)."""


def machine_type(value: str) -> str:
    """One that has GPUs, or that they attach to."""
    known = catalog.machine_types("gcp")
    if custom := _CUSTOM.fullmatch(value):
        raise _custom(custom["series"] or "n1", int(custom["vcpus"]), int(custom["mib"]) / 1024)
    if value not in known:
        hint = did_you_mean(value, known) or "GPUs come with a2, a3, a4, g2 and g4 types, and attach to n1"
        raise invalid("is no machine type that has a GPU", hint=hint)
    return value


def _custom(series: str, vcpus: int, memory_gib: float) -> PydanticCustomError:
    """What is told of a custom machine type, with the nearest that is predefined.

    They have no price in the catalog, and "may get converted to different machine types" where Google keeps them, which
    would make a new template, and pay for its check, in every run (hashicorp/terraform-provider-google@e03b762:
    website/docs/r/compute_instance.html.markdown, machine_type).
    """
    known: list[catalog.N1Shape | Machine] = [*catalog.n1_shapes(), *catalog.machines(cloud="gcp", n1=False)]
    nearest = min(
        (each for each in known if each.machine_type.startswith(f"{series}-")),
        key=lambda each: (abs(each.vcpus - vcpus), each.vcpus, abs(each.memory_gib - memory_gib)),
    )
    return invalid(
        f"is a custom {series} machine type, which pools do not take",
        expected=f"a predefined {series} machine type" + (", of the size its GPUs allow" if series == "n1" else ""),
        hint=f"such as {nearest.machine_type}, with {nearest.vcpus} vCPUs and {nearest.memory_gib:g} GiB",
    )


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
            raise invalid(
                f"is only for n1: {machine} has its GPUs built in",
                hint="leave guestAccelerator out: the GPUs are a part of the machine type",
            )
        return value
    if value is None:
        raise invalid(f"is missing: {machine} has no GPU of its own", hint="such as {type: nvidia-tesla-t4, count: 1}")
    if too_big := catalog.too_large(machine, value.type, value.count):
        raise invalid(f"does not go with {machine}", expected=too_big)
    return value


def machine_of(choices: Mapping[str, Any]) -> Machine | None:
    """The machine these choices come to, or nothing while one of them is wrong."""
    name, gpus = choices.get("machine_type"), choices.get("guest_accelerator")
    if name and not catalog.takes_accelerator(name):
        return catalog.machine(name)  # its GPUs are built in, whatever is attached by mistake
    return catalog.attached(name, gpus.type, gpus.count) if name and gpus else None


def zones(values: list[str], others: Mapping[str, Any]) -> list[str]:
    """Zones of one region that each have the GPU."""
    machine, problems = machine_of(others), []
    # Of the first that is one: what is no zone has no region either.
    region = next((catalog.region_of(zone) for zone in values if _ZONE.fullmatch(zone)), "")
    for index, zone in enumerate(values):
        if not _ZONE.fullmatch(zone):
            text = "is a region, not a zone" if _ZONE.fullmatch(f"{zone}-a") else "is no zone"
            problem = invalid(text, expected="a GCE zone, such as us-central1-a")
        elif zone in values[:index]:
            problem = invalid("is there twice", hint="remove one")
        elif catalog.region_of(zone) != region:
            problem = invalid("is in another region; a pool is in one", expected=f"a zone of {region}")
        elif machine and not machine.is_in(zone):
            problem = _not_there(machine, zone)
        else:
            continue
        problems.append(at_path(problem, zone, index))
    raise_problems(problems)
    return values


def market(value: str, others: Mapping[str, Any]) -> str:
    """A way this machine is sold."""
    machine = machine_of(others)
    if machine and value not in (*machine.markets, *machine.unverified_markets):
        hint = f"use {' or '.join(machine.markets)}"
        if value == "reservation" and "standard" in machine.markets:
            hint = "its reservations are used by market: standard, with reservation"
        raise invalid(f"{others['machine_type']} is not sold this way", hint=hint)
    return value


def reservation(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Named where the market is one, and for no market that cannot use it."""
    chosen = others.get("market")
    if chosen == "reservation" and value is None:
        raise invalid("is missing, and market is reservation", hint="such as h200-of-ci")
    if value is not None and chosen in ("spot", "flex-start"):
        raise invalid(f"cannot be used by {chosen} machines", hint="use market: standard or reservation, or remove it")
    return value


def run_limit(value: int | None, others: Mapping[str, Any]) -> int | None:
    """Chosen by whoever buys by the time: Google gives flex-start machines for as long as they ask."""
    if others.get("market") == "flex-start" and value is None:
        raise invalid(
            "is missing, and Google gives flex-start machines for a time that is asked for", hint="such as 3600"
        )
    return value


def local_ssd_count(value: int, others: Mapping[str, Any]) -> int:
    """A number of local disks the machine can have; none to choose where they come with it."""
    machine = machine_of(others)
    if not value or not machine:
        return value
    disks, name = machine.local_disks, others["machine_type"]
    if disks.mode == "bundled":
        raise invalid(f"is not chosen for {name}, whose local disks come with it", hint="remove it")
    if disks.mode == "none":
        raise invalid(f"{name} has no local disks", hint="remove it")
    if disks.mode == "optional" and value not in disks.counts:
        nearest = min(disks.counts, key=lambda each: abs(each - value))
        raise invalid(f"{name} does not take this many", expected=_list((0, *disks.counts)), hint=f"such as {nearest}")
    without = [zone for zone in others.get("zones", ()) if not _has_local_disks(disks, zone)]
    if without:
        raise invalid(
            f"{', '.join(without)} has none beside {machine.accelerator}", hint="take other zones, or remove it"
        )
    return value


def has_local_disks(choices: Mapping[str, Any]) -> bool:
    """Whether the machine of these choices has local disks, its own or added ones."""
    machine = machine_of(choices)
    return bool(choices.get("local_ssd_count")) or (machine is not None and machine.local_disks.mode == "bundled")


def _has_local_disks(disks: LocalDisks, zone: str) -> bool:
    return zone not in disks.not_zones and (not disks.only_zones or zone in disks.only_zones)


def nic_type(value: str | None, others: Mapping[str, Any]) -> str | None:
    """A network interface the machine takes."""
    machine = machine_of(others)
    if value and machine and machine.nics and value not in machine.nics:
        hint = f"leave it out: {machine.nic} is what it gets" if machine.nic else ""
        raise invalid(f"{others['machine_type']} does not take it", expected=_list(machine.nics), hint=hint)
    return value


def disk_type(value: str | None, others: Mapping[str, Any]) -> str | None:
    """A boot disk the series takes."""
    machine = machine_of(others)
    if value and machine and value not in machine.boot_disks:
        raise invalid(f"{others['machine_type']} does not boot from it", expected=_list(machine.boot_disks))
    return value


def default_disk_type(machine: Machine) -> str:
    """Balanced persistent disk, where the series takes it."""
    return "pd-balanced" if "pd-balanced" in machine.boot_disks else machine.boot_disks[0]


def _not_there(machine: Machine, zone: str) -> PydanticCustomError:
    hint = f"zones that have it: {_list(machine.zones_near(zone))}"
    if machine.attached:
        # Some zones have the GPU, and take it beside smaller machines only.
        smaller = catalog.too_large(machine.machine_type, machine.accelerator, machine.api_gpu_count, (zone,))
        if smaller:
            return invalid(f"does not take {machine.machine_type} with them", expected=smaller, hint=hint)
    return invalid(f"has no {machine.accelerator}", hint=hint)


def _list(items: tuple[Any, ...]) -> str:
    return ", ".join(map(str, items))
