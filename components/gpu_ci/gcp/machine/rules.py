"""Validates the fields of GpuMachineArgs by the rules of Compute Engine and the facts of gpu_catalog.

Each function validates one field: it returns a valid value and raises an error for an invalid value. `others` has the
fields validated before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine
from gpu_catalog.models import LocalDisks
from pydantic_core import PydanticCustomError

from ...errors import at_path, did_you_mean, invalid, raise_problems
from ...machines.rules import machine_of
from ..regions import COMPUTE
from ..resource_names import ZONE

_ZONE = re.compile(ZONE)

# Seconds. cloud.google.com/compute/docs/instances/about-flex-start-vms: 10 minutes to 7 days.
RUN_LIMIT_SEC = (600, 604_800)

# The maximum number of zones or regions in a hint. Many machines have more than 40 zones.
_PLACES = 5

LOCAL_SSD_GIB = 375
"""The size of one local SSD, for machine types to which local SSDs can be added.

Source: cloud.google.com/compute/docs/disks/local-ssd.
"""


def machine_type(value: str) -> str:
    """Return the machine type. It must have built-in GPUs or allow attached GPUs.

    Custom types are not supported: they have no price in the catalog. Google may also convert a custom type to another
    machine type (hashicorp/terraform-provider-google@e03b762:website/docs/r/compute_instance.html.markdown,
    machine_type). Each `pulumi up` would then create a new template, and run a smoke check.
    """
    known = catalog.machine_types("gcp")
    if value not in known:
        hint = did_you_mean(value, known) or "gpu-ci catalog lists the types with a GPU, such as g2-standard-8"
        raise invalid("is not a machine type with a GPU", "not-a-gpu-machine", hint=hint)
    return value


def accelerator_type(value: str) -> str:
    """Return the accelerator type. It must be possible to attach it to N1 machines."""
    if value not in catalog.attachable():
        built_in = value in catalog.accelerators()
        raise invalid(
            "is not an accelerator for n1 machine types",
            "not-an-accelerator",
            hint="remove guestAccelerator: machine types with this GPU include it"
            if built_in
            else did_you_mean(value, catalog.attachable()),
            expected=_joined(catalog.attachable()),
        )
    return value


def accelerator_count(value: int, others: Mapping[str, Any]) -> int:
    """Return the number of accelerators. One machine must be able to have that many."""
    accelerator = others.get("type")
    if accelerator and value not in catalog.attachment_counts(accelerator):
        counts = catalog.attachment_counts(accelerator)
        hint = f"such as count: {min(counts, key=lambda each: abs(each - value))}"
        raise invalid(
            f"no machine has this many {accelerator}", "accelerator-count", expected=_joined(counts), hint=hint
        )
    return value


def accelerator(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the attached accelerators. N1 types require them. Other machine types do not allow them."""
    machine = others.get("machine_type")
    if not machine:
        return value
    if not catalog.takes_accelerator(machine):
        if value is not None:
            raise invalid(
                f"is only for n1 machine types: {machine} has built-in GPUs",
                "built-in-gpus",
                hint="remove guestAccelerator, because the machine type includes the GPUs",
            )
        return value
    if value is None:
        raise invalid(
            f"is missing: {machine} has no GPU of its own", "missing", hint="such as {type: nvidia-tesla-t4, count: 1}"
        )
    if limit := catalog.too_large(machine, value.type, value.count):
        raise invalid(f"is not available for {machine}", "machine-too-large", expected=limit)
    return value


def zones(values: list[str], others: Mapping[str, Any]) -> list[str]:
    """Return the zones. All zones must be in one region and have the machine."""
    machine, problems = machine_of(others), []
    # All zones are compared with the region of the first valid zone.
    found = (catalog.region_of(zone) for zone in values if _ZONE.fullmatch(zone))
    region = next((each for each in found if each in COMPUTE), "")
    for index, zone in enumerate(values):
        if not _ZONE.fullmatch(zone):
            text = "is a region, not a zone" if _ZONE.fullmatch(f"{zone}-a") else "is not a zone"
            problem = invalid(text, "not-a-zone", expected="a GCE zone, such as us-central1-a")
        elif zone in values[:index]:
            problem = invalid("is a duplicate", "duplicate", hint="remove it")
        elif catalog.region_of(zone) not in COMPUTE:
            near = catalog.closest_location(zone, machine.zones) if machine else ""
            expected = "a GCE zone, such as us-central1-a"
            problem = invalid(
                "is not in a region of Google Cloud",
                "not-a-region",
                expected=expected,
                hint=near and f"did you mean {near}",
            )
        elif catalog.region_of(zone) != region:
            problem = invalid(
                "is in another region; all zones of a pool must be in one region",
                "other-region",
                expected=f"a zone of {region}",
            )
        elif machine and not machine.is_in(zone):
            problem = _not_in_zone(machine, zone)
        else:
            continue
        problems.append(at_path(problem, zone, index))
    raise_problems(problems)
    return values


