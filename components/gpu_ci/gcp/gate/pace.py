"""How often the gates of one deployment ask Google: together they stay below its rate of requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# Of the 1,500 "Read requests per minute per region" that a project has unless Google granted more
# (docs.cloud.google.com/compute/api-quota), half is left to Pulumi, to groups and to other programs.
_READS_A_MINUTE = 750
# A question reads the state and the serial port. Guest attributes are read five times a minute.
_READS_A_QUESTION = 2
_SHORTEST_SEC = 2.0
# "The quota refills at the start of the next synchronized interval, such as 10:01:00" (the same page).
_AFTER_REFUSAL_SEC = 15.0


class Pace:
    """Shared by gates in several threads. Regions have quotas of their own, and are counted as one here."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._gates = 0
        self._quiet_until = 0.0

    @contextmanager
    def gate(self) -> Iterator[None]:
        """One more gate asks, until the end of the block."""
        with self._lock:
            self._gates += 1
        try:
            yield
        finally:
            with self._lock:
                self._gates -= 1

    def refused(self, now: float) -> None:
        """Google's rate limit has refused a request: no gate asks for a while."""
        with self._lock:
            self._quiet_until = max(self._quiet_until, now + _AFTER_REFUSAL_SEC)

    def seconds(self, now: float) -> float:
        """How long a gate waits before its next question."""
        with self._lock:
            share = self._gates * _READS_A_QUESTION * 60 / _READS_A_MINUTE
            return max(_SHORTEST_SEC, share, self._quiet_until - now)
