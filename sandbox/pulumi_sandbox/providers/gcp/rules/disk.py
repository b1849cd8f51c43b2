"""Check rules for the disks of a template that no schema contains, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.compute.machine_types import MachineType
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

LOCAL_SSD = "local-ssd"
# terraform-provider-google e03b7622, resource_compute_instance_template.go, VALID_SCRATCH_DISK_SIZES_GB.
SCRATCH_GB = (375, 3000, 3500, 7000, 14000)
# The same, buildDisks: the type of a disk without one, even if the machine does not support it.
DEFAULT_TYPE = "pd-standard"
# The same: the possible sources of a disk.
SOURCES = ("source", "sourceImage", "sourceSnapshot")
# Minimum and maximum sizes; other disk types are not checked.
# - Minimum: "must be at least 10 GB" (discovery document compute v1, AttachedDiskInitializeParams.diskSizeGb). A
#   Hyperdisk Balanced that is not a boot disk starts at 4 GB, as an API message says (github.com/kubernetes-sigs/
#   gcp-compute-persistent-disk-csi-driver/issues/2038). The message for too large a disk is modeled on that one.
# - Maximum: 64 TiB (docs.cloud.google.com/compute/docs/disks; github.com/openshift/installer/pull/3639).
SIZES_GB = {
    "pd-standard": (10, 65_536),
    "pd-balanced": (10, 65_536),
    "pd-ssd": (10, 65_536),
    "hyperdisk-balanced": (4, 65_536),
}
BOOT_GB = 10


def every_disk(disks: Any) -> Iterator[Problem]:
    """Check the disk rules that do not depend on the machine type."""
    if disks is UNKNOWN or UNKNOWN in rows(disks):
        return
    if not rows(disks):
        # github.com/googleapis/java-compute/pull/46: "the API now requires that a disk be specified".
        yield Problem("disks", "expected at least one disk, the boot disk")
        return
    yield from boots(rows(disks))
    for index, row in enumerate(rows(disks)):
        yield from size(table(row), index)
    yield from scratch_disks(disks)


def boots(disks: list[Any]) -> Iterator[Problem]:
    # terraform-provider-google e03b7622, resource_compute_instance_template.go: the first disk is the boot disk, even
    # with boot: false (buildDisks). No other disk may be one (resourceComputeInstanceTemplateBootDiskCustomizeDiff).
    for index, row in enumerate(disks):
        if index and table(row).get("boot") is True:
            yield Problem(
                f"disks[{index}].boot",
                f"Only the first disk specified in instance_template can be the boot disk. disk.{index}.boot was true",
            )
    if not any(table(disks[0]).get(name) for name in SOURCES):
        # Discovery document compute v1, AttachedDiskInitializeParams.sourceImage: one of them "is required".
        yield Problem("disks[0]", "Boot disk must have a source specified", f"one of {', '.join(SOURCES)}")


def size(disk: dict[str, Any], index: int) -> Iterator[Problem]:
    size_gb, kind = disk.get("diskSizeGb"), disk.get("diskType") or DEFAULT_TYPE
    if not isinstance(size_gb, int | float) or disk.get("type") in ("SCRATCH", UNKNOWN) or kind not in SIZES_GB:
        return
    min_gb, max_gb = SIZES_GB[kind]
    min_gb = min_gb if index else max(min_gb, BOOT_GB)
    if not min_gb <= size_gb <= max_gb:
        limit = f"smaller than {min_gb}" if size_gb < min_gb else f"larger than {max_gb}"
        yield Problem(
            f"disks[{index}].diskSizeGb",
            f"Invalid value for field 'resource.properties.disks[{index}].initializeParams.diskSizeGb': '{size_gb:g}'. "
            f"Disk size cannot be {limit} GB for disk type {kind}.",
        )


def boot_disk(machine_type: MachineType, disks: Any) -> Iterator[Problem]:
    for index, row in enumerate(rows(disks)):
        disk = table(row)
        disk_type = disk.get("diskType")
        if row is UNKNOWN or disk_type is UNKNOWN:
            continue
        path = f"disks[{index}].diskType"
        if isinstance(disk_type, str) and "/" in disk_type:
            # Discovery document compute v1, AttachedDiskInitializeParams.diskType: in a template "without a URL".
            yield Problem(
                path, f"expected a disk type without a URL, got {disk_type}", f"use {machine_types.short(disk_type)}"
            )
        # gpu_catalog, `boot_disks`. An existing disk has its own type.
        kind = machine_types.short(disk_type) if disk_type else "" if disk.get("source") else DEFAULT_TYPE
        if index == 0 and kind and machine_type.boot_disks and kind not in machine_type.boot_disks:
            usable = " or ".join(machine_type.boot_disks)
            default = "" if disk_type else " (the provider's default, because no disk type is set)"
            yield Problem(path, f"[{kind}] features are not compatible with {machine_type.name}{default}; use {usable}")


def scratch_disks(disks: Any) -> Iterator[Problem]:
    # terraform-provider-google e03b7622, resource_compute_instance_template.go,
    # resourceComputeInstanceTemplateScratchDiskCustomizeDiffFunc.
    for index, disk in enumerate(rows(disks)):
        kind, disk_type = table(disk).get("type"), table(disk).get("diskType")
        size, interface = table(disk).get("diskSizeGb"), table(disk).get("interface")
        if UNKNOWN in (kind, disk_type):
            continue
        if kind == "SCRATCH" and disk_type != LOCAL_SSD:
            text = f"SCRATCH disks must have a disk_type of local-ssd. disk {index} has disk_type {disk_type or ''}"
            yield Problem(f"disks[{index}].diskType", text)
        if disk_type == LOCAL_SSD and kind != "SCRATCH":
            text = f"disks with a disk_type of local-ssd must be SCRATCH disks. disk {index} is a {kind or ''} disk"
            yield Problem(f"disks[{index}].type", text)
        if kind != "SCRATCH" or UNKNOWN in (size, interface):
            continue
        if size not in SCRATCH_GB:
            sizes = " ".join(map(str, SCRATCH_GB))
            text = f"SCRATCH disks must be one of [{sizes}] GB, disk {index} is {size or 0:g}"
            yield Problem(f"disks[{index}].diskSizeGb", text)
        elif size != SCRATCH_GB[0] and interface != "NVME":
            text = f"SCRATCH disks with a size of {size:g} GB must have an interface of NVME. "
            yield Problem(f"disks[{index}].interface", f"{text}disk {index} has interface {interface or ''}")


def local_disks(machine_type: MachineType, accelerator: str, disks: Any) -> Iterator[Problem]:
    # gpu_catalog, `local_disks`; Google Cloud documentation "About Local SSD disks"
    # (docs.cloud.google.com/compute/docs/disks/local-ssd): each machine type accepts certain counts. A template may
    # list the built-in local SSDs of its type again, as it may list the built-in GPUs.
    offer = machine_types.offer_of(machine_type, accelerator)
    requested = sum(table(disk).get("diskType") == LOCAL_SSD for disk in rows(disks))
    if offer is None or not requested or "local_disks" in offer.uncertain or requested in offer.local_disks.counts:
        return
    counts = " or ".join(map(str, offer.local_disks.counts))
    match offer.local_disks.mode:
        case "optional":
            yield Problem("disks", f"{machine_type.name} supports 0 or {counts} local SSDs, got {requested}")
        case "bundled" if counts:
            text = f"{machine_type.name} comes with {counts} local SSDs; {requested} cannot be added"
            yield Problem("disks", text, "remove these disks")
        case "none":
            yield Problem("disks", f"{machine_type.name} does not support local SSDs, got {requested}")
