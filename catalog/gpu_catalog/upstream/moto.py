"""Reads EC2's answers that moto has recorded: DescribeInstanceTypes, and DescribeInstanceTypeOfferings by region.

`parse` reads the format of AWS's API, so it should also read a new output of `aws ec2 describe-instance-types`. It has
only been tested with moto's recording, not with an AWS account.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpu_catalog.upstream import UpstreamError, folder, read_json


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One instance type with GPUs, with EC2's names. `gpu_count` is below 1 for a fraction of a GPU."""

    name: str
    manufacturer: str
    gpu_model: str
    gpu_count: float
    gpu_memory_mib: int
    vcpus: int
    memory_mib: int
    architecture: str
    efa_interfaces: int
    local_disk_gb: int
    usage_classes: tuple[str, ...]


@cache
def instance_types() -> dict[str, InstanceType]:
    """Return every recorded instance type with a GPU."""
    return parse(read_json(folder("moto", "moto") / "ec2/resources/instance_types.json.gz").values())


def parse(answer: Iterable[dict[str, Any]]) -> dict[str, InstanceType]:
    return {each["InstanceType"]: _instance_type(each) for each in answer if "GpuInfo" in each}


def _instance_type(each: dict[str, Any]) -> InstanceType:
    name, gpus = each["InstanceType"], each["GpuInfo"]["Gpus"]
    if len(gpus) != 1:
        raise UpstreamError(f"{name}: GpuInfo.Gpus: got {len(gpus)} kinds of GPU\n  expected: one")
    [gpu] = gpus
    return InstanceType(
        name=name,
        manufacturer=gpu["Manufacturer"],
        gpu_model=gpu["Name"],
        # EC2 rounds Count down: g6f.xlarge, an eighth of an L4, has 0.
        gpu_count=gpu["Count"] or gpu["GpuPartitionSize"],
        gpu_memory_mib=gpu["MemoryInfo"]["SizeInMiB"],
        vcpus=each["VCpuInfo"]["DefaultVCpus"],
        memory_mib=each["MemoryInfo"]["SizeInMiB"],
        architecture=each["ProcessorInfo"]["SupportedArchitectures"][0],
        efa_interfaces=each["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        local_disk_gb=each.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        usage_classes=tuple(sorted(each["SupportedUsageClasses"])),
    )


@cache
def offerings() -> dict[str, frozenset[str]]:
    """Return the offered instance types by region. Regions that were not recorded are missing."""
    files = sorted((folder("moto", "moto") / "ec2/resources/instance_type_offerings/region").glob("*.json*"))
    if not files:
        raise UpstreamError("moto: ec2/resources/instance_type_offerings/region: has no files")
    return {path.name.split(".")[0]: frozenset(each["InstanceType"] for each in read_json(path)) for path in files}
