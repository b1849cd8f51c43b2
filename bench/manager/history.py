"""Jobs of a week of CI, and the zones that have machines, both from a seed.

We chose the parameters of the jobs, because we found no public record of GPU jobs. The availability of zones has the
shares, outages and correlations of skypilot-org/spot-traces@221da1a (availability/1-node/aws-02-15-2023: nine zones of
AWS, 45 days, one V100). That repository has no licence file, so no recording is included.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from gpu_catalog.locations import region_of

STEP_SEC = 195.0
_PUSHES_A_DAY = (40.0,) * 5 + (8.0,) * 2
# The weight of each hour (UTC) in a day's pushes, the jobs of a push (a matrix), and the length of a job: half are
# shorter than 12 minutes, and one in twenty is longer than an hour.
_HOURS = (1, 1, 3, 1, 1, 1, 2, 4, 8, 10, 11, 9, 6, 8, 10, 11, 9, 7, 5, 3, 2, 2, 1, 1)
_JOBS = (1, 1, 2, 2, 3, 4)
_MEDIAN_SEC, _SPREAD, _LONGEST_SEC = 720.0, 1.0, 6 * 3600.0
# A newer push cancels the jobs of an earlier push within 15 minutes.
_CANCELLED_SHARE, _CANCELLED_WITHIN_SEC = 0.08, 900.0

# The share of time in which each recorded zone had spot machines. The regions have Google's names, for prices.
SHARES: Mapping[str, float] = {
    "us-east1-b": 0.47, "us-east1-c": 0.45, "us-east1-d": 0.59, "us-east1-a": 0.17, "us-west1-a": 0.76,
    "us-west1-b": 0.68, "us-central1-a": 0.88, "us-central1-b": 0.90, "us-central1-c": 0.89,
}  # fmt: skip
# An assumption, because we found no recording of standard capacity.
_STANDARD_SHARE = 0.97
# The load of a zone is a sum of noise with these time constants in hours and shares of variance. All zones, and the
# zones of a region, have a share of it in common.
_NOISE = ((1.5, 0.4), (8.0, 0.3), (60.0, 0.3))
_ALL, _REGION, _HYSTERESIS = 0.15, 0.5, 0.2


@dataclass(frozen=True)
class Arrival:
    """One job as GitHub queues it. Times are seconds since the first minute of a Monday."""

    number: int
    created: float
    duration_sec: float
    cancelled_after_sec: float | None = None


class Place(NamedTuple):
    """A zone and a market in which machines are requested."""

    zone: str
    market: str

    @property
    def region(self) -> str:
        return region_of(self.zone)


@dataclass(frozen=True)
class Series:
    """The availability of a place, step by step. A place has any number of machines, or none."""

    up: Sequence[bool]
    step_sec: float = STEP_SEC

    def at(self, now: float) -> bool:
        return self.up[min(int(now / self.step_sec), len(self.up) - 1)]

    def outages(self) -> Iterator[float]:
        """Yield the start of each outage."""
        return (step * self.step_sec for step in range(1, len(self.up)) if self.up[step - 1] and not self.up[step])


def jobs(seed: int, days: int) -> tuple[Arrival, ...]:
    """Return the jobs of this number of days."""
    noise, found = random.Random(f"{seed} jobs"), list[Arrival]()
    for hour in range(24 * days):
        mean, second = _PUSHES_A_DAY[hour // 24 % 7] * _HOURS[hour % 24] / sum(_HOURS), 0.0
        while (second := second + noise.expovariate(mean / 3600.0)) < 3600.0:
            cancelled = noise.uniform(0, _CANCELLED_WITHIN_SEC) if noise.random() < _CANCELLED_SHARE else None
            for _ in range(noise.choice(_JOBS)):
                length = min(_MEDIAN_SEC * math.exp(noise.gauss(0, _SPREAD)), _LONGEST_SEC)
                found.append(Arrival(len(found) + 1, hour * 3600.0 + second, length, cancelled))
    return tuple(found)


def zones(seed: int, days: float) -> dict[Place, Series]:
    """Return series for the spot and standard machines of nine zones."""
    found = {}
    for market in ("spot", "standard"):
        noise, count = random.Random(f"{seed} {market}"), math.ceil(days * 86400 / STEP_SEC)
        common = _load(noise, count)
        regions = {region: _load(noise, count) for region in sorted({region_of(zone) for zone in SHARES})}
        for zone, spot_share in SHARES.items():
            share = spot_share if market == "spot" else _STANDARD_SHARE
            weights = (math.sqrt(_ALL), math.sqrt(_REGION), math.sqrt(1 - _ALL - _REGION))
            threshold, state, up = NormalDist().inv_cdf(1 - share), share > 0.5, []
            for values in zip(common, regions[region_of(zone)], _load(noise, count), strict=True):
                level = sum(weight * value for weight, value in zip(weights, values, strict=True))
                state = level > threshold + (-_HYSTERESIS if state else _HYSTERESIS)
                up.append(state)
            found[Place(zone, market)] = Series(up)
    return found


def _load(noise: random.Random, count: int) -> list[float]:
    """Return a sum of Ornstein-Uhlenbeck processes of several speeds with a total variance of 1."""
    total = [0.0] * count
    for hours, share in _NOISE:
        decay, value = math.exp(-STEP_SEC / 3600 / hours), noise.gauss(0, 1)
        for step in range(count):
            total[step] += math.sqrt(share) * value
            value = decay * value + math.sqrt(1 - decay * decay) * noise.gauss(0, 1)
    return total
