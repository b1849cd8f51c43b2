"""Prices compared with each other: contradictions, counted, and odd prices that have a reason."""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations

import gpu_catalog as catalog

MACHINES = catalog.machines()
PRICES: dict[tuple[str, str, str], float | None] = {}
PRICED: tuple[catalog.Market, ...] = ("standard", "spot")


def usd(machine: catalog.Machine, region: str, market: catalog.Market) -> float | None:
    key = machine.key, region, market  # a machine itself takes long to hash
    if key not in PRICES:
        found = catalog.price(machine, region, market)
        PRICES[key] = found and found.usd_per_hour
    return PRICES[key]


def families() -> list[list[catalog.Machine]]:
    found: dict[tuple[str, ...], list[catalog.Machine]] = defaultdict(list)
    for machine in MACHINES:
        found[machine.family, machine.gpu.key, machine.accelerator].append(machine)
    return list(found.values())


def test_no_spot_price_is_above_the_list_price() -> None:
    pairs = [
        (machine.key, region, spot, full)
        for machine in MACHINES
        for region in machine.regions
        if (spot := usd(machine, region, "spot")) and (full := usd(machine, region, "standard"))
    ]
    assert [pair for pair in pairs if pair[2] >= pair[3]] == []
    assert len(pairs) > 500


def test_no_machine_costs_more_than_one_that_has_all_it_has_but_one_estimate() -> None:
    pairs = [
        (small, large, region, market)
        for family in families()
        for small, large in permutations(family, 2)
        if small.gpu_count <= large.gpu_count and small.vcpus <= large.vcpus and small.memory_gib <= large.memory_gib
        for region in {*small.regions} & {*large.regions}
        for market in PRICED
        if usd(small, region, market) and usd(large, region, market)
    ]
    assert len(pairs) > 3000
    dearer = [
        (small.key, large.key, region, market)
        for small, large, region, market in pairs
        if (usd(small, region, market) or 0) > (usd(large, region, market) or 0)
    ]
    # AWS names a saving for each size by itself: 56 % for the smaller, 74 % for the larger.
    assert dearer == [("aws/g6e.12xlarge", "aws/g6e.24xlarge", "us-east-1", "spot")]
