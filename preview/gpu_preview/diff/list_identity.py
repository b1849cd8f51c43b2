"""Which name tells the parts of a list from each other, so that one which moves is not taken for another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .placeholders import is_told

NAMES = ("name", "pool", "deviceName", "sid", "Sid", "id", "key")
"""The properties that may do so, the first one first."""


def places(entries: Sequence[Any], name: str) -> dict[str, int]:
    """Where each name is in a list; nothing where any part has none, or two have the same."""
    found = {
        part[name]: at
        for at, part in enumerate(entries)
        if isinstance(part, Mapping) and isinstance(part.get(name), str) and is_told(part[name])
    }
    return found if len(found) == len(entries) else {}


def name_of(*lists: Sequence[Any]) -> str:
    """The property by which all parts of these lists have names; empty for none. An empty list has any."""
    return next((name for name in NAMES if all(places(each, name) or not each for each in lists)), "")
