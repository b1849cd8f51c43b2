"""The catalog's rows against what others publish, counted: what agrees, what differs, what nobody else has.

A comparison is between single facts, such as the vCPUs of one machine type. Whatever could not be compared is counted
with its reason, so that a source which lost its data cannot pass for one that agrees.
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


def against_botocore() -> Comparison:
    words = botocore.words()["InstanceType"]
    found = Comparison(
        "EC2 instance types",
        f"botocore {version('botocore')}, {words.service} {words.api_version}, enum {words.shape}",
        "Does EC2 know the instance type, and does the catalog know each of EC2's with a GPU?",
    )
    ours = {machine.machine_type for machine in aws()}
    theirs = {name for name in words.values if spellings.GPU_FAMILIES.match(name)}
    for name in sorted(ours | theirs):
        found.hold(name, "instance type", name in ours, name in theirs)
    return found


def against_ami_types() -> Comparison:
    words = botocore.words()["AMITypes"]
    found = Comparison(
        "EKS AMI types",
        f"botocore {version('botocore')}, {words.service} {words.api_version}, enum {words.shape}",
        "Are the AMI types of the catalog those of EKS?",
        "The catalog has the names from botocore; what it says about them is from elsewhere.",
    )
    ours = {each.ami_type for each in queries.ami_types()}
    for name in sorted(ours | {*words.values}):
        found.hold(name, "AMI type", name in ours, name in words.values)
    return found


def against_cfn_lint() -> Comparison:
    found = Comparison(
        "Regions by price list",
        f"cfn-lint {version('cfn-lint')}, table of {cfn_lint.as_of()}",
        "Is the instance type in the region?",
    )
    table = {region: frozenset(types) for region, types in cfn_lint.table().items()}
    _hold_regions(found, table, "the region is not in cfn-lint's table")
    return found


def against_offerings() -> Comparison:
    found = Comparison(
        "Regions by offering",
        f"moto {version('moto')}, recorded DescribeInstanceTypeOfferings",
        "Is the instance type in the region?",
    )
    _hold_regions(found, moto.offerings(), "moto recorded no answer of the region")
    return found


def _hold_regions(found: Comparison, table: dict[str, frozenset[str]], unknown: str) -> None:
    """Every pair of a machine and a region that one of both has. Pairs that neither has prove nothing."""
    for machine in aws():
        name = machine.machine_type
        theirs = {region for region, types in table.items() if name in types}
        if machine.legacy:
            for region in sorted(theirs) or ["region"]:
                found.miss(name, region, "known by name only, the catalog gives it no regions")
            continue
        if not theirs and not machine.regions:
            found.miss(name, "region", "neither names a region")
        for region in sorted({*machine.regions} | theirs):
            if region in table:
                found.hold(name, region, region in machine.regions, region in theirs, "region")
            else:
                found.miss(name, region, unknown)


def against_moto() -> Comparison:
    found = Comparison(
        "Instance types in detail",
        f"moto {version('moto')}, recorded DescribeInstanceTypes",
        "GPU, its number and memory, and the machine around it.",
    )
    for machine in aws():
        name = machine.machine_type
        theirs = moto.instance_types().get(name)
        for column, ours, read in IN_DETAIL:
            if theirs is None:
                found.miss(name, column, "moto recorded no such instance type")
            else:
                found.hold(name, column, ours(machine), read(theirs))
    return found


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


def against_gpuhunt() -> Comparison:
    found = Comparison(
        "Cards",
        f"gpuhunt {version('gpuhunt')}, table {gpuhunt.TABLE}",
        "Nominal memory and compute capability of each card.",
    )
    for gpu in queries.gpus():
        theirs = _in_gpuhunt(gpu.name, gpu.memory_gib)
        if theirs is None:
            found.miss(gpu.name, "memory GiB", "gpuhunt does not list the card")
            found.miss(gpu.name, "compute capability", "gpuhunt does not list the card")
        else:
            found.hold(gpu.name, "memory GiB", gpu.memory_gib, theirs.memory_gib)
            found.hold(gpu.name, "compute capability", gpu.compute_capability, theirs.compute_capability)
    return found


def against_gpuhunt_by_machine() -> Comparison:
    found = Comparison(
        "GPU memory of machines",
        f"gpuhunt {version('gpuhunt')}, table {gpuhunt.TABLE}",
        "What each machine's GPU has, in whole GiB; a fraction of a card is scaled up to the whole one.",
    )
    for machine in queries.machines(n1=False, legacy=True):
        ours = machine.gpu_memory_gib / min(1, machine.gpu_count)
        theirs = _in_gpuhunt(machine.gpu.name, ours)
        if theirs is None:
            found.miss(machine.machine_type, "GPU memory GiB", "gpuhunt does not list the card")
        else:
            found.hold(machine.machine_type, "GPU memory GiB", round(ours), theirs.memory_gib)
    return found


def _in_gpuhunt(name: str, memory_gib: float) -> gpuhunt.Gpu | None:
    """The card of that name; of several memory sizes the nearest one, so that a wrong size still differs."""
    fitting = [each for each in gpuhunt.gpus().values() if each.name == spellings.in_gpuhunt(name)]
    return min(fitting, key=lambda each: abs(each.memory_gib - memory_gib), default=None)


def against_nvidia() -> Comparison:
    table = read_json(CAPABILITIES)
    found = Comparison(
        "Compute capabilities",
        f"{table['source']}, {table['date']}",
        "The compute capability, by who made the card.",
        "The same pages of NVIDIA's are the catalog's source; the table here was copied from them a second time.",
    )
    theirs = {card: capability for capability, cards in table["cards"].items() for card in cards}
    for gpu in queries.gpus():
        if (card := spellings.without_memory(gpu.name)) in theirs:
            found.hold(gpu.name, "compute capability", gpu.compute_capability, theirs[card])
        else:
            found.miss(gpu.name, "compute capability", "NVIDIA's pages do not list the card")
    return found


def against_n1_limits() -> Comparison:
    table = read_json(N1_LIMITS)
    found = Comparison(
        "GPUs attached to N1",
        f"{table['source']}, {table['date']}",
        "The largest N1 machine that so many GPUs attach to.",
        "The same page of Google's is the catalog's source; the table here was copied from it a second time.",
    )
    rows = {f"{each.accelerator} x{each.count}": each for each in n1.attachments()}
    theirs = {
        f"{gpu} x{count}": (limit, table["smaller"].get(gpu, {}).get(count))
        for gpu, limits in table["limits"].items()
        for count, limit in limits.items()
    }
    for name in sorted({*rows, *theirs}):
        found.hold(name, "attachable", name in rows, name in theirs)
        if name not in rows or name not in theirs:
            continue
        ours, ([vcpus, memory], smaller) = rows[name], theirs[name]
        found.hold(name, "vCPUs", ours.max_vcpus, vcpus)
        found.hold(name, "memory GB", ours.max_memory_gib, memory)
        if smaller or ours.smaller_zones:
            limit, zones = (smaller or {"limit": [vcpus, memory], "zones": []}).values()
            found.hold(name, "zones with less", " ".join(sorted(ours.smaller_zones)), " ".join(zones))
            found.hold(name, "vCPUs there", ours.smaller_max_vcpus or 0, limit[0])
            found.hold(name, "memory GB there", ours.smaller_max_memory_gib or 0, limit[1])
    return found


CHECKS = (
    against_botocore,
    against_ami_types,
    against_moto,
    against_cfn_lint,
    against_offerings,
    against_gpuhunt,
    against_gpuhunt_by_machine,
    against_nvidia,
    against_n1_limits,
)
