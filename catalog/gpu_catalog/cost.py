"""The cost of pools by the hour, and the maximum by the month.

A cost *at rest* is the cost of the machines that run without jobs. A cost *at max* is the cost of all machines that a
pool may have. A total leaves out pools with an unknown price, and is then a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .models import Demand, Market, Price
from .prices import price

HOURS_A_MONTH = 730
"""The hours of 365 days, divided by 12."""

NOT_INCLUDED = ("boot disks", "network traffic")
"""The resources that costs do not include, because the catalog has no prices of them."""

UNKNOWN, UNDATED = "unknown", "undated"


@dataclass(frozen=True, slots=True)
class PoolCost:
    """The cost of the machines of one pool."""

    demand: Demand
    price: Price | None
    """The price of one machine of the most expensive type; None if the price of the largest type is unknown."""
    by_type: tuple[tuple[str, Price | None], ...] = ()
    """If the pool has several machine types: the price of each type, cheapest first, then the unknown prices."""

    @property
    def usd_per_hour_at_rest(self) -> float | None:
        """The cost of the machines that run without jobs. For no machines it is 0, even with an unknown price."""
        return self._times(self.demand.machines_at_rest)

    @property
    def usd_per_hour_at_max(self) -> float | None:
        return self._times(self.demand.max_machines)

    @property
    def usd_worst_month(self) -> float | None:
        """The cost of all machines that the pool may have, for a whole month."""
        return self._times(self.demand.max_machines * HOURS_A_MONTH)

    @property
    def price_date(self) -> str:
        """The day on which the price was read, or `undated`, or `unknown` without a price."""
        return UNKNOWN if self.price is None else self.price.date or UNDATED

    @property
    def most_expensive_type(self) -> str:
        """The machine type that `price` belongs to."""
        known = [name for name, price in self.by_type if price]
        return known[-1] if known and self.price else self.demand.machine.machine_type

    @property
    def estimated(self) -> bool:
        return self.price is not None and self.price.estimated

    def _times(self, count: float) -> float | None:
        if count == 0:
            return 0.0
        return None if self.price is None else round(count * self.price.usd_per_hour, 4)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "usdPerHourAtRest": _or_unknown(self.usd_per_hour_at_rest),
            "usdPerHourAtMax": _or_unknown(self.usd_per_hour_at_max),
            "usdWorstMonth": _or_unknown(self.usd_worst_month),
            "priceDate": self.price_date,
        }
        each = {name: _or_unknown(price.usd_per_hour if price else None) for name, price in self.by_type}
        return found | ({"usdPerHourByType": each} if each else {}) | ({"estimated": True} if self.estimated else {})


@dataclass(frozen=True, slots=True)
class Metered:
    """One pool that a service bills by use, such as build minutes. The cost is 0 at rest and unknown with jobs."""

    pool: str
    machine_type: str
    region: str
    unit: str

    def to_json(self) -> dict[str, Any]:
        return {
            "usdPerHourAtRest": 0.0,
            "usdPerHourAtMax": UNKNOWN,
            "usdWorstMonth": UNKNOWN,
            "priceDate": UNKNOWN,
            "billedBy": self.unit,
        }


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of the costs of several pools.

    Pools with an unknown price are left out. The sum is then a lower bound, and `at_least` is True. If no price is
    known, the sum is None, because 0 would look like a known cost.
    """

    usd_per_hour_at_rest: float | None
    usd_per_hour_at_max: float | None
    usd_worst_month: float | None
    at_least: bool
    estimated: bool

    @classmethod
    def of(cls, pools: Iterable[PoolCost], metered: Sequence[Metered] = ()) -> Total:
        """Return the sum of pools billed by machine hours and of pools billed by use."""
        found = tuple(pools)
        unknown: list[float | None] = [None for _ in metered]
        rest = [pool.usd_per_hour_at_rest for pool in found] + [0.0 for _ in metered]
        most = [pool.usd_per_hour_at_max for pool in found] + unknown
        month = [pool.usd_worst_month for pool in found] + unknown
        return cls(
            usd_per_hour_at_rest=_sum(rest),
            usd_per_hour_at_max=_sum(most),
            usd_worst_month=_sum(month),
            at_least=None in (*rest, *most, *month),
            estimated=any(pool.estimated for pool in found),
        )

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "usdPerHourAtRest": _or_unknown(self.usd_per_hour_at_rest),
            "usdPerHourAtMax": _or_unknown(self.usd_per_hour_at_max),
            "usdWorstMonth": _or_unknown(self.usd_worst_month),
        }
        marks = {"atLeast": self.at_least, "estimated": self.estimated}
        return found | {name: True for name, applies in marks.items() if applies}


