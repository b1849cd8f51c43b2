"""Rules for instance templates that no schema states, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers import gcp_machine_types as machines
from pulumi_sandbox.providers.cloud import UNKNOWN, Problem
from pulumi_sandbox.providers.gcp_common_rules import labels, metadata, name_prefix, rows, table
from pulumi_sandbox.providers.gcp_machine_types import MachineType


def template(inputs: dict[str, Any], region: str = "") -> Iterator[Problem]:
    """Everything about one template; `region` is where it lives, empty for a template that works everywhere."""
    yield from labels(inputs.get("labels"), "labels")
    yield from metadata(inputs)
    yield from name_prefix(inputs)
    scheduling = table(inputs.get("scheduling"))
    if inputs.get("scheduling") is not UNKNOWN:
        yield from scheduling_rules(scheduling)
        yield from reservation(scheduling, inputs.get("reservationAffinity"))
    wanted = inputs.get("machineType")
    if not isinstance(wanted, str):
        return
    chosen = machines.machine(machines.short(wanted))
    if chosen is None:
        yield Problem("machineType", f'"{wanted}" is not a machine type', machines.did_you_mean(machines.short(wanted)))
        return
    yield from accelerators(chosen, inputs.get("guestAccelerators"))
    yield from boot_disk(chosen, inputs.get("disks"))
    yield from purchase(chosen, scheduling)
    yield from place(chosen, attached(inputs), region)
    if has_gpu(chosen, inputs) and inputs.get("scheduling") is not UNKNOWN:
        yield from maintenance(scheduling)


def attached(inputs: dict[str, Any]) -> str:
    """The type of the attached accelerator, empty when there is none or it is not known yet."""
    for row in rows(inputs.get("guestAccelerators")):
        kind = table(row).get("type")
        if isinstance(kind, str):
            return machines.short(kind)
    return ""


def has_gpu(chosen: MachineType, inputs: dict[str, Any]) -> bool:
    return bool(chosen.accelerator or attached(inputs))


def maintenance(scheduling: dict[str, Any]) -> Iterator[Problem]:
    # Google Cloud documentation "Handle GPU host maintenance events"
    # (docs.cloud.google.com/compute/docs/gpus/gpu-host-maintenance): GPU instances cannot live migrate. The text is the
    # API's own; the API's default for onHostMaintenance is MIGRATE, and for a preemptible instance TERMINATE.
    value = scheduling.get("onHostMaintenance")
    spot = scheduling.get("preemptible") or scheduling.get("provisioningModel") in ("SPOT", UNKNOWN)
    if value is UNKNOWN or value == "TERMINATE" or (not value and spot):
        return
    yield Problem(
        "scheduling.onHostMaintenance",
        f"Instances with guest accelerators do not support live migration (got {value or 'nothing: MIGRATE'}).",
        "set onHostMaintenance to TERMINATE",
    )


def scheduling_rules(scheduling: dict[str, Any]) -> Iterator[Problem]:
    model = scheduling.get("provisioningModel")
    preemptible, restart = scheduling.get("preemptible"), scheduling.get("automaticRestart")
    # Google Cloud documentation "Create and use Spot VMs"
    # (docs.cloud.google.com/compute/docs/instances/create-use-spot).
    # The provider sends automaticRestart true and preemptible false when they are left out.
    if model == "SPOT" and not preemptible:
        yield Problem(
            "scheduling.preemptible", "must be true when provisioningModel is SPOT", "set preemptible to true"
        )
    if (model == "SPOT" or preemptible is True) and restart not in (False, UNKNOWN):
        yield Problem(
            "scheduling.automaticRestart",
            f"must be false when {'provisioningModel is SPOT' if model == 'SPOT' else 'preemptible is true'} "
            f"(the default is true)",
            "set automaticRestart to false",
        )
    if model not in ("SPOT", "STANDARD", None, "", UNKNOWN) and preemptible is True:
        yield Problem("scheduling.preemptible", f"must not be true when provisioningModel is {model}")
    if model == "FLEX_START":
        yield from flex_start(scheduling)


def reservation(scheduling: dict[str, Any], affinity: Any) -> Iterator[Problem]:
    # Google Cloud documentation "Compute Engine instances provisioning models"
    # (docs.cloud.google.com/compute/docs/instances/provisioning-models): reservation-bound VMs use a named reservation.
    if scheduling.get("provisioningModel") != "RESERVATION_BOUND" or affinity is UNKNOWN:
        return
    kind = table(affinity).get("type")
    if kind not in ("SPECIFIC_RESERVATION", UNKNOWN):
        yield Problem(
            "reservationAffinity.type",
            f"must be SPECIFIC_RESERVATION when provisioningModel is RESERVATION_BOUND, got {kind or 'nothing'}",
        )


def flex_start(scheduling: dict[str, Any]) -> Iterator[Problem]:
    # Google Cloud documentation "About Flex-start VMs"
    # (docs.cloud.google.com/compute/docs/instances/about-flex-start-vms).
    if scheduling.get("automaticRestart") not in (False, UNKNOWN):
        yield Problem(
            "scheduling.automaticRestart",
            "must be false when provisioningModel is FLEX_START (the default is true)",
            "set automaticRestart to false",
        )
    if scheduling.get("instanceTerminationAction") not in ("DELETE", UNKNOWN):
        yield Problem(
            "scheduling.instanceTerminationAction",
            f"must be DELETE when provisioningModel is FLEX_START, got "
            f"{scheduling.get('instanceTerminationAction') or 'nothing'}",
        )
    if not scheduling.get("maxRunDuration"):
        yield Problem("scheduling.maxRunDuration", "is required when provisioningModel is FLEX_START")


def purchase(chosen: MachineType, scheduling: dict[str, Any]) -> Iterator[Problem]:
    # gpu_catalog, `markets`: what each machine type can be bought as.
    model = scheduling.get("provisioningModel") or ("SPOT" if scheduling.get("preemptible") else "STANDARD")
    if not chosen.models or UNKNOWN in (model, scheduling.get("preemptible")):
        return
    if model in ("STANDARD", "SPOT", "FLEX_START") and model not in chosen.models:
        offered = ", ".join(chosen.models)
        yield Problem(
            "scheduling.provisioningModel", f"{chosen.name} is not offered as {model}; it is offered as {offered}"
        )


def accelerators(chosen: MachineType, given: Any) -> Iterator[Problem]:
    for index, row in enumerate(rows(given)):
        kind, count = table(row).get("type"), table(row).get("count")
        if not isinstance(kind, str) or not isinstance(count, int | float):
            continue
        path, card, cards = f"guestAccelerators[{index}]", machines.short(kind), int(count)
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
        elif chosen.name in machines.SHARED_CORE or cards > 0:
            yield Problem(
                path, f"{chosen.name} takes no GPU; only N1 machine types (not shared-core ones) take attached GPUs"
            )


def n1(chosen: MachineType, card: str, count: int, path: str) -> Iterator[Problem]:
    counts = machines.n1_counts(card)
    if not counts:
        known = " ".join(gpu_catalog.attachable())
        yield Problem(f"{path}.type", f"{card} cannot be attached to N1 machine types; these can: {known}")
        return
    limit = machines.n1_limit(card, count, [])
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


def boot_disk(chosen: MachineType, disks: Any) -> Iterator[Problem]:
    for index, disk in enumerate(rows(disks)):
        given = table(disk).get("diskType")
        if not isinstance(given, str) or not given:
            continue
        path = f"disks[{index}].diskType"
        if "/" in given:
            # Discovery document compute v1, AttachedDiskInitializeParams.diskType: in a template "without a URL".
            yield Problem(path, f"expected a disk type without a URL, got {given}", f"use {machines.short(given)}")
        # gpu_catalog, `boot_disks`; the first disk boots unless another says that it does.
        boots = table(disk).get("boot")
        kind = machines.short(given)
        if (boots is True or (boots is None and index == 0)) and chosen.boot_disks and kind not in chosen.boot_disks:
            usable = " or ".join(chosen.boot_disks)
            yield Problem(path, f"[{kind}] features are not compatible with {chosen.name}; use {usable}")


def place(chosen: MachineType, card: str, region: str) -> Iterator[Problem]:
    offer = machines.offer_of(chosen, card)
    if offer is None or not region or region in offer.regions:
        return
    what = chosen.name if chosen.accelerator else card
    near = [name for name in offer.regions if name.split("-")[0] == region.split("-")[0]]
    yield Problem(
        "region",
        f"{what} is in no zone of {region}",
        f"the nearest regions with it: {', '.join(near[:4])}" if near else "",
    )
