"""Judges a canary: compares its errors and slow requests with those of the stable model, minute by minute.

The test is sequential: it may be asked after each minute, as often as wanted. The null hypothesis is that the canary is
within the tolerance T: in each minute, the odds of an error (rate / (1 - rate)) of the canary are at most T times those
of the stable model. For small rates, this ratio of odds is the ratio of rates.

Take a minute with k errors, x of them of the canary, which had n of the requests, and the stable model m. If the ratio
of odds is r and errors are rare, x is binomial with k trials and the share q(r) = n r / (n r + m). The likelihood ratio
of r = fT against T is

    (q(fT) / q(T))^x  ((1 - q(fT)) / (1 - q(T)))^(k - x)  =  f^x ((n T + m) / (n f T + m))^k

For each factor f, the ratios of all minutes are multiplied. The evidence is the mean of these products.

What is guaranteed: if the requests of a model fail independently and with one probability within a minute, and the
canary is within the tolerance, the evidence reaches 1/alpha at any time with a probability of at most alpha.
- Given k, x has Fisher's noncentral hypergeometric distribution, not a binomial one. It is a sum of independent
  indicators with a mean of at most k q(T), so the mean of the likelihood ratio is at most 1.
- A minute with more than `most_per_minute` errors is weighted: its ratio is raised to a power below 1. The mean of a
  power is at most that power of the mean (Jensen), so it is at most 1, too.
- So the evidence is a nonnegative supermartingale, to which Ville's inequality applies. Error rates and the split may
  change from minute to minute, and depend on earlier minutes.
- With errors and slow requests, each of the two tests has alpha/2.

What is not guaranteed: a limit on false rollbacks if errors come in bursts that hit one model only. The weight, the
tolerance and the confirmations exist for these, and `bench/` measures them. Retries of clients that follow an error
within a minute are such a burst. The ceiling is a fixed rule, and not part of alpha. A model that answers 200 with
wrong content has no errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

FACTORS = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
"""The alternatives that the evidence compares with the tolerance, as multiples of it."""
CEILING_REQUESTS = 20
"""The fewest requests of the minutes above the ceiling. A few requests say little about a rate."""


class Rules(BaseModel):
    """The rules of a verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tolerance: float = Field(1.5, ge=1, le=100)
    """The ratio of the canary's error rate to that of the stable model that is still good."""
    slow_tolerance: float = Field(1.5, ge=1, le=100)
    """The same ratio for the rate of slow requests."""
    alpha: float = Field(0.01, gt=0, lt=0.5)
    """The highest probability that a canary within the tolerance is rolled back because of the comparison."""
    confirmations: int = Field(2, ge=1, le=60)
    """The number of minutes in a row that must agree on a rollback."""
    most_per_minute: float = Field(20, gt=0, allow_inf_nan=False)
    """The number of errors, or of slow requests, for which a minute counts at most."""
    ceiling: float = Field(0.5, gt=0, le=1)
    """The error rate of the canary above which it is rolled back, whatever the stable model does. 1 turns this off."""
    min_requests: int = Field(100, ge=1)
    """The fewest requests of the canary before the next step."""
    step_minutes: int = Field(10, ge=1, le=7 * 24 * 60)
    """The fewest minutes with requests of both models before the next step."""
    max_hold_minutes: int = Field(60, ge=0)
    """The longest time that a step may last above --step-minutes."""
    max_age_minutes: int = Field(15, ge=1)
    """The age of the newest minute with requests from which on there is no next step."""
    on_max_hold: Literal["pause", "rollback"] = "pause"
    """The answer after the longest time: pause (hold, with the reason max-hold) or rollback."""
    canary_alone: bool = False
    """The canary has all traffic: compare nothing, and judge by the ceiling alone."""


class Counts(NamedTuple):
    """The requests of one model in one minute."""

    requests: float
    errors: float = 0
    slow: float | None = None
    """The requests slower than a limit; None if latency is not judged."""


class Minute(NamedTuple):
    """A minute, in minutes since 1970. A model without data is None."""

    minute: int
    canary: Counts | None
    stable: Counts | None


class Comparison(NamedTuple):
    """The result of one test: errors or slow requests."""

    p_value: float
    """The smallest 1/evidence of all minutes, at most 1. Valid at any time."""
    limit: float
    """The p-value at which the canary is rolled back."""
    canary_rate: float | None
    """The rate over all minutes with requests; None without requests."""
    stable_rate: float | None
    is_over: bool
    """True if the newest evidence reaches the limit."""
    alarm: int | None
    """The first minute that confirmed an alarm."""


class Verdict(NamedTuple):
    """The answer for one step of a rollout."""

    answer: Literal["advance", "hold", "rollback"]
    reason: Literal[
        "within-tolerance", "errors", "slow", "ceiling", "max-hold", "no-data", "old-data", "step-not-over",
        "few-requests", "unconfirmed",
    ]  # fmt: skip
    minute: int | None
    """The minute in which a rollback was decided, in minutes since 1970; otherwise the newest minute with requests."""
    step_minutes: int
    """The minutes of this step with requests of both models, or of the canary with `canary_alone`."""
    step_requests: float
    """The requests of the canary in this step."""
    comparisons: dict[str, Comparison]


