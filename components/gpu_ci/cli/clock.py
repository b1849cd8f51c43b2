"""The current date, in a module of its own so that tests can replace it."""

from __future__ import annotations

from datetime import date


def today() -> date:
    """Return the current date in the local time zone."""
    return date.today()
