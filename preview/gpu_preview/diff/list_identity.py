"""Finds the property that identifies the entries of a list, so that a moved entry is recognized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .placeholders import is_plain

NAMES = ("name", "pool", "deviceName", "sid", "Sid", "id", "key")
"""The properties that can identify entries, in order of preference."""


def places(entries: Sequence[Any], name: str) -> dict[str, int]:
    """Return the index of each name in a list. Empty if an entry has no name, or two have the same."""
    found = {
        entry[name]: index
        for index, entry in enumerate(entries)
        if isinstance(entry, Mapping) and isinstance(entry.get(name), str) and is_plain(entry[name])
    }
    return found if len(found) == len(entries) else {}


def name_of(*lists: Sequence[Any]) -> str:
    """Return the property that names all entries of these lists, or an empty text. An empty list fits any property."""
    return next((name for name in NAMES if all(places(each, name) or not each for each in lists)), "")
