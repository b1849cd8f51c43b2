"""GitHub's rate limits: the hourly budget, and the pauses that GitHub's answers request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

# If a secondary limit names no time, wait at least one minute (docs.github.com, "Rate limits for the REST API").
_SECONDARY_SEC = 60.0
# The primary limit is renewed each hour. A proxy may write other units into the headers.
_LONGEST_PAUSE_SEC = 3600.0
# Seconds between two sweeps (docs/adr/0025-the-runner-manager.md).
_ACTIVE_SEC, _IDLE_SEC = 10.0, 30.0
# The least seconds from the start of one sweep to the next, which GitHub's messages may begin earlier.
_LEAST_SEC = 1.0
# The secondary limit is 900 points a minute, and a request costs at least one (docs.github.com, "Rate limits for the
# REST API"). The documentation does not say if a 304 answer costs one. The other 180 points are for other clients of
# the installation.
_REQUESTS_PER_MINUTE = 720
# Below this fraction of the hourly budget the manager sweeps half as often.
_LOW_FRACTION = 0.2


class Requests(NamedTuple):
    """Counts since the start of the process."""

    sent: int
    not_modified: int
    """The number of 304 answers, which do not count against the primary limit."""


class RateLimits:
    """The rate limits that GitHub's answers have reported. Threads share the object.

    `managers` managers send requests as the same installation, and each uses an equal part of the rate.
    """

    def __init__(self, monotonic: Callable[[], float], managers: int = 1) -> None:
        self._per_minute = _REQUESTS_PER_MINUTE / managers
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._until: float | None = None
        self._budget_fraction = 1.0
        self.requests_left: int | None = None
        """The requests left in the hourly budget, from the newest answer that reports it."""
        self._sent = self._not_modified = self._sent_before_sweep = 0
        self._sweep_began = monotonic()

    @property
    def requests(self) -> Requests:
        with self._lock:
            return Requests(self._sent, self._not_modified)

    def wait_sec(self) -> float | None:
        """Return the seconds in which no request may be sent, or None if requests are allowed."""
        with self._lock:
            if self._until is None:
                return None
            left = self._until - self._monotonic()
            if left <= 0:
                self._until = None
            return left if left > 0 else None

    def begin_sweep(self) -> None:
        """Count the following requests for a new sweep."""
        with self._lock:
            self._sent_before_sweep, self._sweep_began = self._sent, self._monotonic()

    def may_sweep(self) -> bool:
        """Return True if a sweep may begin before the interval has passed."""
        return self.wait_sec() is None and self._monotonic() - self._sweep_began >= self._pause_sec(_LEAST_SEC)

    def interval_sec(self, active: bool) -> float:
        """Return the seconds between two sweeps. `active`: a job waits for a machine, or a machine starts."""
        return self._pause_sec(_ACTIVE_SEC if active else _IDLE_SEC)

    def _pause_sec(self, pause_sec: float) -> float:
        with self._lock:
            # The seconds that the last sweep's requests need at the allowed rate per minute.
            pause_sec = max(pause_sec, (self._sent - self._sent_before_sweep) * 60 / self._per_minute)
            return pause_sec * 2 if self._budget_fraction < _LOW_FRACTION else pause_sec

    def record_answer(self, status: int, headers: Mapping[str, str], message: str, github_unix: float) -> bool:
        """Count an answer and remember its limits. Return True if the answer reports a reached limit.

        Both limits may answer 403 or 429. retry-after counts first, then the reset of the hourly budget.
        """
        remaining, limit = _number(headers, "x-ratelimit-remaining"), _number(headers, "x-ratelimit-limit")
        reset = _number(headers, "x-ratelimit-reset")
        retry_after = _number(headers, "retry-after")
        secondary = "secondary rate limit" in message.lower()
        limited = status == 429 or (status == 403 and (retry_after is not None or remaining == 0 or secondary))
        until_reset_sec = None if reset is None else max(reset - github_unix, 1.0)
        with self._lock:
            self._sent += 1
            self._not_modified += status == 304
            if remaining is not None and limit:
                self._budget_fraction, self.requests_left = remaining / limit, int(remaining)
            if limited:
                pause_sec = _SECONDARY_SEC
                if retry_after is not None:
                    pause_sec = max(retry_after, 1.0)
                elif remaining == 0 and until_reset_sec is not None:
                    pause_sec = until_reset_sec
                self._pause(pause_sec)
            elif remaining == 0 and until_reset_sec is not None:
                # This was the last request of the hour. The next one would be refused.
                self._pause(until_reset_sec)
        return limited

    def _pause(self, pause_sec: float) -> None:
        self._until = max(self._until or 0.0, self._monotonic() + min(pause_sec, _LONGEST_PAUSE_SEC))


def _number(headers: Mapping[str, str], name: str) -> float | None:
    value = headers.get(name, "")
    return float(value) if value.isascii() and value.isdecimal() else None
