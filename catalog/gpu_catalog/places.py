"""Zones and the regions they are in."""

from __future__ import annotations

import re

# us-east-1a, and local zones such as us-west-2-lax-1a. Google's have no dash before the region's number.
_AWS_ZONE = re.compile(r"([a-z]+(?:-[a-z]+)+-\d+)(?:[a-z]|-[a-z]+-\d+[a-z])")


def region_of(zone: str) -> str:
    """The region of a zone: us-central1-a is in us-central1, us-south1-ai1b in us-south1, us-east-1a in us-east-1."""
    found = _AWS_ZONE.fullmatch(zone)
    return found[1] if found else zone.rpartition("-")[0]
