"""How one machine can be had: the market and the region in which it costs least, as far as prices are known.

Spot prices move by the month; what a price list asks on demand hardly does. So a spot price that is older than 90 days,
undated or estimated counts, wherever offers are compared, as the on-demand price of the same machine in the same
region: the most that it can be. An offer without even that comes after all that have one. A budget is held against the
price itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from . import queries, staleness
from .models import MARKETS, Machine, Market, Price
from .needs import MissingNeed, Needs, missing_needs
from .prices import list_price, price


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine, bought one way in one region."""

    machine: Machine
    market: Market
    region: str
    price: Price | None
    """None where it is unknown."""
    stale_days: int = 0
    """How old the price is; 0 while it is not older than 90 days, and where no day was given to count from."""
    compared_by: Price | None = None
    """The price itself, or what it counts as instead; None where there is nothing to compare it by."""

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones of the region that have it; none where no source names them."""
        return queries.zones(self.machine, self.region)

    @property
    def usd_per_hour(self) -> float | None:
        """The price, None where it is unknown."""
        return self.price.usd_per_hour if self.price else None

    @property
    def counts_as(self) -> float | None:
        """USD an hour where it is compared with others."""
        return self.compared_by.usd_per_hour if self.compared_by else None

    @property
    def rank(self) -> tuple[object, ...]:
        """Before which others it comes: by what it counts as, else by its price, those of unknown price last."""
        price = self.price.usd_per_hour if self.price else 0
        return self.price is None, self.compared_by is None, self.counts_as or 0, price

    @property
    def text(self) -> str:
        """The offer in words: spot 0.3973 USD/h in us-central1, price of 2026-08-03, 110 days old."""
        if self.price is None:
            return f"{self.market} in {self.region}, price unknown"
        about = "about " if self.price.estimated else ""
        when = f"price of {self.price.date}" if self.price.date else "price undated"
        age = f", {self.stale_days} days old" if self.stale_days else ""
        how = ", estimated: on-demand price less the saving then" if self.price.estimated else ""
        return f"{self.market} {about}{usd(self.price.usd_per_hour)} in {self.region}, {when}{age}{how}"

    @property
    def price_caveat(self) -> str:
        """Why its price is not relied upon, and what it costs at most; empty where it is."""
        if self.price is None or self.compared_by is self.price:
            return ""
        why = "an estimate" if self.price.estimated else "old" if self.price.date else "undated"
        if self.compared_by is None:
            return f"the spot price is {why}, and no standard price is known"
        return f"the spot price is {why}; its standard price is {usd(self.compared_by.usd_per_hour)}"


def best(
    machine: Machine,
    market: Market | None = None,
    region: str | None = None,
    *,
    budget: float | None = None,
    today: date | None = None,
) -> Offer:
    """The cheapest way to have it in a market and a region, or any; one of unknown price where none has a price.

    The machine has to be sold in that market and present in that region, for that budget: ask `shortfalls` first.
    Without a day no price is old, so that a program's answer does not change overnight.
    """
    offers = _matching(machine, market, region, today)
    return next(offer for offer in offers if budget is None or _affordable(offer, budget))


def _affordable(offer: Offer, budget: float) -> bool:
    return offer.price is not None and offer.price.usd_per_hour <= budget


def _matching(machine: Machine, market: Market | None, region: str | None, today: date | None) -> Iterator[Offer]:
    every = _offers(machine, today)
    return (offer for offer in every if market in (None, offer.market) and region in (None, offer.region))


_by_key: dict[tuple[str, date | None], tuple[Offer, ...]] = {}  # `cache` would hash the whole machine at every question


def _offers(machine: Machine, today: date | None) -> tuple[Offer, ...]:
    """Every way to have it, cheapest first, those of unknown price last."""
    if (machine.key, today) not in _by_key:
        choices = [(market, region) for market in machine.markets for region in machine.regions]
        found = [_offer(machine, market, region, today) for market, region in choices]
        _by_key[machine.key, today] = tuple(sorted(found, key=_order))
    return _by_key[machine.key, today]


def _order(offer: Offer) -> tuple[object, ...]:
    """A region that the cloud's own page does not name comes after those that it does."""
    unlisted = offer.region in offer.machine.unlisted_regions
    return offer.price is None, unlisted, *offer.rank, MARKETS.index(offer.market), offer.region


def _offer(machine: Machine, market: Market, region: str, today: date | None) -> Offer:
    """What stands at the head of this file, in one place."""
    found = price(machine, region, market)
    if found is None:
        return Offer(machine, market, region, None)
    stale_days = staleness.stale_days(found, today) if today else 0
    unreliable = market == "spot" and (stale_days > 0 or found.date is None or found.estimated)
    return Offer(machine, market, region, found, stale_days, list_price(machine, region) if unreliable else found)


def shortfalls(machine: Machine, needs: Needs) -> list[MissingNeed]:
    """Every need the machine does not meet, the budget too."""
    found = missing_needs(machine, needs)
    if needs.budget_usd_per_hour is None:
        return found
    # Where it is not sold as asked, its price elsewhere still tells whether it is near.
    missing = {need.need for need in found}
    market = None if "market" in missing else needs.market
    region = None if "region" in missing else needs.region
    return [*found, *_over_budget(machine, market, region, needs.budget_usd_per_hour)]


def _over_budget(machine: Machine, market: Market | None, region: str | None, budget: float) -> list[MissingNeed]:
    """What a machine lacks for a budget. An unknown price is not within any."""
    cost = _least(machine, market, region)
    if cost is None:
        return [
            MissingNeed("budget_usd_per_hour", f"has no known price to hold against {budget:g} USD/h", float("inf"))
        ]
    if cost <= budget:
        return []
    return [MissingNeed("budget_usd_per_hour", f"costs {usd(cost)} at the least, not {budget:g}", cost / budget - 1)]


_least_by_key: dict[tuple[str, Market | None, str | None], float | None] = {}


def _least(machine: Machine, market: Market | None, region: str | None) -> float | None:
    """The lowest known price, however old."""
    asked = (machine.key, market, region)
    if asked not in _least_by_key:
        known = [offer.price.usd_per_hour for offer in _matching(machine, market, region, None) if offer.price]
        _least_by_key[asked] = min(known, default=None)
    return _least_by_key[asked]


def usd(amount: float) -> str:
    """A price an hour in words."""
    return f"{amount:.4g} USD/h"