def market(value: str, others: Mapping[str, Any]) -> str:
    """Return the market. Google must sell the machine in it."""
    machine = machine_of(others)
    if machine and value not in (*machine.markets, *machine.unverified_markets):
        hint = f"use {' or '.join(machine.markets)}"
        if value == "reservation" and "standard" in machine.markets:
            hint = "use market: standard, and set reservation to the name of the reservation"
        raise invalid(f"{others['machine_type']} is not available for this market", "market-without-machine", hint=hint)
    return value


def reservation(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the reservation. The market reservation requires it. Spot and flex-start do not allow it."""
    chosen = others.get("market")
    if chosen == "reservation" and value is None:
        raise invalid("is missing; market: reservation requires it", "missing", hint="such as h200-of-ci")
    if value is not None and chosen in ("spot", "flex-start"):
        raise invalid(
            f"cannot be used by {chosen} machines",
            "not-for-market",
            hint="use market: standard or reservation, or remove it",
        )
    return value


def run_limit(value: int | None, others: Mapping[str, Any]) -> int | None:
    """Return the time limit. Flex-start requires it, because Google provides flex-start machines for a limited time."""
    if others.get("market") == "flex-start" and value is None:
        raise invalid("is missing; market: flex-start requires a time limit", "missing", hint="such as 3600")
    return value


def local_ssd_count(value: int, others: Mapping[str, Any]) -> int:
    """Return the number of local SSDs. The machine must be able to have that many. Some types have a fixed number."""
    machine = machine_of(others)
    if not value or not machine:
        return value
    disks, name = machine.local_disks, others["machine_type"]
    if disks.mode == "bundled":
        raise invalid(
            f"is not allowed for {name}, which has a fixed number of local SSDs", "local-ssds", hint="remove it"
        )
    if disks.mode == "none":
        raise invalid(f"{name} does not support local SSDs", "local-ssds", hint="remove it")
    if disks.mode == "optional" and value not in disks.counts:
        nearest = min(disks.counts, key=lambda each: abs(each - value))
        raise invalid(
            f"{name} does not support this number of local SSDs",
            "local-ssds",
            expected=_joined((0, *disks.counts)),
            hint=f"such as {nearest}",
        )
    zones_without = [zone for zone in others.get("zones", ()) if not _zone_has_local_disks(disks, zone)]
    if zones_without:
        raise invalid(
            f"local SSDs are not available with {machine.accelerator} in {', '.join(zones_without)}",
            "local-ssds",
            hint="use other zones, or remove localSsdCount",
        )
    return value


def has_local_disks(choices: Mapping[str, Any]) -> bool:
    """Return True if the machine has local SSDs, built-in or added."""
    machine = machine_of(choices)
    return bool(choices.get("local_ssd_count")) or (machine is not None and machine.local_disks.mode == "bundled")


def _zone_has_local_disks(disks: LocalDisks, zone: str) -> bool:
    return zone not in disks.not_zones and (not disks.only_zones or zone in disks.only_zones)


def nic_type(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the network interface type. The machine must support it."""
    machine = machine_of(others)
    if value and machine and machine.nics and value not in machine.nics:
        hint = f"remove it: the machine gets {machine.nic}" if machine.nic else ""
        raise invalid(
            f"{others['machine_type']} does not support it", "nic-type", expected=_joined(machine.nics), hint=hint
        )
    return value


def disk_type(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the boot disk type. The machine must support it."""
    machine = machine_of(others)
    if value and machine and value not in machine.boot_disks:
        raise invalid(
            f"{others['machine_type']} cannot boot from it", "disk-type", expected=_joined(machine.boot_disks)
        )
    return value


def default_disk_type(machine: Machine) -> str:
    """Return pd-balanced if the machine supports it, or else the first supported type."""
    return "pd-balanced" if "pd-balanced" in machine.boot_disks else machine.boot_disks[0]


def places_with(machine: Machine, places: Sequence[str], noun: str) -> str:
    """Return a hint with the first of the zones or regions that have the machine."""
    more = f"; gpu-ci catalog show {machine.key.partition('/')[2]} lists all" if len(places) > _PLACES else ""
    return f"{noun} that have it: {', '.join(places[:_PLACES])}{more}"


def _not_in_zone(machine: Machine, zone: str) -> PydanticCustomError:
    hint = places_with(machine, machine.zones_near(zone), "zones")
    if machine.attached:
        # Some zones have the GPU only for smaller machine types.
        smaller = catalog.too_large(machine.machine_type, machine.accelerator, machine.api_gpu_count, (zone,))
        if smaller:
            return invalid(
                f"has no {machine.machine_type} with these GPUs", "zone-without-gpu", expected=smaller, hint=hint
            )
    return invalid(f"has no {machine.accelerator}", "zone-without-gpu", hint=hint)


def _joined(items: tuple[Any, ...]) -> str:
    return ", ".join(map(str, items))
