"""Limits the requests of all smoke gates of a deployment, so that together they stay below Google's rate limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# A project has 1,500 "Read requests per minute per region" unless Google granted more
# (docs.cloud.google.com/compute/api-quota). Half of them are left for Pulumi, instance groups and other programs.
_READS_A_MINUTE = 750
# One poll reads the state and the serial port. The few reads of guest attributes are not counted.
_READS_A_POLL = 2
_SHORTEST_SEC = 2.0
# "The quota refills at the start of the next synchronized interval, such as 10:01:00" (the same page).
_AFTER_REJECTION_SEC = 15.0


class Pace:
    """The pace that the gates share, each in its own thread.

    Google limits the requests for each region, but here the gates of all regions share one pace.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._gates = 0
        self._paused_until = 0.0

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
