"""Simulates how soon the judge finds a bad canary with the given traffic, before the rollout.

Error rates are constant, requests arrive independently, and there are no bursts. The random numbers are the same in
each call, so the same traffic has the same result. With 400 simulated rollouts, a probability is off by 0.05 at most in
19 of 20 cases.
"""

from __future__ import annotations

import math
from random import Random
from typing import NamedTuple

from gpu_ci.delivery.judge import Counts, Minute, compare

RUNS = 400
_LARGE = 50.0
"""The mean from which on a Poisson number is drawn as a normal one."""


class Traffic(NamedTuple):
    """The traffic of an endpoint."""

    requests_per_minute: float
    rate: float
    """The share of requests of the stable model that are errors, or slow."""
    canary_share: float
    """The share of requests that the canary gets, 0 to 1."""


def found_in(
    traffic: Traffic, ratio: float, minutes: int, tolerance: float, alpha: float, confirmations: int
) -> list[int | None]:
    """Return the minute in which the judge rolls the canary back in each simulated rollout, from 1; None for never.

    Args:
        traffic: The traffic.
        ratio: The error rate of the canary, as a multiple of that of the stable model. The rate is at most 1.
        minutes: The length of a rollout.
        tolerance: The tolerance of the test.
        alpha: The alpha of the test.
        confirmations: The confirmations of the test.
    """
    random = Random(0)  # noqa: S311 - a simulation
    requests, rate, share = traffic
    models = ((requests * share, min(1.0, rate * ratio)), (requests * (1 - share), rate))
    return [
        compare(
            [Minute(at, *(_counts(*model, random) for model in models)) for at in range(1, minutes + 1)],
            tolerance, alpha, confirmations,
        ).alarm
        for _ in range(RUNS)
    ]  # fmt: skip


def _counts(requests: float, rate: float, random: Random) -> Counts:
    errors = _poisson(requests * rate, random)
    return Counts(errors + _poisson(requests * (1 - rate), random), errors)


def _poisson(mean: float, random: Random) -> int:
    """Return a Poisson number."""
    if mean > _LARGE:
        return max(0, round(random.gauss(mean, math.sqrt(mean))))
    number, left, chance = 0, random.random(), math.exp(-mean)
    while left > chance:
        left -= chance
        number += 1
        chance *= mean / number
        if chance < 1e-300:  # the rest of the sum is less than the last digit of `left`
            break
    return number
