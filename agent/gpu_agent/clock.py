"""Time and chance, in one place, so that a test need not wait for either."""

from __future__ import annotations

import random
import time


class Clock:
    """The machine's own clock."""

    def now(self) -> float:
        """Seconds since some start; never goes back. Every deadline is counted in it."""
        return time.monotonic()

    def unix(self) -> float:
        """Seconds since 1970 by the machine's calendar, which may be wrong."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(max(seconds, 0))

    def jitter(self, seconds: float) -> float:
        """Between half of it and all of it, so that machines that failed together do not ask again together."""
        return seconds * random.uniform(0.5, 1)
