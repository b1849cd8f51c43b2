"""The clock of a gate. Tests replace it, so that they do not wait."""

from __future__ import annotations

import time
from threading import Event
from typing import Protocol


class Clock(Protocol):
    """The time functions of a gate."""

    def now(self) -> float:
        """Return the seconds since a fixed start."""

    def wait(self, event: Event, seconds: float) -> None:
        """Return after the given seconds, or as soon as the event is set."""


class RealClock:
    """The system clock."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, event: Event, seconds: float) -> None:
        event.wait(seconds)
