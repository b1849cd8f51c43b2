"""Zones and the regions they are in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

from .errors import closest, similar

# us-east-1a, and local zones such as us-west-2-lax-1a. Google's have no dash before the region's number.
_AWS_ZONE = re.compile(r"([a-z]+(?:-[a-z]+)+-\d+)(?:[a-z]|-[a-z]+-\d+[a-z])")


def region_of(zone: str) -> str:
    """The region of a zone: us-central1-a is in us-central1, us-south1-ai1b in us-south1, us-east-1a in us-east-1."""
    match = _AWS_ZONE.fullmatch(zone)
    return match[1] if match else zone.rpartition("-")[0]


def nearest_locations(location: str, candidates: Iterable[str]) -> list[str]:
    """Zones or regions by how near they are to one, as far as their names tell: us-east-2 is nearer to us-east-1."""
    return sorted(candidates, key=lambda each: (-_common_prefix_length(location, each), each))


def _common_prefix_length(one: str, other: str) -> int:
    """How many characters two names begin with together."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def closest_location(given: str, candidates: Iterable[str]) -> str:
    """The region or zone that was probably meant; never one of another continent."""
    locations = sorted(set(candidates))
    continents = {each.partition("-")[0] for each in locations}
    first, dash, _ = given.lower().partition("-")
    continent = first if first in continents else closest(first, continents)
    near = similar(given, [each for each in locations if not dash or each.partition("-")[0] == continent])
    best = [each for each, alike in near.items() if alike == max(near.values())]
    return nearest_locations(given, best)[0] if best else ""
