"""Simulated traffic of a canary and a stable model, with constant error rates or with bursts of errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gpu_ci.delivery.judge import Counts, Minute


def rollouts(
    runs: int, minutes: int, requests_per_minute: float, share: float, rates: tuple[float, float],
    *, burst: float = 0.0, burst_minutes: int = 1, seed: int = 0,
) -> Iterator[list[Minute]]:  # fmt: skip
    """Yield the minutes of rollouts.

    Args:
        runs: The number of rollouts.
        minutes: The minutes of a rollout.
        requests_per_minute: The mean number of requests of both models.
        share: The share of requests of the canary.
        rates: The error rates of the canary and of the stable model.
        burst: The coefficient of variation of gamma noise, which multiplies the error rate of each model separately.
        burst_minutes: The minutes for which a value of the noise holds.
        seed: The seed of the random numbers.
    """
    random = np.random.default_rng(seed)
    total = random.poisson(requests_per_minute, (runs, minutes))
    canary = random.binomial(total, share)
    both = np.stack([canary, total - canary])
    noise = np.ones(both.shape)
    if burst:
        values = random.gamma(burst**-2, burst**2, (2, runs, -(-minutes // burst_minutes)))
        noise = np.repeat(values, burst_minutes, axis=2)[:, :, :minutes]
    errors = random.binomial(both, np.minimum(1.0, np.array(rates)[:, None, None] * noise))
    for run in range(runs):
        columns = (each[at, run].tolist() for at in (0, 1) for each in (both, errors))
        yield [Minute(at, Counts(n, x), Counts(m, y)) for at, (n, x, m, y) in enumerate(zip(*columns, strict=True))]
