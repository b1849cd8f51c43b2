"""Validates the fields of GpuNodeGroupArgs by the rules of AWS and the facts of gpu_catalog: machines, zones, disks.

Each function validates the field of its name: it returns a valid value and raises an error for an invalid value.
`others` has the fields validated before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine, solver
from gpu_catalog.locations import nearest_locations
from pydantic_core import PydanticCustomError

from ...errors import at_path, did_you_mean, invalid, raise_problems
from ...pool_kind import EXAMPLE_KIND
from ..resource_names import ZONE

_ZONE = re.compile(ZONE)

# The first characters of the regions in partitions that this package does not support.
_UNSUPPORTED_REGIONS = ("eusc-", "eu-iso", "us-iso")


def machines_of(choices: Mapping[str, Any]) -> tuple[Machine, ...]:
    """Return the machines of a group, or an empty tuple if one of them is invalid."""
    return tuple(catalog.machine(name, "aws") for name in choices.get("instance_types", ()))


def types_with_same_gpus(machine: Machine) -> tuple[str, ...]:
    """Return the instance types with the same GPUs as this machine, the smallest first."""
    found = [each for each in catalog.machines(cloud="aws", gpu=machine.gpu) if _gpus(each) == _gpus(machine)]
    return tuple(each.machine_type for each in sorted(found, key=lambda each: (each.vcpus, each.memory_gib)))


def _gpus(machine: Machine) -> tuple[str, float, str]:
    return machine.gpu.key, machine.gpu_count, machine.architecture


def region(value: str, _others: Mapping[str, Any]) -> str:
    """Return the region. It must be in the public, Chinese or GovCloud partition.

    The names of services in trust policies of other partitions are not known.
    """
    if value.startswith(_UNSUPPORTED_REGIONS):
        raise invalid(
            "is in an AWS partition that this package does not support",
            "unsupported-partition",
            hint="such as eu-central-1",
        )
    return value


def instance_types(values: list[str], others: Mapping[str, Any]) -> list[str]:
    """Return the instance types. They must be available in the region and have the same GPUs."""
    problems, first = [], None
    for index, name in enumerate(values):
        machine, problem = machine_in_region(name, str(others.get("region", "")))
        if name in values[:index]:
            problem = invalid("is a duplicate", "duplicate", hint="remove it")
        elif machine and first:
            problem = problem or _difference(machine, first)
        first = first or machine
        if problem:
            problems.append(at_path(problem, name, index))
    raise_problems(problems)
    return values


def machine_in_region(name: str, region: str) -> tuple[Machine | None, PydanticCustomError | None]:
    """Return the machine of an instance type, and the error if the type cannot be used in the region."""
    try:
        machine = catalog.machine(name, "aws")
    except catalog.UnknownMachine:
        if name in catalog.machine_types("gcp"):
            hint = f"a Compute Engine machine type belongs in machineType of a pool of the kind {EXAMPLE_KIND}"
        elif with_gpu := catalog.machine_with_gpu(name, "aws"):
            hint = f"such as {with_gpu.machine_type}: {with_gpu.gpu.name} is a GPU"
        else:
            likely = _next_larger(name) or name.lower()
            hint = did_you_mean(likely, catalog.machine_types("aws")) or "such as g6.xlarge"
        return None, invalid("is not an EC2 instance type with an NVIDIA GPU", "not-a-gpu-machine", hint=hint)
    answer = solver.check(machine)
    if isinstance(answer, solver.Refused):
        fix = (answer.fix or {}).get("machine")
        return None, invalid(
            answer.reason.replace(machine.key, name),
            "retired-gpu",
            hint=f"such as {fix.machine_type}" if fix else "use another instance type",
        )
    if region and machine.regions and region not in machine.regions:
        near = nearest_locations(region, machine.regions)[:3]
        return machine, invalid(
            f"{region} has no {name}", "type-not-in-region", hint=f"the nearest regions with it: {', '.join(near)}"
        )
    return machine, None


def _next_larger(name: str) -> str:
    """Return the smallest larger type of the family of a size that does not exist, or an empty text."""
    family, _, size = name.lower().partition(".")
    sizes = {
        each: _multiple(each.partition(".")[2])
        for each in catalog.machine_types("aws")
        if each.startswith(f"{family}.")
    }
    return min((each for each in sizes if 0 < _multiple(size) < sizes[each]), key=sizes.__getitem__, default="")


def _multiple(size: str) -> int:
    return int(size.removesuffix("xlarge") or 1) if re.fullmatch(r"\d*xlarge", size) else 0


def _difference(machine: Machine, first: Machine) -> PydanticCustomError | None:
    """Return an error if the machine has other GPUs than the first machine, or is smaller.

    Jobs are written for one GPU model. Cluster Autoscaler assumes that every node has the first instance type
    (kubernetes/autoscaler@062f28a:cluster-autoscaler/cloudprovider/aws/README.md).
    """
    if _gpus(machine) != _gpus(first):
        others = [name for name in types_with_same_gpus(first) if name != first.machine_type]
        hint = (
            f"such as {', '.join(others)}" if others else f"remove it: no other type is equal to {first.machine_type}"
        )
        return invalid(
            f"has {_described(machine)}, but {first.machine_type} has {_described(first)}", "different-gpus", hint=hint
        )
    if machine.vcpus < first.vcpus or machine.memory_gib < first.memory_gib:
        return invalid(
            f"is smaller than {first.machine_type}, the first type, whose size Cluster Autoscaler assumes for every "
            "node",
            "smallest-type-not-first",
            hint="list the smallest type first",
        )
    return None


def _described(machine: Machine) -> str:
    return f"{machine.gpu_count:g} {machine.gpu.name} ({machine.architecture})"


def market(value: str, others: Mapping[str, Any]) -> str:
    """Return the market. Every instance type must be available in it."""
    machines = machines_of(others)
    for machine in machines:
        if value not in (*machine.markets, *machine.unverified_markets):
            hint = f"use {' or '.join(each for each in machine.markets)}"
            raise invalid(
                f"{machine.machine_type} is not available for this market", "market-without-machine", hint=hint
            )
    if value == "capacity-block" and len(machines) > 1:
        raise invalid(
            "a reservation is for one instance type",
            "one-type-in-reservation",
            hint=f"instanceTypes: [{machines[0].machine_type}]",
        )
    return value


def capacity_reservation_id(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the capacity reservation. The market capacity-block requires it, and other markets do not allow it."""
    chosen = others.get("market")
    if chosen == "capacity-block" and value is None:
        raise invalid("is missing; market: capacity-block requires it", "missing", hint="such as cr-0123456789abcdef0")
    if value is not None and chosen in ("spot", "standard"):
        raise invalid(
            f"cannot be used by {chosen} nodes", "not-for-market", hint="remove it, or use market: capacity-block"
        )
    return value


