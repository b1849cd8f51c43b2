"""Compares the catalog with each source of published data. docs/reference/catalog-agreement.md shows the results.

A fact is, for example, the vCPUs of one machine type. Facts that could not be compared are counted, too, with the
reason. Otherwise a source that has lost its data would seem to agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from gpu_catalog import n1, queries
from gpu_catalog.models import Machine
from gpu_catalog.upstream import botocore, cfn_lint, gpuhunt, moto, read_json, spellings, version
from gpu_catalog.upstream.comparison import Comparison, Fact

GIB = 2**30
N1_LIMITS = Path(__file__).with_name("n1_limits.json")
CAPABILITIES = Path(__file__).with_name("compute_capabilities.json")


@cache
def comparisons() -> tuple[Comparison, ...]:
    return tuple(check() for check in CHECKS)


def aws() -> list[Machine]:
    return list(queries.machines(cloud="aws", legacy=True))


def compare_with_botocore() -> Comparison:
    enum = botocore.enums()["InstanceType"]
    comparison = Comparison(
        "EC2 instance types",
        f"botocore {version('botocore')}, {enum.service} {enum.api_version}, enum {enum.shape}",
        "Does EC2 know each instance type of the catalog, and the catalog each instance type of EC2 with a GPU?",
    )
    ours = {machine.machine_type for machine in aws()}
    theirs = {name for name in enum.values if spellings.GPU_FAMILIES.match(name)}
    for name in sorted(ours | theirs):
        comparison.compare(name, "instance type", name in ours, name in theirs)
    return comparison


def compare_with_ami_types() -> Comparison:
    enum = botocore.enums()["AMITypes"]
    comparison = Comparison(
        "EKS AMI types",
        f"botocore {version('botocore')}, {enum.service} {enum.api_version}, enum {enum.shape}",
        "Are the AMI types of the catalog the same as those of EKS?",
        "The names in the catalog are from botocore. The other facts about AMI types have other sources.",
    )
    ours = {each.ami_type for each in queries.ami_types()}
    for name in sorted(ours | {*enum.values}):
        comparison.compare(name, "AMI type", name in ours, name in enum.values)
    return comparison


def compare_with_cfn_lint() -> Comparison:
    comparison = Comparison(
        "Regions by price list",
        f"cfn-lint {version('cfn-lint')}, table of {cfn_lint.as_of()}",
        "Does AWS offer the instance type in the region?",
    )
    table = {region: frozenset(types) for region, types in cfn_lint.table().items()}
    _compare_regions(comparison, table, "the region is not in cfn-lint's table")
    return comparison


def compare_with_offerings() -> Comparison:
    comparison = Comparison(
        "Regions by offering",
        f"moto {version('moto')}, recorded DescribeInstanceTypeOfferings",
        "Does AWS offer the instance type in the region?",
    )
    _compare_regions(comparison, moto.offerings(), "moto has no recorded answer for the region")
    return comparison


def _compare_regions(comparison: Comparison, table: dict[str, frozenset[str]], unknown: str) -> None:
    """Compare every pair of machine and region that the catalog or the source has."""
    for machine in aws():
        name = machine.machine_type
        theirs = {region for region, types in table.items() if name in types}
        if machine.legacy:
            for region in sorted(theirs) or ["region"]:
                comparison.skip(name, region, "the catalog has only the name of the type, without regions")
            continue
        if not theirs and not machine.regions:
            comparison.skip(name, "region", "neither the catalog nor the source names a region")
        for region in sorted({*machine.regions} | theirs):
            if region in table:
                comparison.compare(name, region, region in machine.regions, region in theirs, "region")
            else:
                comparison.skip(name, region, unknown)


def compare_with_moto() -> Comparison:
    comparison = Comparison(
        "Instance types in detail",
        f"moto {version('moto')}, recorded DescribeInstanceTypes",
        "Model, number and memory of the GPUs; CPUs, memory, network and local disks of the machine.",
    )
    for machine in aws():
        name = machine.machine_type
        theirs = moto.instance_types().get(name)
        for column, ours, read in IN_DETAIL:
            if theirs is None:
                comparison.skip(name, column, "moto has no recorded answer for the instance type")
            else:
                comparison.compare(name, column, ours(machine), read(theirs))
    return comparison


IN_DETAIL: tuple[tuple[str, Callable[[Machine], Fact], Callable[[moto.InstanceType], Fact]], ...] = (
    ("GPU vendor", lambda m: m.gpu.vendor.upper(), lambda t: t.manufacturer.upper()),
    ("GPU", lambda m: m.gpu.name, lambda t: t.gpu_model),
    ("GPUs", lambda m: m.gpu_count, lambda t: t.gpu_count),
    ("GPU memory MiB", lambda m: round(m.gpu_memory_gib * 1024), lambda t: t.gpu_memory_mib),
    ("vCPUs", lambda m: m.vcpus, lambda t: t.vcpus),
    ("memory MiB", lambda m: round(m.memory_gib * 1024), lambda t: t.memory_mib),
    ("architecture", lambda m: m.architecture, lambda t: t.architecture),
    ("EFA interfaces", lambda m: m.efa_interfaces, lambda t: t.efa_interfaces),
    ("local disk GB", lambda m: round((m.local_disks.size_gib or 0) * GIB / 1e9), lambda t: t.local_disk_gb),
)


def compare_with_gpuhunt() -> Comparison:
    comparison = Comparison(
        "Cards",
        f"gpuhunt {version('gpuhunt')}, table {gpuhunt.TABLE}",
        "Nominal memory and compute capability of each card.",
    )
    for gpu in queries.gpus():
        theirs = _in_gpuhunt(gpu.name, gpu.memory_gib)
        if theirs is None:
            comparison.skip(gpu.name, "memory GiB", "gpuhunt does not list the card")
            comparison.skip(gpu.name, "compute capability", "gpuhunt does not list the card")
        else:
            comparison.compare(gpu.name, "memory GiB", gpu.memory_gib, theirs.memory_gib)
            comparison.compare(gpu.name, "compute capability", gpu.compute_capability, theirs.compute_capability)
    return comparison


def compare_with_gpuhunt_by_machine() -> Comparison:
    comparison = Comparison(
        "GPU memory of machines",
        f"gpuhunt {version('gpuhunt')}, table {gpuhunt.TABLE}",
        "Memory of one GPU of each machine type, in whole GiB. For a machine with a part of a card, of the whole card.",
    )
    for machine in queries.machines(n1=False, legacy=True):
        ours = machine.gpu_memory_gib / min(1, machine.gpu_count)
        theirs = _in_gpuhunt(machine.gpu.name, ours)
        if theirs is None:
            comparison.skip(machine.machine_type, "GPU memory GiB", "gpuhunt does not list the card")
        else:
            comparison.compare(machine.machine_type, "GPU memory GiB", round(ours), theirs.memory_gib)
    return comparison


def _in_gpuhunt(name: str, memory_gib: float) -> gpuhunt.Gpu | None:
    """Return the GPU of that name in gpuhunt. If there are several memory sizes, return the nearest size.

    The caller compares the sizes, so a wrong size of the catalog is found.
    """
    fitting = [each for each in gpuhunt.gpus().values() if each.name == spellings.in_gpuhunt(name)]
    return min(fitting, key=lambda each: abs(each.memory_gib - memory_gib), default=None)


def compare_with_nvidia() -> Comparison:
    table = read_json(CAPABILITIES)
    comparison = Comparison(
        "Compute capabilities",
        f"{table['source']}, {table['date']}",
        "The compute capability of each card, compared with NVIDIA's own list.",
        "The catalog has the same source. The pages were copied a second time, to find copying errors.",
    )
    theirs = {card: capability for capability, cards in table["cards"].items() for card in cards}
    for gpu in queries.gpus():
        if (card := spellings.without_memory(gpu.name)) in theirs:
            comparison.compare(gpu.name, "compute capability", gpu.compute_capability, theirs[card])
        else:
            comparison.skip(gpu.name, "compute capability", "NVIDIA's pages do not list the card")
    return comparison


def compare_with_n1_limits() -> Comparison:
    table = read_json(N1_LIMITS)
    comparison = Comparison(
        "GPUs attached to N1",
        f"{table['source']}, {table['date']}",
        "The largest N1 machine type to which each number of GPUs can be attached.",
        "The catalog has the same source. The page was copied a second time, to find copying errors.",
    )
    rows = {f"{each.accelerator} x{each.count}": each for each in n1.attachments()}
    theirs = {
        f"{gpu} x{count}": (limit, table["smaller"].get(gpu, {}).get(count))
        for gpu, limits in table["limits"].items()
        for count, limit in limits.items()
    }
    for name in sorted({*rows, *theirs}):
        comparison.compare(name, "attachable", name in rows, name in theirs)
        if name not in rows or name not in theirs:
            continue
        ours, ([vcpus, memory], smaller) = rows[name], theirs[name]
        comparison.compare(name, "vCPUs", ours.max_vcpus, vcpus)
        comparison.compare(name, "memory GB", ours.max_memory_gib, memory)
        if smaller or ours.smaller_zones:
            limit, zones = (smaller or {"limit": [vcpus, memory], "zones": []}).values()
            comparison.compare(name, "zones with less", " ".join(sorted(ours.smaller_zones)), " ".join(zones))
            comparison.compare(name, "vCPUs there", ours.smaller_max_vcpus or 0, limit[0])
            comparison.compare(name, "memory GB there", ours.smaller_max_memory_gib or 0, limit[1])
    return comparison


CHECKS = (
    compare_with_botocore,
    compare_with_ami_types,
    compare_with_moto,
    compare_with_cfn_lint,
    compare_with_offerings,
    compare_with_gpuhunt,
    compare_with_gpuhunt_by_machine,
    compare_with_nvidia,
    compare_with_n1_limits,
)
