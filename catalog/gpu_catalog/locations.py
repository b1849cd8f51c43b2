"""Zones and the regions they are in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import takewhile

from .errors import closest, similar

# us-east-1a, and local zones such as us-west-2-lax-1a. Google's zones have no dash before the number of the region.
_AWS_ZONE = re.compile(r"([a-z]+(?:-[a-z]+)+-\d+)(?:[a-z]|-[a-z]+-\d+[a-z])")
_GOOGLE_ZONE = re.compile(r"(.+)-(?:ai\d+)?[a-z]")


@cache
def region_of(zone: str) -> str:
    """Return the region of a zone: us-central1 for us-central1-a, us-south1 for us-south1-ai1b.

    Any other name, such as that of a vendor without zones, is a region of its own.
    """
    match = _AWS_ZONE.fullmatch(zone) or _GOOGLE_ZONE.fullmatch(zone)
    return match[1] if match else zone


def nearest_locations(location: str, candidates: Iterable[str]) -> list[str]:
    """Sort zones or regions by the similarity of their names to a location: us-east-2 is near to us-east-1."""
    return sorted(candidates, key=lambda each: (-_common_prefix_length(location, each), each))


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two names."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def closest_location(given: str, candidates: Iterable[str]) -> str:
    """Return the region or zone that was probably meant. It is on the continent that `given` names, if it names one."""
    locations = sorted(set(candidates))
    continents = {each.partition("-")[0] for each in locations}
    first, dash, _ = given.lower().partition("-")
    continent = first if first in continents else closest(first, continents)
    near = similar(given, [each for each in locations if not dash or each.partition("-")[0] == continent])
    best = [each for each, alike in near.items() if alike == max(near.values())]
    return nearest_locations(given, best)[0] if best else ""