def subnets(values: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the subnets by zone. The zones must be in the region, and each subnet belongs to one zone."""
    region, owners, problems = str(others.get("region", "")), dict[str, str](), []
    for zone, subnet in values.items():
        problem = zone_problem(zone, region)
        owner = owners.setdefault(subnet, zone) if isinstance(subnet, str) else zone
        if owner != zone:
            problem = problem or invalid(
                f"is already the subnet of {owner}, but a subnet is in one zone",
                "duplicate",
                hint="remove one of the two",
            )
        if problem:
            problems.append(at_path(problem, zone, zone))
    raise_problems(problems)
    return values


def zone_problem(zone: str, region: str) -> PydanticCustomError | None:
    if not _ZONE.fullmatch(zone):
        return invalid(
            "is not an availability zone",
            "not-a-zone",
            expected="a zone such as us-east-1a; Local Zones are not supported",
            hint=f"such as {region or 'us-east-1'}a",
        )
    if region and catalog.region_of(zone) != region:
        return invalid("is in another region", "other-region", hint=f"a zone of {region}")
    return None


def zones(values: list[str] | None, others: Mapping[str, Any]) -> list[str] | None:
    """Return the zones. Each zone must have a subnet and offer every instance type. A reservation requires one zone."""
    known: Mapping[str, Any] = others.get("subnets", {})
    chosen = list(known) if values is None else values
    if others.get("market") == "capacity-block" and len(chosen) > 1:
        raise invalid(
            "a reservation is in one zone",
            "one-zone-in-reservation",
            hint=f"zones: [{chosen[0]}], if that is the zone of the reservation",
        )
    problems = []
    for index, zone in enumerate(chosen):
        problem = zone_problem(zone, str(others.get("region", "")))
        if zone in chosen[:index]:
            problem = invalid("is a duplicate", "duplicate", hint="remove it")
        elif not problem and known and zone not in known:
            problem = invalid("has no subnet", "zone-without-subnet", hint=f"one of {', '.join(known)}")
        problem = problem or _zone_without_type(zone, chosen, others)
        if problem:
            problems.append((problem, zone, index))
    if problems and values is None:
        raise problems[0][0]
    raise_problems([at_path(*each) for each in problems])
    return values


def _zone_without_type(zone: str, chosen: Sequence[str], others: Mapping[str, Any]) -> PydanticCustomError | None:
    """Return an error for a zone that does not offer every type.

    EKS uses all zones of a group, and EC2 cannot start a machine in a zone that does not offer its type.
    """
    offered: Mapping[str, Any] = others.get("offerings", {})
    if not offered or not all(isinstance(each, list) for each in offered.values()):
        return None  # Late values are checked when they are known.
    types: Sequence[str] = others.get("instance_types", ())
    if without_entry := [name for name in types if name not in offered]:
        return invalid(
            f"offerings has no entry for {', '.join(without_entry)}",
            "no-offering",
            hint="look up every type of instanceTypes",
        )
    not_offered = [name for name in types if zone not in offered[name]]
    if not not_offered:
        return None
    complete_zones = [each for each in chosen if all(each in offered[name] for name in types)]
    hint = (
        f"zones: [{', '.join(complete_zones)}]"
        if complete_zones
        else "use other instance types: none of these zones offers all of them"
    )
    return invalid(f"{zone} does not offer {', '.join(not_offered)}", "type-not-in-zone", hint=hint)


def kms_key_arn(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the KMS key. It must be in the region of the disks: otherwise EC2 reports an error when a node starts.

    The key "must exist in the destination Region" (docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CopyImage.html,
    KmsKeyId).
    """
    region = others.get("region")
    if value is not None and region and value.split(":")[3] != region:
        raise invalid("is a key of another region than the disks", "key-of-other-region", hint=f"a key of {region}")
    return value


def efa(value: bool, others: Mapping[str, Any]) -> bool:
    """Return the value. For EFA, every type needs the same number of EFA interfaces, and the group one zone."""
    machines = machines_of(others)
    if not value or not machines or "zones" not in others:
        return value
    if without := [each.machine_type for each in machines if not each.efa_interfaces]:
        types_with_efa = [
            name for name in types_with_same_gpus(machines[0]) if catalog.machine(name, "aws").efa_interfaces
        ]
        hint = f"such as {', '.join(types_with_efa)}" if types_with_efa else "remove efa"
        raise invalid(f"is not supported by {', '.join(without)}", "no-efa", hint=hint)
    if len({each.efa_interfaces for each in machines}) > 1:
        raise invalid(
            "the types have different numbers of EFA interfaces", "different-efa", hint="use one instance type"
        )
    chosen = others["zones"] or list(others.get("subnets", ()))
    if len(chosen) > 1:
        raise invalid("requires one zone, but the group has more", "efa-needs-one-zone", hint=f"zones: [{chosen[0]}]")
    return value


def needed_by_efa(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the value. With EFA it is required, because EKS then adds no security group to the nodes."""
    if value is None and others.get("efa"):
        raise invalid(
            "is missing; efa requires its own security group",
            "missing",
            hint="use the value from the cluster's vpcConfig",
        )
    return value


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
