"""Prices of the machine that all policies buy, from the catalog with its sources."""

from __future__ import annotations

from functools import cache

from gpu_catalog.prices import price

from .availability import Place

MACHINE_TYPE = "g2-standard-8"


@cache
def usd_per_hour(place: Place) -> float:
    """The catalog's price of the place's region."""
    found = price(MACHINE_TYPE, place.region, place.market)
    if found is None:
        raise SystemExit(f"the catalog has no {place.market} price of {MACHINE_TYPE} in {place.region}")
    return found.usd_per_hour
