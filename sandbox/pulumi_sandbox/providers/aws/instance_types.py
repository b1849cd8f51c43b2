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


def is_offered_in(name: str, region: str) -> bool:
    """Return True if a region has the type: by a price, or by the catalog. Also True for a region without data."""
    types_of_region, machine = documents.instance_types(region), offer(name)
    return not types_of_region or name in types_of_region or bool(machine and region in machine.regions)


def architecture(name: str) -> str:
    """Return x86_64 or arm64, or an empty string if the name is not an instance type.

    A `g` after the generation means a Graviton processor (docs.aws.amazon.com/ec2/latest/instancetypes/
    instance-type-names.html). a1 also has a Graviton processor, but is older than this rule.
    """
    machine, match = offer(name), NAME.fullmatch(name)
    if machine:
        return machine.architecture
    if match is None:
        return ""
    return "arm64" if "g" in match["options"] or name.startswith("a1.") else "x86_64"


def availability_hint(name: str, region: str) -> str:
    """Return a hint for a type that a region does not have: a similar type there, or regions with the type."""
    regions = [one for one in sorted(documents.regions()) if name in documents.instance_types(one)]
    near = [one for one in regions if one.split("-")[0] == region.split("-")[0]] or regions
    if near:
        return f"{', '.join(near[:3])} {'has' if len(near) == 1 else 'have'} it"
    similar = closest(name, sorted(documents.instance_types(region)), cutoff=0.5)
    return f"did you mean {similar}?" if similar else ""


def check_market(name: str, market: str, path: str) -> Iterator[Problem]:
    """Check that a machine is offered in a market, by `markets` in gpu_catalog."""
    machine = offer(name)
    if machine is None or "markets" in machine.uncertain:
        return
    capacity_types = [CAPACITY[one] for one in (*machine.markets, *machine.unverified_markets) if one in CAPACITY]
    if market in CAPACITY.values() and market not in capacity_types:
        yield Problem(path, f"{name} is not offered as {market}; it is offered as {', '.join(capacity_types)}")
