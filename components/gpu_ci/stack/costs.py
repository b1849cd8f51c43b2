"""Computes the cost of the pools of a stack: pools billed by machine hours, and pools billed by use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from gpu_catalog import Demand, cost, price

from ..args import Args
from .quotas import demands, ladder_demands


@runtime_checkable
class Billed(Protocol):
    """Arguments of a pool that a service bills by use, such as Cloud Build by the build minute."""

    machine_type: str
    region: str

    @property
    def billed_by(self) -> str: ...


def of_pools(pools: Iterable[tuple[str, Args]]) -> cost.StackCost:
    """Return the cost of the pools. For a pool with a ladder, the cost is computed with its most expensive rung."""
    found = list(pools)
    metered = [
        cost.Metered(name, args.machine_type, args.region, args.billed_by)
        for name, args in found
        if isinstance(args, Billed)
    ]
    rungs: dict[str, list[Demand]] = {}
    for demand in (*demands(found), *ladder_demands(found)):
        rungs.setdefault(demand.pool, []).append(demand)
    return cost.of_stack(map(_most_expensive, rungs.values()), metered)


def _most_expensive(rungs: Iterable[Demand]) -> Demand:
    """Return the most expensive rung. A rung with an unknown price counts as the most expensive."""
    prices = {demand: price(demand.machine, demand.region, demand.market) for demand in rungs}
    return max(prices, key=lambda demand: found.usd_per_hour if (found := prices[demand]) else float("inf"))
