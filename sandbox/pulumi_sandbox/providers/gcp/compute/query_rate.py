"""How often the guest attributes of one VM may be queried, from outside and from the VM itself, and a project's reads.

Of guest attributes at most 10 queries a minute and 3 a second. Above that rate "Compute Engine might arbitrarily remove
guest attributes that are in the process of being written" (docs.cloud.google.com/compute/docs/metadata/
manage-guest-attributes).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable

LIMITS = ((10, 60.0), (3, 1.0))
"""Queries, and the seconds within which no more of them are allowed."""
WRITING_SEC = 1.0
"""How long a value counts as being written. Google names no time."""

READS_A_MINUTE = 1_500
"""The default of "Read requests per minute per region" (docs.cloud.google.com/compute/api-quota)."""


class ReadQuota:
    """Reads of each project and region. "The quota refills at the start of the next synchronized interval, such as
    10:01:00" (the same page). Each process of the sandbox counts alone."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._minute = 0
        self._reads: Counter[tuple[str, str]] = Counter()

    def allows(self, project: str, region: str) -> bool:
        """Whether one more read is within this minute's quota. One that is refused does not count."""
        with self._lock:
            minute = int(self._clock() // 60)
            if minute != self._minute:
                self._minute = minute
                self._reads.clear()
            if self._reads[project, region] >= READS_A_MINUTE:
                return False
            self._reads[project, region] += 1
            return True


class QueryRate:
    """One VM's. Queries beyond the limits are not counted, so that the rate recovers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._allowed: deque[float] = deque(maxlen=64)
        self._writes: deque[tuple[float, str, str]] = deque(maxlen=64)

    def allows(self) -> bool:
        """Whether one more query is within the limits."""
        with self._lock:
            now = self._clock()
            for most, seconds in LIMITS:
                if sum(now - at < seconds for at in self._allowed) >= most:
                    return False
            self._allowed.append(now)
            return True

    def written(self, space: str, key: str) -> None:
        """This attribute has been written just now."""
        with self._lock:
            self._writes.append((self._clock(), space, key))

    def being_written(self) -> list[tuple[str, str]]:
        """The attributes that a query beyond the limits removes."""
        with self._lock:
            now = self._clock()
            return [(space, key) for at, space, key in self._writes if now - at < WRITING_SEC]
