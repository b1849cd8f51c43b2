"""Time, so that a test need not wait for it."""

from __future__ import annotations

import time
from threading import Event
from typing import Protocol


class Clock(Protocol):
    """Time, so that a test need not wait for it."""

    def now(self) -> float:
        """Seconds since some start."""

    def wait(self, event: Event, seconds: float) -> None:
        """Return after that long, or as soon as the event is set."""


class RealClock:
    """The machine's own."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, event: Event, seconds: float) -> None:
        event.wait(seconds)
