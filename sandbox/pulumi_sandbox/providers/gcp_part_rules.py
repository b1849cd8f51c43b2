"""Rules about the disks and network interfaces of a template's machines that no schema states, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers import gcp_machine_types as machines
from pulumi_sandbox.providers.cloud import UNKNOWN, Problem
from pulumi_sandbox.providers.gcp_common_rules import rows, table
from pulumi_sandbox.providers.gcp_machine_types import MachineType

LOCAL_SSD = "local-ssd"
# terraform-provider-google e03b7622, resource_compute_instance_template.go, VALID_SCRATCH_DISK_SIZES_GB.
SCRATCH_GB = (375, 3000, 3500, 7000, 14000)


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


def scratch_disks(disks: Any) -> Iterator[Problem]:
    # terraform-provider-google e03b7622, resource_compute_instance_template.go,
    # resourceComputeInstanceTemplateScratchDiskCustomizeDiffFunc.
    for index, disk in enumerate(rows(disks)):
        kind, given = table(disk).get("type"), table(disk).get("diskType")
        size, interface = table(disk).get("diskSizeGb"), table(disk).get("interface")
        if UNKNOWN in (kind, given):
            continue
        if kind == "SCRATCH" and given != LOCAL_SSD:
            text = f"SCRATCH disks must have a disk_type of local-ssd. disk {index} has disk_type {given or ''}"
            yield Problem(f"disks[{index}].diskType", text)
        if given == LOCAL_SSD and kind != "SCRATCH":
            text = f"disks with a disk_type of local-ssd must be SCRATCH disks. disk {index} is a {kind or ''} disk"
            yield Problem(f"disks[{index}].type", text)
        if kind != "SCRATCH" or UNKNOWN in (size, interface):
            continue
        if size not in SCRATCH_GB:
            known = " ".join(map(str, SCRATCH_GB))
            text = f"SCRATCH disks must be one of [{known}] GB, disk {index} is {size or 0:g}"
            yield Problem(f"disks[{index}].diskSizeGb", text)
        elif size != SCRATCH_GB[0] and interface != "NVME":
            text = f"SCRATCH disks with a size of {size:g} GB must have an interface of NVME. "
            yield Problem(f"disks[{index}].interface", f"{text}disk {index} has interface {interface or ''}")


def local_disks(chosen: MachineType, card: str, disks: Any) -> Iterator[Problem]:
    # gpu_catalog, `local_disks`; Google Cloud documentation "About Local SSD disks"
    # (docs.cloud.google.com/compute/docs/disks/local-ssd): each machine type has the numbers it takes. Those that come
    # with a type may be repeated, as its GPUs may.
    offer = machines.offer_of(chosen, card)
    given = sum(table(disk).get("diskType") == LOCAL_SSD for disk in rows(disks))
    if offer is None or not given or "local_disks" in offer.uncertain or given in offer.local_disks.counts:
        return
    counts = " or ".join(map(str, offer.local_disks.counts))
    match offer.local_disks.mode:
        case "optional":
            yield Problem("disks", f"{chosen.name} takes 0 or {counts} local SSDs, got {given}")
        case "bundled" if counts:
            text = f"{chosen.name} comes with {counts} local SSDs; {given} cannot be added"
            yield Problem("disks", text, "leave them out")
        case "none":
            yield Problem("disks", f"{chosen.name} takes no local SSDs, got {given}")


def nics(chosen: MachineType, given: Any) -> Iterator[Problem]:
    # gpu_catalog, `nics`: what no vendor's text was read for refuses nothing. What is left out is Google's choice.
    offer = chosen.offer
    if offer is None or not offer.nics or "nics" in offer.uncertain:
        return
    for index, interface in enumerate(rows(given)):
        kind = table(interface).get("nicType")
        # Machines with RDMA have interfaces for it beside the first.
        usable = (*offer.nics, offer.rdma_nic) if index and offer.rdma_nic else offer.nics
        if isinstance(kind, str) and kind and kind not in usable:
            yield Problem(
                f"networkInterfaces[{index}].nicType",
                f"{chosen.name} does not take {kind}",
                f"use {' or '.join(usable)}",
            )
