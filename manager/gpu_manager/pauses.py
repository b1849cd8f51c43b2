"""The wait between two passes. A signal ends it. A hint, which is a webhook event of GitHub, shortens it."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

# GitHub may list a job some seconds after its webhook event (github-aws-runners/terraform-aws-github-runner#2459).
_LISTED_WITHIN_SEC = 60.0


class Pauses:
    """Makes the waits of one manager. Other threads may call `hint`, and signal handlers may call `stop`."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.stopped = Event()
        self._woken = Event()
        self._monotonic = monotonic
        self._hinted: float | None = None

    def stop(self) -> None:
        """End the current wait and each later one."""
        self.stopped.set()
        self._woken.set()

    def hint(self) -> None:
        """Shorten the current wait or the next one, because GitHub has announced a change."""
        self._hinted = self._monotonic()
        self._woken.set()

    @property
    def hinted(self) -> bool:
        """True if a hint came within the last minute. GitHub may then list the announced job soon."""
        return self._hinted is not None and self._monotonic() - self._hinted < _LISTED_WITHIN_SEC

    def wait(self, pause_sec: float, shortest_sec: float) -> bool:
        """Wait for `pause_sec`, or until a signal. After a hint, wait for at most `shortest_sec` more.

        Returns True if a hint or a signal came.
        """
        until = self._monotonic() + pause_sec
        woken = self._woken.wait(pause_sec)
        if woken:
            self.stopped.wait(max(min(shortest_sec, until - self._monotonic()), 0.0))
        # A hint that comes after this line wakes the wait after the next pass.
        self._woken.clear()
        if self.stopped.is_set():
            self._woken.set()
        return woken
