"""The current date. Tests replace this function."""

from __future__ import annotations

from datetime import date


def today() -> date:
    """Return the current date in the local time zone."""
    return date.today()
