"""Facts about EC2 instance types: regions, architecture, markets and GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import gpu_catalog
from gpu_common.suggest import closest

from pulumi_sandbox.providers.aws import documents
from pulumi_sandbox.providers.resource import Problem

# The default instance type of EKS (botocore, eks 2017-11-01, CreateNodegroupRequest.instanceTypes).
DEFAULT = "t3.medium"
NAME = re.compile(r"(?P<series>[a-z]+)(?P<generation>\d+)(?P<options>[a-z0-9-]*)\.(?P<size>[a-z0-9-]+)")
# EKS's capacity types by the catalog's markets.
CAPACITY = {"standard": "ON_DEMAND", "spot": "SPOT", "capacity-block": "CAPACITY_BLOCK"}


@cache
def offer(name: str) -> gpu_catalog.Machine | None:
    """Return the catalog's entry of a machine with GPUs, or None."""
    try:
        return gpu_catalog.machine(name, "aws")
    except LookupError:
        return None


def is_in(name: str, region: str) -> bool:
    """Return True if a region has the type: by a price, or by the catalog. Also True for a region without data."""
    there, known = documents.instance_types(region), offer(name)
    return not there or name in there or bool(known and region in known.regions)


def architecture(name: str) -> str:
    """Return x86_64 or arm64, or an empty string if the name is not an instance type.

    A `g` after the generation means a Graviton processor (docs.aws.amazon.com/ec2/latest/instancetypes/
    instance-type-names.html). a1 also has a Graviton processor, but is older than this rule.
    """
    known, found = offer(name), NAME.fullmatch(name)
    if known:
        return known.architecture
    if found is None:
        return ""
    return "arm64" if "g" in found["options"] or name.startswith("a1.") else "x86_64"


def nearest(name: str, region: str) -> str:
    """Return the most similar type of the region: with the same GPU, else the same family, else the same size."""
    there, wanted = documents.instance_types(region), offer(name)
    if wanted:
        cards = [one for one in gpu_catalog.machines(cloud="aws") if one.machine_type in there and not one.legacy]
        same = [one for one in cards if one.gpu.key == wanted.gpu.key] or cards
        same.sort(key=lambda one: (one.architecture != wanted.architecture, *_distance(one, wanted), one.machine_type))
        return same[0].machine_type if same else ""
    family, _, size = name.partition(".")
    alike = [one for one in there if one.startswith(f"{family}.")] or [one for one in there if one.endswith(f".{size}")]
    return closest(name, sorted(alike or there), cutoff=0.5)


def _distance(one: gpu_catalog.Machine, wanted: gpu_catalog.Machine) -> tuple[float, float, float]:
    memory, sought = (each.gpu_count * each.gpu_memory_gib for each in (one, wanted))
    return abs(one.gpu_count - wanted.gpu_count), abs(memory - sought), abs(one.vcpus - wanted.vcpus)


def where_it_is(name: str, region: str) -> str:
    """Return a hint for a type that a region does not have: a similar type there, and regions with the type."""
    instead = nearest(name, region)
    others = [one for one in sorted(documents.regions()) if name in documents.instance_types(one)]
    near = [one for one in others if one.split("-")[0] == region.split("-")[0]] or others
    parts = [f"the nearest in {region} is {instead}"] if instead else []
    parts += [f"{', '.join(near[:3])} {'has' if len(near) == 1 else 'have'} it"] if near else []
    return "; ".join(parts)


def sold(name: str, market: str, path: str) -> Iterator[Problem]:
    """Check that a machine is offered in a market, by `markets` in gpu_catalog."""
    machine = offer(name)
    if machine is None or "markets" in machine.uncertain:
        return
    known = [CAPACITY[one] for one in (*machine.markets, *machine.unverified_markets) if one in CAPACITY]
    if market in CAPACITY.values() and market not in known:
        yield Problem(path, f"{name} is not offered as {market}; it is offered as {', '.join(known)}")
