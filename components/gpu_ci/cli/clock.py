"""The current date and time. Tests replace these functions."""

from __future__ import annotations

from datetime import UTC, date, datetime


def today() -> date:
    """Return the current date in the local time zone."""
    return date.today()


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
