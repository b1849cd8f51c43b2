"""The offers of a machine, sorted by price. An offer is one market and one region in which the machine is sold.

Spot prices change every month, on-demand prices rarely. So a spot price is *unreliable* if it is older than 90 days,
undated or estimated. Offers are then sorted by the on-demand price of the same machine and region, because a spot price
is never higher than the on-demand price. If the on-demand price is unknown, the offer comes after all other priced
offers. The budget of a job is compared with the spot price itself, even if that price is unreliable.
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
    """The age of the price in days if the price is older than 90 days, else 0. Without a current day it is 0, too."""
    compared_by: Price | None = None
    """The price used for comparisons: the price itself, or the on-demand price. None if both are unknown."""

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones of the region that have the machine; empty if no source names the zones."""
        return queries.zones(self.machine, self.region)

    @property
    def usd_per_hour(self) -> float | None:
        """The price in USD an hour; None if it is unknown."""
        return self.price.usd_per_hour if self.price else None

    @property
    def counts_as(self) -> float | None:
        """The price in USD an hour that comparisons use; None if it is unknown."""
        return self.compared_by.usd_per_hour if self.compared_by else None

    @property
    def rank(self) -> tuple[object, ...]:
        """The sort key: by the price that comparisons use, then by the price. Unknown prices come last."""
        price = self.price.usd_per_hour if self.price else 0
        return self.price is None, self.compared_by is None, self.counts_as or 0, price

    @property
    def text(self) -> str:
        """The offer as text: spot 0.3973 USD/h in us-central1, price of 2026-08-03, 110 days old."""
        return ", ".join(filter(None, (self.amount_text, self.price_origin)))

    @property
    def amount_text(self) -> str:
        """The market, the price and the region as text: spot 0.3973 USD/h in us-central1."""
        if self.price is None:
            return f"{self.market} in {self.region}, price unknown"
        about = "about " if self.price.estimated else ""
        return f"{self.market} {about}{usd(self.price.usd_per_hour)} in {self.region}"

    @property
    def price_origin(self) -> str:
        """The date and the age of the price as text, and a note for an estimated price; empty for an unknown price."""
        if self.price is None:
            return ""
        date_text = f"price of {self.price.date}" if self.price.date else "price undated"
        age = f", {self.stale_days} days old" if self.stale_days else ""
        estimate = ", estimated: on-demand price less the saving then" if self.price.estimated else ""
        return f"{date_text}{age}{estimate}"

    @property
    def price_caveat(self) -> str:
        """The maximum of an unreliable price; empty for a reliable or an unknown price."""
        if self.price is None or self.compared_by is self.price:
            return ""
        if self.compared_by is None:
            return "the maximum is unknown, because no standard price is known"
        return f"at most {usd(self.compared_by.usd_per_hour)}, its standard price"


def best(
    machine: Machine,
    market: Market | None = None,
    region: str | None = None,
    *,
    budget: float | None = None,
    today: date | None = None,
) -> Offer:
    """Return the cheapest offer in a market and a region. If no price is known, return an offer without a price.

    The machine must have an offer in that market and region within the budget. Call `shortfalls` first, which checks
    this.

    Args:
        machine: The machine.
        market: The market; by default any.
        region: The region; by default any.
        budget: The maximum price in USD an hour.
        today: The day from which the age of prices is computed. Without a day, no price counts as old.
    """
    offers = _matching(machine, market, region, today)
    return next(offer for offer in offers if budget is None or _affordable(offer, budget))


def _affordable(offer: Offer, budget: float) -> bool:
    return offer.price is not None and offer.price.usd_per_hour <= budget


def _matching(machine: Machine, market: Market | None, region: str | None, today: date | None) -> Iterator[Offer]:
    """Return the offers in a market and a region, cheapest first. None is any market or region."""
    offers = _offers(machine, today)
    return (offer for offer in offers if market in (None, offer.market) and region in (None, offer.region))


# The offers by the key of the machine and the day. `functools.cache` would hash the whole machine at every call.
_by_key: dict[tuple[str, date | None], tuple[Offer, ...]] = {}


def _offers(machine: Machine, today: date | None) -> tuple[Offer, ...]:
    """Return every offer of a machine, cheapest first. Offers without a price come last."""
    if (machine.key, today) not in _by_key:
        choices = [(market, region) for market in machine.markets for region in machine.regions]
        offers = [_offer(machine, market, region, today) for market, region in choices]
        _by_key[machine.key, today] = tuple(sorted(offers, key=_order))
    return _by_key[machine.key, today]


def _order(offer: Offer) -> tuple[object, ...]:
    """Return the sort key. Regions that the cloud's own page lists come first."""
    unlisted = offer.region in offer.machine.unlisted_regions
    return offer.price is None, unlisted, *offer.rank, MARKETS.index(offer.market), offer.region


def _offer(machine: Machine, market: Market, region: str, today: date | None) -> Offer:
    own_price = price(machine, region, market)
    if own_price is None:
        return Offer(machine, market, region, None)
    stale_days = staleness.stale_days(own_price, today) if today else 0
    unreliable = market == "spot" and (stale_days > 0 or own_price.date is None or own_price.estimated)
    compared_by = list_price(machine, region) if unreliable else own_price
    return Offer(machine, market, region, own_price, stale_days, compared_by)


def shortfalls(machine: Machine, needs: Needs) -> list[MissingNeed]:
    """Return every need that the machine does not meet, including the budget."""
    missing = missing_needs(machine, needs)
    if needs.budget_usd_per_hour is None:
        return missing
    # If the machine is not sold in this market or region, its prices in other markets or regions are compared with the
    # budget.
    names = {each.need for each in missing}
    market = None if "market" in names else needs.market
    region = None if "region" in names else needs.region
    return [*missing, *_over_budget(machine, market, region, needs.budget_usd_per_hour)]


def _over_budget(machine: Machine, market: Market | None, region: str | None, budget: float) -> list[MissingNeed]:
    """Return the budget as a missing need if the machine costs more or has no known price."""
    cost = _lowest_price(machine, market, region)
    if cost is None:
        text = f"has no known price to compare with {budget:g} USD/h"
        return [MissingNeed("budget_usd_per_hour", text, float("inf"))]
    if cost <= budget:
        return []
    return [MissingNeed("budget_usd_per_hour", f"costs at least {usd(cost)}, not {budget:g}", cost / budget - 1)]


_lowest_by_key: dict[tuple[str, Market | None, str | None], float | None] = {}


def _lowest_price(machine: Machine, market: Market | None, region: str | None) -> float | None:
    """Return the lowest known price, of any age."""
    key = (machine.key, market, region)
    if key not in _lowest_by_key:
        known = [offer.price.usd_per_hour for offer in _matching(machine, market, region, None) if offer.price]
        _lowest_by_key[key] = min(known, default=None)
    return _lowest_by_key[key]


def usd(amount: float) -> str:
    """Return a price an hour as text."""
    return f"{amount:.4g} USD/h"
