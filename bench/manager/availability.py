"""Availability of machines in a zone: recorded spot availability, or synthetic series with the same statistics.

The recordings are skypilot-org/spot-traces@221da1a, availability/1-node/aws-02-15-2023: nine zones of AWS, 45 days, one
V100, a value each 195 s. The repository has no licence file, so no recording is included here. `synthetic` generates
series with the availability, outages and correlation between zones that were measured in the recordings:

| | recorded | synthetic, seed 1 |
|---|---|---|
| times with machines | 17 to 90 % | 18 to 88 % |
| median outage | 0.4 to 0.7 h | 0.3 to 1.0 h |
| 90th percentile of outages | 1.8 to 11 h | 1.3 to 10 h |
| longest outage of a zone | 7 to 80 h | 4 to 116 h |
| median time between outages | 0.3 to 1.4 h | 0.4 to 1.1 h |
| correlation of two zones of a region | 0.25 to 0.59 | 0.32 to 0.52 |
| correlation of zones of two regions | 0.03 to 0.27 | -0.04 to 0.23 |
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from gpu_catalog.locations import region_of

STEP_SEC = 195.0


class Place(NamedTuple):
    """A place where machines are requested, with the market."""

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
        """Return the start of each outage."""
        for step in range(1, len(self.up)):
            if self.up[step - 1] and not self.up[step]:
                yield step * self.step_sec

    @property
    def share(self) -> float:
        return sum(self.up) / len(self.up)


# The nine zones of the recordings, with the share of time in which each had machines. The regions have Google's names,
# so that prices and zones are in the catalog. The mapping of shares to regions does not matter.
SHARES: Mapping[str, float] = {
    "us-east1-b": 0.47, "us-east1-c": 0.45, "us-east1-d": 0.59, "us-east1-a": 0.17,
    "us-west1-a": 0.76, "us-west1-b": 0.68,
    "us-central1-a": 0.88, "us-central1-b": 0.90, "us-central1-c": 0.89,
}  # fmt: skip
_RECORDED = {
    "us-east1-a": "us-east-1a", "us-east1-b": "us-east-1c", "us-east1-c": "us-east-1d", "us-east1-d": "us-east-1f",
    "us-west1-a": "us-east-2a", "us-west1-b": "us-east-2b",
    "us-central1-a": "us-west-2a", "us-central1-b": "us-west-2b", "us-central1-c": "us-west-2c",
}  # fmt: skip
# We found no recording of standard capacity. Our assumption: a zone lacks it 3 % of the time.
_STANDARD_SHARE = 0.97

# The hidden load of a zone is a sum of noise processes with these time constants in hours and shares of variance.
_HOURS = ((1.5, 0.4), (8.0, 0.3), (60.0, 0.3))
# The shares of variance that all zones have in common, and that the zones of a region have in common.
_ALL, _REGION = 0.15, 0.5
# An outage begins below the threshold minus this value and ends above it plus this value, in standard deviations.
_HYSTERESIS = 0.2


def synthetic(seed: int, days: float) -> dict[Place, Series]:
    """Return series for the spot and standard machines of nine zones. The same seed gives the same series."""
    return _zones(f"{seed} spot", days, SHARES, "spot") | _zones(
        f"{seed} standard", days, dict.fromkeys(SHARES, _STANDARD_SHARE), "standard"
    )


def recorded(folder: Path, days: float, offset: int, seed: int) -> dict[Place, Series]:
    """Return the recordings of spot machines from day `offset` on, with synthetic standard machines.

    `folder` is availability/1-node/aws-02-15-2023 of skypilot-org/spot-traces.
    """
    found = {}
    for zone, name in _RECORDED.items():
        content = json.loads((folder / f"{name}_v100_1.json").read_text())
        step_sec = float(content["metadata"]["gap_seconds"])
        first, count = int(offset * 86400 / step_sec), math.ceil(days * 86400 / step_sec)
        values = [value > 0 for value in content["data"][first : first + count]]
        if len(values) < count:
            raise SystemExit(f"{folder}: {name} has {len(values)} of the {count} values from day {offset} on")
        found[Place(zone, "spot")] = Series(values, step_sec)
    return found | _zones(f"{seed} standard", days, dict.fromkeys(SHARES, _STANDARD_SHARE), "standard")


def _zones(seed: str, days: float, shares: Mapping[str, float], market: str) -> dict[Place, Series]:
    noise, count = random.Random(seed), math.ceil(days * 86400 / STEP_SEC)
    common = _load(noise, count)
    regions = {region: _load(noise, count) for region in sorted({Place(zone, market).region for zone in shares})}
    found = {}
    for zone, share in shares.items():
        place = Place(zone, market)
        parts = zip(common, regions[place.region], _load(noise, count), strict=True)
        weights = (math.sqrt(_ALL), math.sqrt(_REGION), math.sqrt(1 - _ALL - _REGION))
        threshold, state, up = NormalDist().inv_cdf(1 - share), share > 0.5, []
        for values in parts:
            level = sum(weight * value for weight, value in zip(weights, values, strict=True))
            state = level > threshold + (-_HYSTERESIS if state else _HYSTERESIS)
            up.append(state)
        found[place] = Series(up)
    return found


def _load(noise: random.Random, count: int) -> list[float]:
    """Return a sum of Ornstein-Uhlenbeck processes of several speeds with a total variance of 1."""
    total = [0.0] * count
    for hours, share in _HOURS:
        decay = math.exp(-STEP_SEC / 3600 / hours)
        new_noise, weight, value = math.sqrt(1 - decay * decay), math.sqrt(share), noise.gauss(0, 1)
        for step in range(count):
            total[step] += weight * value
            value = decay * value + new_noise * noise.gauss(0, 1)
    return total
