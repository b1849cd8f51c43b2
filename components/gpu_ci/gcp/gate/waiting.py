"""How a program waits for a machine: the clock, the pace of all gates, and the end by a signal."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Protocol

# A project has 1,500 "Read requests per minute per region" unless Google granted more
# (docs.cloud.google.com/compute/api-quota). Half of them are left for Pulumi, instance groups and other programs.
_READS_A_MINUTE = 750
# One poll reads the state and the serial port. The few reads of guest attributes are not counted.
_READS_A_POLL = 2
_SHORTEST_SEC = 2.0
# "The quota refills at the start of the next synchronized interval, such as 10:01:00" (the same page).
_AFTER_REJECTION_SEC = 15.0
# Google does not say when the quota of a deleted machine is free. It may take some seconds.
_QUOTA_FREED_WITHIN_SEC = 60.0


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


class Pace:
    """The pace that the gates share, each in its own thread.

    Google limits the requests for each region, but here the gates of all regions share one pace.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._gates = 0
        self._paused_until = 0.0
        self._machines = self._deleted = 0
        self._deleted_at = -math.inf

    @contextmanager
    def gate(self) -> Iterator[None]:
        """Count one more polling gate until the end of the block."""
        with self._lock:
            self._gates += 1
        try:
            yield
        finally:
            with self._lock:
                self._gates -= 1

    def refused(self, now: float) -> None:
        """Record that Google's rate limit rejected a request. All gates then pause."""
        with self._lock:
            self._paused_until = max(self._paused_until, now + _AFTER_REJECTION_SEC)

    def seconds(self, now: float) -> float:
        """Return the seconds that a gate waits before its next poll."""
        with self._lock:
            interval_sec = self._gates * _READS_A_POLL * 60 / _READS_A_MINUTE
            return max(_SHORTEST_SEC, interval_sec, self._paused_until - now)

    def machine_requested(self) -> int:
        """Count one more machine. Return how many machines were deleted before."""
        with self._lock:
            self._machines += 1
            return self._deleted

    def machine_deleted(self, now: float) -> None:
        """Count a machine that was deleted."""
        with self._lock:
            self._machines -= 1
            self._deleted += 1
            self._deleted_at = now

    def machine_refused(self) -> None:
        """Count a machine that Google did not create."""
        with self._lock:
            self._machines -= 1

    def deleted_since(self, deleted: int) -> bool | None:
        """Return True if a machine was deleted since then, None if one still exists, and otherwise False."""
        with self._lock:
            return True if self._deleted > deleted else None if self._machines else False

    def may_free_quota(self, now: float) -> bool:
        """Return True if a deleted machine may still count against its quota."""
        with self._lock:
            return now - self._deleted_at < _QUOTA_FREED_WITHIN_SEC


def cancellation() -> Event:
    """Return an event that SIGTERM and SIGINT set from now on, so that the program can delete its machine.

    A handler must not set the event itself. It interrupts the main thread, which may hold the event's lock in `wait`,
    and would then wait for itself. `SimpleQueue.put` can interrupt any code.
    """
    cancel = Event()
    received: SimpleQueue[int] = SimpleQueue()

    def pass_on() -> None:
        received.get()
        cancel.set()

    Thread(target=pass_on, name="cancellation", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sent, _: received.put(sent))
    return cancel
