"""The clock with which the manager measures durations."""

from __future__ import annotations

import time


def uptime() -> float:
    """Return the seconds of a clock that cannot be set and also runs while the computer sleeps, as a lease does."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
