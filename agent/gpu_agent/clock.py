"""Time and randomness in one place, so that tests can replace them."""

from __future__ import annotations

import random
import time


class Clock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return seconds since an arbitrary start. The clock never goes back, and every deadline uses it."""
        return time.monotonic()

    def unix(self) -> float:
        """Return seconds since 1970 by the machine's clock, which may be wrong."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds."""
        time.sleep(max(seconds, 0))

    def jitter(self, seconds: float) -> float:
        """Return a random duration from half of it to all of it, so that machines that failed together do not retry
        together.
        """
        return seconds * random.uniform(0.5, 1)  # noqa: S311 - a pause, not a secret
