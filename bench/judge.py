"""Compare rules for a canary on simulated rollouts: `make bench ARGS="--only judge"`.

A rollout has 15 minutes, and the canary has 10 % of the requests. Bursts multiply the error rate of each model
separately by gamma noise with a mean of 1.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpu_ci.delivery.judge import Minute, Rules, judge
from rich.console import Console
from rich.table import Table

from tests.gpu_ci.delivery.simulated import rollouts

_MINUTES, _SHARE = 15, 0.1
_RULES = Rules()


@dataclass(frozen=True)
class Case:
    """A canary, a stable model and their traffic."""

    name: str
    requests_per_sec: Sequence[float]
    rates: tuple[float, float]
    """The error rates of the canary and of the stable model."""
    burst: float = 0.0
    burst_minutes: int = 1

    def simulated(self, runs: int) -> Iterator[list[Minute]]:
        for at, requests in enumerate(self.requests_per_sec):
            yield from rollouts(
                runs, _MINUTES, requests * 60, _SHARE, self.rates,
                burst=self.burst, burst_minutes=self.burst_minutes, seed=at + 1,
            )  # fmt: skip


_ALL = (0.5, 5, 50)
CASES = {
    "Equal models: each rollback is false": [
        Case("1 %, 0.5 requests/s", (0.5,), (0.01, 0.01)),
        Case("1 %, 50 requests/s", (50,), (0.01, 0.01)),
        Case("both at 8 %", _ALL, (0.08, 0.08)),
        Case("both at 40 %", _ALL, (0.4, 0.4)),
        Case("2 %, bursts of 1 minute, variation 0.5", _ALL, (0.02, 0.02), 0.5),
        Case("2 %, bursts of 1 minute, variation 1", _ALL, (0.02, 0.02), 1.0),
        Case("2 %, bursts of 5 minutes, variation 0.5", _ALL, (0.02, 0.02), 0.5, 5),
        Case("2 %, bursts of 5 minutes, variation 1", _ALL, (0.02, 0.02), 1.0, 5),
    ],
    "Bad canaries: each rollback is right": [
        Case("1 % to 3 %, 50 requests/s", (50,), (0.03, 0.01)),
        Case("0.1 % to 2 %, 50 requests/s", (50,), (0.02, 0.001)),
        Case("1 % to 3 %, with bursts of 1 minute, variation 0.5", (50,), (0.03, 0.01), 0.5),
        Case("1 % to 50 %, 0.5 requests/s", (0.5,), (0.5, 0.01)),
    ],
}


def _above_5_percent_at_the_end(minutes: Sequence[Minute]) -> int | None:
    canary = [each.canary for each in minutes if each.canary]
    return len(minutes) if sum(each.errors for each in canary) > 0.05 * sum(each.requests for each in canary) else None


def _above_5_percent_in_a_minute(minutes: Sequence[Minute]) -> int | None:
    return next(
        (at for at, m in enumerate(minutes, 1) if m.canary and m.canary.errors > 0.05 * m.canary.requests), None
    )


def _z_test_each_minute(minutes: Sequence[Minute]) -> int | None:
    """Two proportions, pooled, one-sided, over all minutes so far, with p below 5 %."""
    x = n = y = m = 0.0
    for at, (_, canary, stable) in enumerate(minutes, 1):
        if canary and stable:
            x, n, y, m = x + canary.errors, n + canary.requests, y + stable.errors, m + stable.requests
        if n and m and 0 < x + y < n + m:
            pooled = (x + y) / (n + m)
            z = (x / n - y / m) / math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
            if statistics.NormalDist().cdf(-z) < 0.05:
                return at
    return None


def _judge(minutes: Sequence[Minute]) -> int | None:
    verdict = judge(minutes, _RULES)
    return verdict.minute + 1 if verdict.answer == "rollback" and verdict.minute is not None else None


POLICIES: dict[str, Callable[[Sequence[Minute]], int | None]] = {
    "> 5 % at the end": _above_5_percent_at_the_end,
    "> 5 % in a minute": _above_5_percent_in_a_minute,
    "z-test each minute": _z_test_each_minute,
    "gpu-ci deploy judge": _judge,
}


def bench_judge(runs: int, console: Console) -> None:
    """Print the share of rollouts that each rule rolls back, and the mean minute of the rollback."""
    for title, cases in CASES.items():
        table = Table("", *POLICIES, title=f"{title}; {runs:,} rollouts for each traffic")
        for case in cases:
            found = [list(map(rule, case.simulated(runs))) for rule in POLICIES.values()]
            table.add_row(case.name, *map(_cell, found))
        console.print(table)


def _cell(found: Sequence[int | None]) -> str:
    minutes = [minute for minute in found if minute is not None]
    share = f"{len(minutes) / len(found):.1%}"
    return f"{share}, {statistics.fmean(minutes):.1f} min" if minutes else share
