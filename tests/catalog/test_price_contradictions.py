"""Prices compared with each other: contradictions, counted, and odd prices that have a reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import gpu_catalog as catalog
import pytest
from gpu_catalog import data_files
from gpu_catalog.prices import list_price

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
        (machine.key, region, spot, full.usd_per_hour)
        for machine in MACHINES
        for region in machine.regions
        if (spot := usd(machine, region, "spot")) and (full := list_price(machine, region))
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


def spreads() -> Iterator[tuple[tuple[str, str, str], float, float]]:
    """Return family, region and market; the spread of prices of a GPU; and the vCPUs for a GPU of the two machines."""
    for family in families():
        for region in {region for machine in family for region in machine.regions}:
            for market in PRICED:
                each: list[Any] = [(found, m) for m in family if (found := usd(m, region, market))]
                if each:
                    (low, cheap), (high, dear) = (
                        pick(each, key=lambda pair: pair[0] / pair[1].gpu_count) for pick in (min, max)
                    )
                    apart = (high / dear.gpu_count) / (low / cheap.gpu_count)
                    host = (dear.vcpus / dear.gpu_count) / (cheap.vcpus / cheap.gpu_count)
                    yield (family[0].family, region, market), apart, host


def test_a_gpu_costs_more_than_three_times_as_much_only_where_it_has_more_of_a_machine_around_it() -> None:
    found = list(spreads())
    assert len(found) > 200
    wide = {key: round(host) for key, apart, host in found if apart > 3}
    # 8 to 16 times the vCPUs: what makes the GPU dear is the host.
    assert {key: host for key, host in wide.items() if not 8 <= host <= 16} == {}
    assert len(wide) < 20, "as common as that, it is no exception"


def test_in_two_months_standard_prices_stayed_and_spot_prices_moved() -> None:
    """This is why old spot prices are not compared: eight prices of each kind, read on 2026-08-03 and on 2026-10-04."""
    by_source: dict[str, dict[tuple[str, str, str], float]] = {"kgcp": {}, "gcc": {}}
    for row in data_files.rows("prices"):
        for region, markets in row["usd_per_hour"].items():
            for market, price in markets.items():
                if row["source"] in by_source and "machine_type" in row:
                    by_source[row["source"]][row["machine_type"], region, market] = price
    moved = {key: round(100 * (later / by_source["kgcp"][key] - 1)) for key, later in by_source["gcc"].items()}
    assert [change for (_, _, market), change in moved.items() if market == "standard"] == [0] * 8
    assert sorted(change for (_, _, market), change in moved.items() if market == "spot") == [
        -2,
        5,
        7,
        7,
        7,
        12,
        14,
        39,
    ]


@pytest.mark.parametrize(("machine", "apart"), [("a3-highgpu-1g", 6.0), ("a3-highgpu-8g", 5.0)])
def test_the_spot_price_of_an_h100_differs_most_between_regions_and_that_is_no_mistake(
    machine: str, apart: float
) -> None:
    """Cloud Billing has a price for each region. On-demand prices differ by at most 40 %."""
    found = catalog.machine(machine)
    spot = [price for region in found.regions if (price := usd(found, region, "spot"))]
    full = [price.usd_per_hour for region in found.regions if (price := list_price(found, region))]
    assert round(max(spot) / min(spot), 1) == apart
    assert max(full) / min(full) < 1.4
    others = [
        max(prices) / min(prices)
        for each in MACHINES
        if each.family != "A3 High" and not each.attached
        if (prices := [price for region in each.regions if (price := usd(each, region, "spot"))])
    ]
    assert max(others) < 3
