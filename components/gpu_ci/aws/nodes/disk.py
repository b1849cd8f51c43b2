"""Validates the disks of a node: a gp3 volume against the limits of EBS, and the instance store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import invalid
from .rules import machines_of

# The minimum and the maximum (botocore 1.44.5, ec2: EbsBlockDevice.Iops and .Throughput). The minimum of IOPS and
# throughput is also EBS's default.
IOPS = (3_000, 80_000)
THROUGHPUT_MIB = (125, 2_000)
SIZE_GIB = (30, 65_536)
# docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html: 500 IOPS per GiB, and 0.25 MiB/s per IOPS.
_IOPS_PER_GIB = 500
_IOPS_PER_MIB = 4


def iops(value: int, others: Mapping[str, Any]) -> int:
    """Return the IOPS. Raise an error if a volume of this size does not support them."""
    size = others.get("disk_gib")
    if size and value > max(IOPS[0], size * _IOPS_PER_GIB):
        least = -(-value // _IOPS_PER_GIB)
        raise invalid(
            f"is more than {_IOPS_PER_GIB} per GiB", "iops-too-high", hint=f"diskGib: {least}, or lower diskIops"
        )
    return value


def throughput(value: int, others: Mapping[str, Any]) -> int:
    """Return the throughput. Raise an error if it is too high for these IOPS."""
    disk_iops = others.get("disk_iops")
    if disk_iops and value * _IOPS_PER_MIB > disk_iops:
        hint = f"diskIops: {value * _IOPS_PER_MIB}, or lower the throughput"
        raise invalid("is more than a quarter of diskIops", "throughput-too-high", hint=hint)
    return value


# A part of the array is for the file system itself. The share is an estimate of this project.
_FILES_SHARE = 0.98


def instance_store(value: bool, others: Mapping[str, Any]) -> bool:
    """Return the value. Raise an error if one of the instance types has no instance store."""
    without = [each.machine_type for each in machines_of(others) if value and not each.local_disks.size_gib]
    if without:
        raise invalid(
            f"is not possible with {', '.join(without)}, which has no local NVMe disks",
            "no-instance-store",
            hint="use other instance types, or remove instanceStore",
        )
    return value


def for_pods_gib(others: Mapping[str, Any]) -> int | None:
    """Return the size of the disk with the images and the files of pods, on the node with the smallest disk.

    Return None if the size is not known because a field is invalid.
    """
    instance_store = others.get("instance_store")
    if instance_store is None:
        return None
    if not instance_store:
        return others.get("disk_gib")
    sizes = [each.local_disks.size_gib or 0 for each in machines_of(others)]
    return int(min(sizes) * _FILES_SHARE) if sizes else None
