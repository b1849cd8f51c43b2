"""Validates the size, IOPS and throughput of a gp3 volume against the limits of EBS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import invalid

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
        raise invalid(f"is more than {_IOPS_PER_GIB} per GiB", hint=f"diskGib: {least}, or lower diskIops")
    return value


def throughput(value: int, others: Mapping[str, Any]) -> int:
    """Return the throughput. Raise an error if it is too high for these IOPS."""
    disk_iops = others.get("disk_iops")
    if disk_iops and value * _IOPS_PER_MIB > disk_iops:
        hint = f"diskIops: {value * _IOPS_PER_MIB}, or lower the throughput"
        raise invalid("is more than a quarter of diskIops", hint=hint)
    return value
