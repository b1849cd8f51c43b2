"""The clock that the manager measures durations with."""

from __future__ import annotations

import time


def uptime() -> float:
    """Seconds by a clock that nobody sets, and that also runs while a computer sleeps, as a lease does."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
