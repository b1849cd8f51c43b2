"""The offers of a machine: each market and region in which it is sold, sorted by price.

Spot prices change every month, on-demand prices rarely. So a spot price is not relied on if it is older than 90 days,
undated or estimated. Comparisons then use the on-demand price of the same machine and region, which is the maximum. An
offer without such a price comes after all others. A budget is compared with the spot price itself.
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
    """A machine in one market and one region."""

    machine: Machine
    market: Market
    region: str
    price: Price | None
    """The price; None if it is unknown."""
    stale_days: int = 0
    """The age of the price in days if it is more than 90, else 0. Also 0 if no current day was given."""
    compared_by: Price | None = None
    """The price used for comparisons: the price itself or the on-demand price. None if there is neither."""

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones of the region with the machine; empty if no source names them."""
        return queries.zones(self.machine, self.region)

    @property
    def usd_per_hour(self) -> float | None:
        """The price in USD an hour; None if it is unknown."""
        return self.price.usd_per_hour if self.price else None

    @property
    def counts_as(self) -> float | None:
        """The price in USD an hour that comparisons use."""
        return self.compared_by.usd_per_hour if self.compared_by else None

    @property
    def rank(self) -> tuple[object, ...]:
        """The sort key: by the price that comparisons use, then by the price. Unknown prices come last."""
        price = self.price.usd_per_hour if self.price else 0
        return self.price is None, self.compared_by is None, self.counts_as or 0, price

    @property
    def text(self) -> str:
        """The offer as text: spot 0.3973 USD/h in us-central1, price of 2026-08-03, 110 days old."""
        if self.price is None:
            return f"{self.market} in {self.region}, price unknown"
        about = "about " if self.price.estimated else ""
        when = f"price of {self.price.date}" if self.price.date else "price undated"
        age = f", {self.stale_days} days old" if self.stale_days else ""
        how = ", estimated: on-demand price less the saving then" if self.price.estimated else ""
        return f"{self.market} {about}{usd(self.price.usd_per_hour)} in {self.region}, {when}{age}{how}"

    @property
    def price_caveat(self) -> str:
        """The reason why the price is not relied on, and the maximum price; empty for a reliable price."""
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
    """Return the cheapest offer in a market and a region, or in any. If no price is known, return an offer without one.

    The machine must be sold in that market and region within the budget; `shortfalls` checks that. Without `today`, no
    price counts as old, so that the result does not change from day to day.
    """
    offers = _matching(machine, market, region, today)
    return next(offer for offer in offers if budget is None or _affordable(offer, budget))


def _affordable(offer: Offer, budget: float) -> bool:
    return offer.price is not None and offer.price.usd_per_hour <= budget


def _matching(machine: Machine, market: Market | None, region: str | None, today: date | None) -> Iterator[Offer]:
    every = _offers(machine, today)
    return (offer for offer in every if market in (None, offer.market) and region in (None, offer.region))


_by_key: dict[tuple[str, date | None], tuple[Offer, ...]] = {}  # `cache` would hash the whole machine at every call


def _offers(machine: Machine, today: date | None) -> tuple[Offer, ...]:
    """Return every offer of a machine, cheapest first. Offers without a price come last."""
    if (machine.key, today) not in _by_key:
        choices = [(market, region) for market in machine.markets for region in machine.regions]
        found = [_offer(machine, market, region, today) for market, region in choices]
        _by_key[machine.key, today] = tuple(sorted(found, key=_order))
    return _by_key[machine.key, today]


def _order(offer: Offer) -> tuple[object, ...]:
    """Return the sort key. Regions that the cloud's own page does not list come after those that it lists."""
    unlisted = offer.region in offer.machine.unlisted_regions
    return offer.price is None, unlisted, *offer.rank, MARKETS.index(offer.market), offer.region


def _offer(machine: Machine, market: Market, region: str, today: date | None) -> Offer:
    """Return one offer. The module docstring describes which price is used for comparisons."""
    found = price(machine, region, market)
    if found is None:
        return Offer(machine, market, region, None)
    stale_days = staleness.stale_days(found, today) if today else 0
    unreliable = market == "spot" and (stale_days > 0 or found.date is None or found.estimated)
    return Offer(machine, market, region, found, stale_days, list_price(machine, region) if unreliable else found)


def shortfalls(machine: Machine, needs: Needs) -> list[MissingNeed]:
    """Return every need that the machine does not meet, including the budget."""
    found = missing_needs(machine, needs)
    if needs.budget_usd_per_hour is None:
        return found
    # If it is not sold in this market or region, other prices still show how near it is to the budget.
    missing = {need.need for need in found}
    market = None if "market" in missing else needs.market
    region = None if "region" in missing else needs.region
    return [*found, *_over_budget(machine, market, region, needs.budget_usd_per_hour)]


def _over_budget(machine: Machine, market: Market | None, region: str | None, budget: float) -> list[MissingNeed]:
    """Return the missing need if the machine is over the budget or has no known price."""
    cost = _least(machine, market, region)
    if cost is None:
        return [
            MissingNeed("budget_usd_per_hour", f"has no known price to compare with {budget:g} USD/h", float("inf"))
        ]
    if cost <= budget:
        return []
    return [MissingNeed("budget_usd_per_hour", f"costs at least {usd(cost)}, not {budget:g}", cost / budget - 1)]


_least_by_key: dict[tuple[str, Market | None, str | None], float | None] = {}


def _least(machine: Machine, market: Market | None, region: str | None) -> float | None:
    """Return the lowest known price, of any age."""
    asked = (machine.key, market, region)
    if asked not in _least_by_key:
        known = [offer.price.usd_per_hour for offer in _matching(machine, market, region, None) if offer.price]
        _least_by_key[asked] = min(known, default=None)
    return _least_by_key[asked]


def usd(amount: float) -> str:
    """Return a price an hour as text."""
    return f"{amount:.4g} USD/h"
