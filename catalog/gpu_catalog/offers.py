"""How one machine can be had: the market and the region in which it costs least, as far as prices are known."""

from __future__ import annotations

from dataclasses import dataclass

from . import questions
from .facts import Price
from .needs import Lack, Needs, lacks
from .prices import price
from .rows import MARKETS, Machine, Market


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine, bought one way in one region."""

    machine: Machine
    market: Market
    region: str
    price: Price | None
    """None where it is unknown."""

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones of the region that have it; none where no source names them."""
        return questions.zones(self.machine, self.region)

    @property
    def text(self) -> str:
        """The offer in words: spot 0.3973 USD/h in us-central1, price of 2026-08-03."""
        if self.price is None:
            return f"{self.market} in {self.region}, price unknown"
        about = "about " if self.price.estimated else ""
        when = f"price of {self.price.date}" if self.price.date else "price undated"
        how = ", estimated: on-demand price less the saving then" if self.price.estimated else ""
        return f"{self.market} {about}{usd(self.price.usd_per_hour)} in {self.region}, {when}{how}"


def best(machine: Machine, market: Market | None = None, region: str | None = None) -> Offer:
    """The cheapest way to have it in a market and a region, or any; one of unknown price where none has a price.

    The machine has to be sold in that market and present in that region: ask `lacks` first.
    """
    ways = (way for way in _offers(machine) if market in (None, way.market) and region in (None, way.region))
    return next(ways)


_by_key: dict[str, tuple[Offer, ...]] = {}  # `cache` would hash the whole machine at every question


def _offers(machine: Machine) -> tuple[Offer, ...]:
    """Every way to have it, cheapest first, those of unknown price last."""
    if machine.key not in _by_key:
        ways = [(market, region) for market in machine.markets for region in machine.regions]
        found = [Offer(machine, market, region, price(machine, region, market)) for market, region in ways]
        _by_key[machine.key] = tuple(sorted(found, key=_rank))
    return _by_key[machine.key]


def _rank(offer: Offer) -> tuple[object, ...]:
    cost = offer.price.usd_per_hour if offer.price else 0
    return offer.price is None, cost, MARKETS.index(offer.market), offer.region


def shortfalls(machine: Machine, needs: Needs) -> list[Lack]:
    """Every need the machine does not meet, the budget too."""
    found = lacks(machine, needs)
    if needs.budget_usd_per_hour is None:
        return found
    # Where it is not sold as asked, its price elsewhere still tells whether it is near.
    missing = {lack.need for lack in found}
    market = None if "market" in missing else needs.market
    region = None if "region" in missing else needs.region
    return [*found, *_too_dear(best(machine, market, region), needs.budget_usd_per_hour)]


def _too_dear(offer: Offer, budget: float) -> list[Lack]:
    """What an offer lacks for a budget. An unknown price is not within any."""
    if offer.price is None:
        return [Lack("budget_usd_per_hour", f"has no known price to hold against {budget:g} USD/h", float("inf"))]
    cost = offer.price.usd_per_hour
    if cost <= budget:
        return []
    return [Lack("budget_usd_per_hour", f"costs {usd(cost)} at the least, not {budget:g}", cost / budget - 1)]


def usd(amount: float) -> str:
    """A price an hour in words."""
    return f"{amount:.4g} USD/h"
