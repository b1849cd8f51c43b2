"""GitHub's rate limits for an installation: requests an hour, and points a minute.

Source of both: docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api. A 304 does not count as a
request (best-practices-for-using-the-rest-api). GitHub does not document whether a 304 costs points; here it does.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pulumi_sandbox.providers.github.rest import Refused
from pulumi_sandbox.world.faults import Fault

REQUESTS_PER_HOUR, POINTS_PER_MINUTE = 5000, 900
HOUR_SEC, MINUTE_SEC = 3600, 60
POINTS = {"GET": 1}
POINTS_OF_A_CHANGE = 5
EXCEEDED = "API rate limit exceeded for installation ID {}."
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


@dataclass
class _Usage:
    started_at: float
    used: int = 0
    points: deque[tuple[float, int]] = field(default_factory=deque)


@dataclass
class RateLimits:
    """The usage of each installation, counted by this process."""

    now: Callable[[], float]
    requests_per_hour: int = REQUESTS_PER_HOUR
    points_per_minute: int = POINTS_PER_MINUTE
    _usage: dict[str, _Usage] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, installation: str, method: str) -> None:
        """Raise Refused if the installation has reached a limit."""
        with self._lock:
            usage, now = self._usage_of(installation), self.now()
            while usage.points and usage.points[0][0] <= now - MINUTE_SEC:
                usage.points.popleft()
            points = POINTS.get(method, POINTS_OF_A_CHANGE)
            if sum(each for _, each in usage.points) + points > self.points_per_minute:
                wait = int(usage.points[0][0] + MINUTE_SEC - now) + 1 if usage.points else MINUTE_SEC
                raise Refused(403, SECONDARY, {"Retry-After": str(wait)})
            if usage.used >= self.requests_per_hour:
                raise Refused(403, EXCEEDED.format(installation))
            usage.points.append((now, points))

    def count_request(self, installation: str) -> None:
        """Count a request whose answer is not a 304."""
        with self._lock:
            self._usage_of(installation).used += 1

    def headers(self, installation: str) -> dict[str, str]:
        with self._lock:
            usage = self._usage_of(installation)
            return _headers(self.requests_per_hour, usage.used, usage.started_at + HOUR_SEC)

    def refusal_of(self, fault: Fault, installation: str) -> Refused:
        """Return the refusal of a planted fault: `secondary-limit`, or `rate-limit` for the requests of the hour."""
        if fault.kind == "secondary-limit":
            return Refused(403, SECONDARY, {"Retry-After": str(int(fault.seconds))})
        headers = _headers(self.requests_per_hour, self.requests_per_hour, self.now() + fault.seconds)
        return Refused(403, EXCEEDED.format(installation), headers)

    def _usage_of(self, installation: str) -> _Usage:
        usage = self._usage.get(installation)
        if usage is None or self.now() >= usage.started_at + HOUR_SEC:
            usage = self._usage[installation] = _Usage(self.now(), points=usage.points if usage else deque())
        return usage


def _headers(limit: int, used: int, reset: float) -> dict[str, str]:
    counts = {"limit": limit, "remaining": max(0, limit - used), "used": used, "reset": int(reset)}
    return {f"X-RateLimit-{name.capitalize()}": str(count) for name, count in counts.items()} | {
        "X-RateLimit-Resource": "core"
    }
