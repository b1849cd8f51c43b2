"""Prices of the machine that all policies buy, from the catalog with its sources, and of its disk."""

from __future__ import annotations

from functools import cache

from gpu_catalog.prices import price

from .availability import Place

MACHINE_TYPE = "g2-standard-8"
DISK_GIB = 100
"""The size of a pool's default boot disk, a balanced persistent disk."""
_USD_PER_GIB_MONTH = 0.10
# docs.cloud.google.com/compute/disks-image-pricing: balanced persistent disks in the three regions; 730 hours a month.
DISK_USD_PER_HOUR = DISK_GIB * _USD_PER_GIB_MONTH / 730
"""The price of a disk of a stopped machine. As in the catalog, disks of machines that are on are not counted, for any
policy.
"""


@cache
def usd_per_hour(place: Place) -> float:
    """Return the catalog's price in the region of the place."""
    found = price(MACHINE_TYPE, place.region, place.market)
    if found is None:
        raise SystemExit(f"the catalog has no {place.market} price of {MACHINE_TYPE} in {place.region}")
    return found.usd_per_hour
