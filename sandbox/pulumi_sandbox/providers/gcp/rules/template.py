"""Rules for instance templates that no schema states, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.compute.machine_types import MachineType
from pulumi_sandbox.providers.gcp.rules import disk, part, purchase
from pulumi_sandbox.providers.gcp.rules.common import labels, metadata, name_prefix
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN


def template(inputs: dict[str, Any], region: str = "") -> Iterator[Problem]:
    """Everything about one template; `region` is where it lives, empty for a template that works everywhere."""
    yield from labels(inputs.get("labels"), "labels")
    yield from metadata(inputs)
    yield from name_prefix(inputs)
    scheduling = table(inputs.get("scheduling"))
    if inputs.get("scheduling") is not UNKNOWN:
        yield from purchase.scheduling_rules(scheduling)
    yield from purchase.reservation(scheduling, inputs.get("reservationAffinity"))
    yield from disk.every_disk(inputs.get("disks"))
    yield from part.interfaces(inputs.get("networkInterfaces"))
    yield from part.scopes(inputs.get("serviceAccount"))
    wanted = inputs.get("machineType")
    if not isinstance(wanted, str):
        return
    chosen = machine_types.machine(machine_types.short(wanted))
    if chosen is None:
        yield Problem(
            "machineType", f'"{wanted}" is not a machine type', machine_types.did_you_mean(machine_types.short(wanted))
        )
        return
    yield from accelerators(chosen, inputs.get("guestAccelerators"))
    yield from disk.boot_disk(chosen, inputs.get("disks"))
    yield from disk.local_disks(chosen, attached(inputs), inputs.get("disks"))
    yield from part.nics(chosen, inputs.get("networkInterfaces"))
    yield from part.confidential(chosen, has_gpu(chosen, inputs), inputs.get("confidentialInstanceConfig"))
    yield from purchase.market(chosen, scheduling)
    yield from place(chosen, attached(inputs), region)
    if has_gpu(chosen, inputs) and inputs.get("scheduling") is not UNKNOWN:
        yield from purchase.maintenance(scheduling)


def attached(inputs: dict[str, Any]) -> str:
    """The type of the attached accelerator, empty when there is none or it is not known yet."""
    for row in rows(inputs.get("guestAccelerators")):
        kind = table(row).get("type")
        if isinstance(kind, str):
            return machine_types.short(kind)
    return ""


def has_gpu(chosen: MachineType, inputs: dict[str, Any]) -> bool:
    return bool(chosen.accelerator or attached(inputs))


def accelerators(chosen: MachineType, given: Any) -> Iterator[Problem]:
    for index, row in enumerate(rows(given)):
        kind, count = table(row).get("type"), table(row).get("count")
        if not isinstance(kind, str) or not isinstance(count, int | float):
            continue
        path, card, cards = f"guestAccelerators[{index}]", machine_types.short(kind), int(count)
        if chosen.accelerator:
            # gcp.md: the provider's own a3 example repeats the type's accelerator, so an exact repetition is accepted.
            if (card, cards) != (chosen.accelerator, chosen.gpus):
                yield Problem(
                    path,
                    f"{chosen.name} comes with {chosen.gpus} x {chosen.accelerator}; {cards} x {card} cannot be added",
                    "leave guestAccelerators out",
                )
        elif chosen.takes_accelerators:
            yield from n1(chosen, card, cards, path)
        elif chosen.name in machine_types.SHARED_CORE or cards > 0:
            yield Problem(
                path, f"{chosen.name} takes no GPU; only N1 machine types (not shared-core ones) take attached GPUs"
            )


def n1(chosen: MachineType, card: str, count: int, path: str) -> Iterator[Problem]:
    counts = machine_types.n1_counts(card)
    if not counts:
        known = " ".join(gpu_catalog.attachable())
        yield Problem(f"{path}.type", f"{card} cannot be attached to N1 machine types; these can: {known}")
        return
    limit = machine_types.n1_limit(card, count, [])
    if limit is None:
        allowed = ", ".join(str(number) for number in counts)
        yield Problem(f"{path}.count", f"expected one of {allowed} GPUs of type {card}, got {count}")
        return
    if (chosen.vcpus or 0) > limit[0] or (chosen.memory_gb or 0) > limit[1]:
        yield Problem(
            "machineType",
            f"{chosen.name} ({chosen.vcpus} vCPUs, {chosen.memory_gb:g} GB) is larger than {count} x {card} "
            f"allows: {limit[0]} vCPUs, {limit[1]} GB",
        )


def place(chosen: MachineType, card: str, region: str) -> Iterator[Problem]:
    offer = machine_types.offer_of(chosen, card)
    if offer is None or not region or region in offer.regions:
        return
    what = chosen.name if chosen.accelerator else card
    near = [name for name in offer.regions if name.split("-")[0] == region.split("-")[0]]
    yield Problem(
        "region",
        f"{what} is in no zone of {region}",
        f"the nearest regions with it: {', '.join(near[:4])}" if near else "",
    )
