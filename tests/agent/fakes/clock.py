"""A fake clock that advances only during a sleep."""

from __future__ import annotations

from gpu_agent.clock import Clock


class FakeClock(Clock):
    """A clock that starts at 1,000 s. The calendar is right unless `skew_sec` puts it ahead. A jitter has its full
    length.
    """

    def __init__(self, skew_sec: float = 0) -> None:
        self.now_sec = 1_000.0
        self.skew_sec = skew_sec
        self.slept: list[float] = []

    def now(self) -> float:
        return self.now_sec

    def true_unix(self) -> float:
        """Return the time of a clock that is right."""
        return 1_800_000_000 + self.now_sec

    def unix(self) -> float:
        return self.true_unix() + self.skew_sec

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_sec += seconds

    def jitter(self, seconds: float) -> float:
        return seconds