def judge(minutes: Iterable[Minute], rules: Rules, since: int | None = None, now: int | None = None) -> Verdict:
    """Return the verdict on a canary. It is a rollback forever once a minute has confirmed one.

    Args:
        minutes: All minutes since the canary got traffic, in any order, each once. With the minutes of one step only,
            alpha applies to each step, not to the rollout.
        rules: The rules.
        since: The first minute of this step; by default the first minute with requests of the canary.
        now: The current minute, for the ages of the data and of the step; by default the newest minute.
    """
    ordered = sorted(minutes, key=lambda each: each.minute)
    with_canary = [each for each in ordered if each.canary and each.canary.requests > 0]
    compared = [each for each in with_canary if each.stable and each.stable.requests > 0]
    comparisons = {} if rules.canary_alone else _compare_all(compared, rules)
    since = with_canary[0].minute if since is None and with_canary else since
    usable = with_canary if rules.canary_alone else compared
    in_step = [each for each in usable if since is None or each.minute >= since]
    requests = sum(each.canary.requests for each in in_step if each.canary)
    newest = with_canary[-1].minute if with_canary else None
    now = ordered[-1].minute if now is None and ordered else now

    def verdict(answer: Literal["advance", "hold", "rollback"], reason: str, minute: int | None = newest) -> Verdict:
        return Verdict(answer, reason, minute, len(in_step), requests, comparisons)  # type: ignore[arg-type]

    alarms = {name: each.alarm for name, each in comparisons.items()} | {"ceiling": _ceiling(with_canary, rules)}
    found = [(minute, name) for name, minute in alarms.items() if minute is not None]
    if found:
        minute, name = min(found)
        return verdict("rollback", name, minute)
    missing = (
        ("no-data", not in_step),
        ("old-data", bool(in_step) and now is not None and now - in_step[-1].minute > rules.max_age_minutes),
        ("unconfirmed", any(each.is_over for each in comparisons.values())),
        ("step-not-over", len(in_step) < rules.step_minutes),
        ("few-requests", requests < rules.min_requests),
    )
    reason = next((name for name, is_missing in missing if is_missing), None)
    if reason is None:
        return verdict("advance", "within-tolerance")
    if since is not None and now is not None and now - since >= rules.step_minutes + rules.max_hold_minutes:
        return verdict("rollback" if rules.on_max_hold == "rollback" else "hold", "max-hold")
    return verdict("hold", reason)


def _compare_all(minutes: Sequence[Minute], rules: Rules) -> dict[str, Comparison]:
    """Return the comparison of errors and, if the minutes have them, of slow requests."""
    slow = [
        Minute(minute, canary._replace(errors=canary.slow), stable._replace(errors=stable.slow))
        for minute, canary, stable in minutes
        if canary and stable and canary.slow is not None and stable.slow is not None
    ]
    tests = {"errors": (minutes, rules.tolerance)} | ({"slow": (slow, rules.slow_tolerance)} if slow else {})
    alpha = rules.alpha / len(tests)
    return {name: _compare(counted, tolerance, alpha, rules) for name, (counted, tolerance) in tests.items()}


def _compare(minutes: Sequence[Minute], tolerance: float, alpha: float, rules: Rules) -> Comparison:
    """Return the comparison of one count, over minutes in order."""
    logs = [0.0] * len(FACTORS)
    limit, now, most, in_a_row, alarm = -math.log(alpha), 0.0, 0.0, 0, None
    for minute, canary, stable in minutes:
        if not canary or not stable or not canary.errors + stable.errors:
            continue  # a minute without errors does not change the evidence, and confirms nothing
        added = log_ratios(canary, stable, tolerance, rules.most_per_minute)
        logs = [log + more for log, more in zip(logs, added, strict=True)]
        now = log_mean_exp(logs)
        most = max(most, now)
        in_a_row = in_a_row + 1 if now >= limit else 0
        if in_a_row >= rules.confirmations and alarm is None:
            alarm = minute
    canary_rate, stable_rate = _rate(each.canary for each in minutes), _rate(each.stable for each in minutes)
    return Comparison(math.exp(-most), alpha, canary_rate, stable_rate, now >= limit, alarm)


def log_ratios(canary: Counts, stable: Counts, tolerance: float, most_per_minute: float) -> list[float]:
    """Return the logarithm of the weighted likelihood ratio of a minute with errors, for each factor."""
    errors = canary.errors + stable.errors
    expected = canary.requests * tolerance
    weight = min(1.0, most_per_minute / errors)
    return [
        weight
        * (
            canary.errors * math.log(factor)
            + errors * math.log((expected + stable.requests) / (expected * factor + stable.requests))
        )
        for factor in FACTORS
    ]


def log_mean_exp(logs: Sequence[float]) -> float:
    """Return the logarithm of the mean of values, from their logarithms, without overflow."""
    most = max(logs)
    return most + math.log(math.fsum(math.exp(log - most) for log in logs) / len(logs))


def _rate(counts: Iterable[Counts | None]) -> float | None:
    found = [each for each in counts if each]
    requests = math.fsum(each.requests for each in found)
    return math.fsum(each.errors for each in found) / requests if requests else None


def _ceiling(minutes: Sequence[Minute], rules: Rules) -> int | None:
    """Return the first minute that ends enough minutes and requests in a row with an error rate above the ceiling."""
    in_a_row, requests = 0, 0.0
    for minute, canary, _ in minutes:
        if canary and canary.errors > rules.ceiling * canary.requests:
            in_a_row, requests = in_a_row + 1, requests + canary.requests
            if in_a_row >= rules.confirmations and requests >= CEILING_REQUESTS:
                return minute
        else:
            in_a_row, requests = 0, 0.0
    return None
