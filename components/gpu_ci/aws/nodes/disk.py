"""The limits of EBS for a gp3 volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import invalid

# botocore 1.44.5, ec2: EbsBlockDevice.Iops and .Throughput. The first number is the default of a volume.
IOPS = (3_000, 80_000)
THROUGHPUT_MIB = (125, 2_000)
SIZE_GIB = (30, 65_536)
# docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html: 500 IOPS per GiB, and 0.25 MiB/s per IOPS.
_IOPS_PER_GIB = 500
_IOPS_PER_MIB = 4


def iops(value: int, others: Mapping[str, Any]) -> int:
    """Return IOPS that a volume of this size supports."""
    size = others.get("disk_gib")
    if size and value > max(IOPS[0], size * _IOPS_PER_GIB):
        least = -(-value // _IOPS_PER_GIB)
        raise invalid(f"is more than {_IOPS_PER_GIB} per GiB", hint=f"diskGib: {least}, or lower diskIops")
    return value


def throughput(value: int, others: Mapping[str, Any]) -> int:
    """Return a throughput that these IOPS support."""
    per_second = others.get("disk_iops")
    if per_second and value * _IOPS_PER_MIB > per_second:
        hint = f"diskIops: {value * _IOPS_PER_MIB}, or lower the throughput"
        raise invalid("is more than a quarter of diskIops", hint=hint)
    return value
