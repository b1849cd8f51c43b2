"""Suggests a known name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

CUTOFF = 0.6  # the default of difflib


def closest(name: str, choices: Iterable[str], cutoff: float = CUTOFF) -> str:
    """Return the most similar choice, or an empty text if no similarity reaches `cutoff` (difflib's ratio, 0 to 1)."""
    import difflib  # a slow import that only mistakes need

    return next(iter(difflib.get_close_matches(name, list(choices), n=1, cutoff=cutoff)), "")
