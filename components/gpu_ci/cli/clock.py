"""The current date and time. Tests and `make rollout` replace these functions."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime


def today() -> date:
    """Return the current date in the local time zone."""
    return date.today()


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def sleep(seconds: float) -> None:
    """Wait for this time."""
    time.sleep(seconds)
