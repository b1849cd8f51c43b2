"""Limit the queries of a VM's guest attributes and the reads of a project.

The guest attributes of a VM allow 10 queries a minute and 3 a second, from outside and from the VM together. Above that
rate, "Compute Engine might arbitrarily remove guest attributes that are in the process of being written"
(docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable

LIMITS = ((10, 60.0), (3, 1.0))
"""The maximum number of queries, and the seconds of each window."""
WRITING_SEC = 1.0
"""The time during which a value counts as being written. Google gives no figure."""

READS_A_MINUTE = 1_500
"""The default of "Read requests per minute per region" (docs.cloud.google.com/compute/api-quota)."""


class ReadQuota:
    """The read quota of each project and region. Each process of the sandbox counts its own requests.

    "The quota refills at the start of the next synchronized interval, such as 10:01:00"
    (docs.cloud.google.com/compute/api-quota).
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._minute = 0
        self._reads: Counter[tuple[str, str]] = Counter()

    def allows(self, project: str, region: str) -> bool:
        """Return True if one more read is within this minute's quota. A refused read does not count."""
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
    """The query rate of one VM. A refused query does not count, so the rate recovers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._allowed: deque[float] = deque(maxlen=64)
        self._writes: deque[tuple[float, str, str]] = deque(maxlen=64)

    def allows(self) -> bool:
        """Return True if one more query is within the limits."""
        with self._lock:
            now = self._clock()
            for limit, seconds in LIMITS:
                if sum(now - at < seconds for at in self._allowed) >= limit:
                    return False
            self._allowed.append(now)
            return True

    def written(self, namespace: str, key: str) -> None:
        """Record that an attribute has just been written."""
        with self._lock:
            self._writes.append((self._clock(), namespace, key))

    def being_written(self) -> list[tuple[str, str]]:
        """Return the attributes that a query above the limits removes."""
        with self._lock:
            now = self._clock()
            return [(namespace, key) for at, namespace, key in self._writes if now - at < WRITING_SEC]