@dataclass(frozen=True, slots=True)
class StackCost:
    """The cost of all pools of a stack, in the given order."""

    pools: tuple[PoolCost, ...]
    metered: tuple[Metered, ...] = ()

    @property
    def total(self) -> Total:
        return Total.of(self.pools, self.metered)

    @property
    def by_market(self) -> dict[Market, Total]:
        """The totals by market, sorted by the name of the market."""
        markets = sorted({pool.demand.market for pool in self.pools})
        return {market: Total.of(pool for pool in self.pools if pool.demand.market == market) for market in markets}

    @property
    def price_date(self) -> str:
        """The oldest date of a price; `undated` if a price has no date, `unknown` if there is no price."""
        dates = [pool.price_date for pool in self.pools if pool.price]
        return UNDATED if UNDATED in dates else min(dates, default=UNKNOWN)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The pools with an unknown price."""
        return (
            *(pool.demand.pool for pool in self.pools if pool.price is None),
            *(f"{each.pool} (by the {each.unit})" for each in self.metered),
        )

    @property
    def summary(self) -> str:
        """One sentence for the outputs of `pulumi up`."""
        total = self.total
        least = "at least " if total.at_least else ""
        unpriced_rest = any(pool.usd_per_hour_at_rest is None for pool in self.pools)
        rest = _amount_text(total.usd_per_hour_at_rest, 2, least if unpriced_rest else "")
        dated = {UNDATED: "some prices undated", UNKNOWN: ""}
        estimated = [pool.demand.pool for pool in self.pools if pool.estimated]
        notes = (
            dated.get(self.price_date, f"prices of {self.price_date}"),
            f"unknown for {', '.join(self.unpriced)}" if self.unpriced else "",
            f"estimated for {', '.join(estimated)}" if estimated else "",
            f"without {self._not_included}",
        )
        return (
            f"{rest} USD/h at rest, {_amount_text(total.usd_per_hour_at_max, 2, least)} USD/h at max, "
            f"{_amount_text(total.usd_worst_month, 0, least)} USD in the worst month ({'; '.join(filter(None, notes))})"
        )

    @property
    def _not_included(self) -> str:
        """The text of NOT_INCLUDED, with the number of stopped machines. Their disks cost money at rest."""
        stopped = sum(pool.demand.stopped_machines for pool in self.pools)
        machines = f"{stopped} stopped machine{'s' if stopped > 1 else ''}"
        disks, *rest = NOT_INCLUDED
        return " and ".join((f"{disks} (at rest those of {machines})" if stopped else disks, *rest))

    def to_json(self) -> dict[str, Any]:
        return {
            "summary": self.summary,
            **self.total.to_json(),
            "byMarket": {market: total.to_json() for market, total in self.by_market.items()},
            "priceDate": self.price_date,
            "notIncluded": list(NOT_INCLUDED),
        }


def of_pool(demand: Demand) -> PoolCost:
    """Return the cost of one pool."""
    found = price(demand.machine, demand.region, demand.market)
    if not demand.others:
        return PoolCost(demand, found)
    each = {each.machine_type: price(each, demand.region, demand.market) for each in (*demand.others, demand.machine)}
    by_type = sorted(each.items(), key=lambda one: one[1].usd_per_hour if one[1] else math.inf)
    known = [one for _, one in by_type if one]
    return PoolCost(demand, known[-1] if found else None, tuple(by_type))


def of_stack(demands: Iterable[Demand], metered: Iterable[Metered] = ()) -> StackCost:
    """Return the cost of all pools of a stack."""
    return StackCost(tuple(map(of_pool, demands)), tuple(metered))


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum of the known values. Return None if there are values, but all are unknown."""
    known = [value for value in values if value is not None]
    return None if values and not known else round(math.fsum(known), 4)


def _or_unknown(value: float | None) -> float | str:
    return UNKNOWN if value is None else value


def _amount_text(value: float | None, digits: int, least: str) -> str:
    """Return an amount as text for the summary. `least` is "at least " or empty."""
    return UNKNOWN if value is None else f"{least}{value:,.{digits}f}"
