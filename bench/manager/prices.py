"""Prices of the machine that all policies buy, from the catalog with its sources, and of its disk."""

from __future__ import annotations

from functools import cache

from gpu_catalog.prices import price

from .availability import Place

MACHINE_TYPE = "g2-standard-8"
DISK_GIB = 100
"""The default boot disk of a pool, a balanced persistent disk."""
_USD_PER_GIB_MONTH = 0.10
# docs.cloud.google.com/compute/disks-image-pricing: balanced persistent disks in the three regions; of 730 hours.
DISK_USD_PER_HOUR = DISK_GIB * _USD_PER_GIB_MONTH / 730
"""Counted for machines that are stopped. Disks of machines that are on are left out, as in the catalog, for all
policies."""


@cache
def usd_per_hour(place: Place) -> float:
    """The catalog's price of the place's region."""
    found = price(MACHINE_TYPE, place.region, place.market)
    if found is None:
        raise SystemExit(f"the catalog has no {place.market} price of {MACHINE_TYPE} in {place.region}")
    return found.usd_per_hour
