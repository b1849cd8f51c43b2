"""The name that was probably meant by one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

CUTOFF = 0.6  # difflib's own


def closest(name: str, choices: Iterable[str], cutoff: float = CUTOFF) -> str:
    """The choice most like a name, or nothing where none is as like as `cutoff` (a ratio of difflib's, 0 to 1)."""
    import difflib  # takes longer than most of its callers, and is needed for mistakes only

    return next(iter(difflib.get_close_matches(name, list(choices), n=1, cutoff=cutoff)), "")
