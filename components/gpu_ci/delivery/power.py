"""Computes how soon the judge finds a bad canary with the given traffic, before the rollout.

The errors of both models are a sequence in which each is one of the canary with the same probability. The evidence of
the judge depends only on how many of the first k errors are of the canary. So the distribution of the number k at which
the evidence reaches the limit is computed exactly, error by error. How many errors have come after some minutes has a
Poisson distribution.

Differences from the judge: the judge looks at the end of a minute, and its confirmations are counted here as minutes
that pass after the first alarm. A minute weighs what a mean minute weighs. Error rates are constant, without bursts. A
test compares the results with simulations of the judge: they differ by less than 0.06.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from gpu_ci.delivery.judge import Counts, Rules, log_mean_exp, log_ratios

_MOST_ERRORS = 200.0
"""Errors per minute. More of them are computed as this number, which finds a bad canary no sooner."""
_NEGLIGIBLE = 1e-12


class Traffic(NamedTuple):
    """The traffic of an endpoint."""

    requests_per_minute: float
    rate: float
    """The share of requests of the stable model that are errors, or slow."""
    canary_share: float
    """The share of requests that the canary gets, 0 to 1."""


def found_by_minute(
    traffic: Traffic, ratio: float, tolerance: float, alpha: float, rules: Rules, minutes: int
) -> list[float]:
    """Return the probability that a canary is rolled back until the end of each minute, from the first minute on.

    Args:
        traffic: The traffic.
        ratio: The error rate of the canary, as a multiple of that of the stable model.
        tolerance: The tolerance of the test.
        alpha: The alpha of the test.
        rules: The other rules.
        minutes: The number of minutes.
    """
    requests, rate, share = traffic
    canary, stable = (Counts(requests * each) for each in (share, 1 - share))
    of_canary, of_stable = canary.requests * min(1.0, rate * ratio), stable.requests * rate
    per_minute = of_canary + of_stable
    weight = min(1.0, rules.most_per_minute / per_minute)
    if per_minute > _MOST_ERRORS:
        per_minute, weight = _MOST_ERRORS, rules.most_per_minute / _MOST_ERRORS
    kinds = ((canary, stable._replace(errors=1)), (canary._replace(errors=1), stable))
    steps = [[weight * log for log in log_ratios(*kind, tolerance, most_per_minute=1)] for kind in kinds]
    looks = max(0, minutes - rules.confirmations + 1)
    events = math.ceil(_window(per_minute * looks)[1])
    reached = [0.0, *_reached(of_canary / (of_canary + of_stable), steps, -math.log(alpha), events)]
    found = [_expected(reached, per_minute * (minute + 1)) for minute in range(looks)]
    return [0.0] * (minutes - looks) + found


def _window(mean: float) -> tuple[int, float]:
    """Return the numbers between which a Poisson number lies, but for a negligible probability."""
    width = 8 * math.sqrt(mean) + 8
    return max(0, math.floor(mean - width)), mean + width


def _expected(reached: list[float], mean: float) -> float:
    """Return the mean of `reached` at a Poisson number of errors."""
    first, last = _window(mean)
    return min(1.0, math.fsum(
        reached[min(k, len(reached) - 1)] * math.exp(k * math.log(mean) - mean - math.lgamma(k + 1))
        for k in range(first, math.floor(last) + 1)
    ))  # fmt: skip


def _reached(share: float, steps: list[list[float]], limit: float, events: int) -> Iterator[float]:
    """Yield the probability that the evidence has reached the limit, after each error.

    Args:
        share: The probability that an error is one of the canary.
        steps: What an error of the stable model, and one of the canary, adds to the logarithm for each factor.
        limit: The logarithm of the limit.
        events: The number of errors.
    """
    low, alive, done, boundary = (
        0,
        [1.0],
        0.0,
        0,
    )  # alive[i]: the limit is not reached, with low + i errors of the canary
    for k in range(1, events + 1):
        while boundary <= k and _evidence(boundary, k, steps) < limit:
            boundary += 1
        alive = [stays * (1 - share) + comes * share for stays, comes in zip([*alive, 0.0], [0.0, *alive], strict=True)]
        while low + len(alive) > boundary:
            done += alive.pop()
        while len(alive) > 1 and alive[0] < _NEGLIGIBLE:
            low += 1
            del alive[0]
        while len(alive) > 1 and alive[-1] < _NEGLIGIBLE:
            alive.pop()
        if not alive:
            alive = [0.0]
        yield done


def _evidence(of_canary: int, errors: int, steps: list[list[float]]) -> float:
    return log_mean_exp([
        (errors - of_canary) * other + of_canary * mine for other, mine in zip(*steps, strict=True)
    ])  # fmt: skip
