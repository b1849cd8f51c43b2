"""Returns the prices of running machines. A price that is not published is unknown (None), and never guessed."""

from __future__ import annotations

from functools import cache

from . import data_files
from .models import Machine, Market, Price
from .queries import machine as named
from .queries import market as market_named


def price(machine: str | Machine, region: str, market: str) -> Price | None:
    """Return the newest known price of one machine, or None if it is unknown or the machine is not sold in the market.

    The price of an N1 machine includes its GPUs. A spot price of AWS is computed from the on-demand price and the
    saving in AWS's Spot Instance Advisor. Such a price is marked as estimated.
    """
    found = named(machine) if isinstance(machine, str) else machine
    word = market_named(market)
    if word not in found.markets:
        return None
    if found.attached:
        return _sum(found, region, word)
    listed = _listed(found.machine_type, region, word)
    return listed or (_estimated(found.machine_type, region) if word == "spot" else None)


def interruption(machine: str | Machine, region: str) -> str:
    """Return the monthly rate of spot interruptions on AWS, such as 5-10%; empty if it is unknown."""
    found = named(machine) if isinstance(machine, str) else machine
    row = _advice().get(found.machine_type, {})
    return str(row.get("interruption", {}).get(region, ""))


@cache
def _table() -> dict[str, list[data_files.Json]]:
    """Return the price rows by machine type or accelerator, newest first."""
    found: dict[str, list[data_files.Json]] = {}
    for row in data_files.rows("prices"):
        found.setdefault(row.get("machine_type") or row["accelerator"], []).append(row)
    for rows in found.values():
        rows.sort(key=lambda row: data_files.sources()[row["source"]].date or "", reverse=True)
    return found


@cache
def _advice() -> dict[str, data_files.Json]:
    return {row["machine_type"]: row for row in data_files.rows("aws_spot")}


def _listed(name: str, region: str, market: Market) -> Price | None:
    for row in _table().get(name, ()):
        usd = row["usd_per_hour"].get(region, {}).get(market)
        if usd is not None:
            return Price(usd, region, market, data_files.sources()[row["source"]].date, (row["source"],))
    return None


def _estimated(name: str, region: str) -> Price | None:
    saving = _advice().get(name, {}).get("savings_percent", {}).get(region)
    full = _listed(name, region, "standard")
    if saving is None or full is None:
        return None
    usd = round(full.usd_per_hour * (1 - saving / 100), 4)
    return Price(usd, region, "spot", data_files.sources()["adv"].date, (*full.sources, "adv"), estimated=True)


def _sum(machine: Machine, region: str, market: Market) -> Price | None:
    host, card = _listed(machine.machine_type, region, market), _listed(machine.accelerator, region, market)
    if host is None or card is None:
        return None
    usd = round(host.usd_per_hour + machine.api_gpu_count * card.usd_per_hour, 6)
    date = min(host.date, card.date) if host.date and card.date else None
    return Price(usd, region, market, date, (*host.sources, *card.sources))
