"""Generates the GPU jobs of a week of CI. We chose the parameters, because we found no public record of such jobs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

PUSHES_A_WEEKDAY, PUSHES_A_WEEKEND_DAY = 40.0, 8.0
# The weight of each hour (UTC) in a day's pushes: a working day with lunch, and a nightly run. The team is in one time
# zone.
_HOURS = (1, 1, 3, 1, 1, 1, 2, 4, 8, 10, 11, 9, 6, 8, 10, 11, 9, 7, 5, 3, 2, 2, 1, 1)
# The numbers of GPU jobs of one push (a matrix).
_JOBS = (1, 1, 2, 2, 3, 4)
# Half of the jobs are shorter than 12 minutes, and one in twenty is longer than an hour.
_MEDIAN_SEC, _SPREAD = 720.0, 1.0
_LONGEST_SEC = 6 * 3600.0
# A newer push cancels the jobs of an earlier push within 15 minutes.
_CANCELLED_SHARE, _CANCELLED_WITHIN_SEC = 0.08, 900.0


@dataclass(frozen=True)
class Arrival:
    """One job as GitHub queues it."""

    number: int
    created: float
    """Seconds since the start of the history, which is the first minute of a Monday."""
    duration_sec: float
    cancelled_after_sec: float | None = None


def week(seed: int, days: int) -> tuple[Arrival, ...]:
    """Return the jobs of this number of days. The same seed gives the same jobs."""
    noise = random.Random(f"{seed} jobs")
    found: list[Arrival] = []
    for day in range(days):
        pushes = PUSHES_A_WEEKEND_DAY if day % 7 > 4 else PUSHES_A_WEEKDAY
        for hour, share in enumerate(_HOURS):
            for second in _poisson_times(noise, pushes * share / sum(_HOURS), 3600.0):
                created = day * 86400.0 + hour * 3600.0 + second
                cancelled = noise.uniform(0, _CANCELLED_WITHIN_SEC) if noise.random() < _CANCELLED_SHARE else None
                for _ in range(noise.choice(_JOBS)):
                    length = min(_MEDIAN_SEC * math.exp(noise.gauss(0, _SPREAD)), _LONGEST_SEC)
                    found.append(Arrival(len(found) + 1, created, length, cancelled))
    return tuple(found)


def _poisson_times(noise: random.Random, mean: float, within_sec: float) -> list[float]:
    found, now = [], 0.0
    while mean > 0:
        now += noise.expovariate(mean / within_sec)
        if now >= within_sec:
            break
        found.append(now)
    return found
