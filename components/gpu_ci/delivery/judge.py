"""Judges a canary: compares its errors and slow requests with those of the stable model, minute by minute.

The test is sequential: it may be asked after each minute, as often as wanted. The null hypothesis is that the canary is
within the tolerance T: in each minute, its error rate p is at most T times the error rate s of the stable model.

Take a minute in which the canary had n requests and x errors, and the stable model m requests and y errors. If errors
are rare and the ratio of the rates is r, x is binomial with x + y trials and the share q(r) = n r / (n r + m). The
likelihood ratio of r = fT against T is

    a^x b^y,  with  a = q(fT) / q(T) = f (n T + m) / (n f T + m)  and  b = (1 - q(fT)) / (1 - q(T)) = a / f

A minute counts for no more than the `confirmations`-th root of 1/alpha. For each factor f, these ratios of all minutes
are multiplied. The evidence is the mean of the products.

What is guaranteed: if each request fails independently of the others within its minute, and the canary is within the
tolerance, the evidence reaches 1/alpha at any time with a probability of at most alpha. Errors need not be rare:

- The mean of a^x b^y is (1 + p (a - 1))^n (1 + s (b - 1))^m, at most exp(n p (a - 1) + m s (b - 1)). With p = T s, the
  exponent is s (n T + m) (q(T) (a - 1) + (1 - q(T)) (b - 1)) = 0, and with a smaller p it is negative.
- A limit on a ratio makes its mean smaller. So the evidence is a nonnegative supermartingale that starts with 1, and
  Ville's inequality applies. Error rates and the split may change from minute to minute, and depend on earlier minutes.
- The ceiling c is a test of the same kind, with (u / c)^x ((1 - u) / (1 - c))^(n - x) for rates u above c. The mean of
  this ratio is at most 1 if the rate of the canary is at most c.
- Alpha is divided: a tenth for the ceiling, and the rest in equal parts for errors and slow requests.

What is not guaranteed: a limit on false rollbacks if errors come in bursts that hit one model only. The tolerance and
the limit of a minute exist for these, and `bench/` measures them: they hold for bursts of a minute, and not for longer
ones. Retries of clients that follow an error within a minute are such a burst. A model that answers 200 with wrong
content has no errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

FACTORS = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
"""The alternatives that the evidence compares with the tolerance, as multiples of it."""
ABOVE_CEILING = (0.2, 0.5, 0.9)
"""The alternatives of the ceiling: 0 is the ceiling, and 1 a model that fails always."""
_CEILING_CONFIRMATIONS, _CEILING_SHARE = 2, 0.1


class Rules(BaseModel):
    """The rules of a verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tolerance: float = Field(1.5, ge=1, le=100)
    """The ratio of the canary's error rate to that of the stable model that is still good."""
    slow_tolerance: float = Field(1.5, ge=1, le=100)
    """The same ratio for the rate of slow requests."""
    alpha: float = Field(0.01, gt=0, lt=0.5)
    """The highest probability that a canary within the tolerances and the ceiling is rolled back."""
    confirmations: int = Field(4, ge=1, le=60)
    """The number of bad minutes that a rollback needs at least. More of them tolerate bursts of errors."""
    ceiling: float = Field(0.5, gt=0, le=1)
    """The highest error rate of the canary, whatever the stable model does. 1 turns this off."""
    min_requests: int = Field(100, ge=1, le=10**12)
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
    """The result of one test: errors or slow requests against the stable model, or errors against the ceiling."""

    p_value: float
    """The smallest 1/evidence of all minutes, at most 1. Valid at any time."""
    limit: float
    """The p-value at which the canary is rolled back: the part of alpha of this test."""
    canary_rate: float | None
    """The rate over all minutes with requests; None without requests."""
    stable_rate: float | None
    """The same of the stable model; None for the ceiling."""
    alarm: int | None
    """The first minute in which the evidence reached 1/limit."""


class Verdict(NamedTuple):
    """The answer for one step of a rollout."""

    answer: Literal["advance", "hold", "rollback"]
    reason: Literal[
        "within-tolerance", "errors", "slow", "ceiling", "max-hold", "no-data", "old-data", "step-not-over",
        "few-requests",
    ]  # fmt: skip
    minute: int | None
    """The minute in which a rollback was decided, in minutes since 1970; otherwise the newest minute with requests."""
    step_minutes: int
    """The minutes of this step with requests of both models, or of the canary with `canary_alone`."""
    step_requests: float
    """The requests of the canary in this step."""
    comparisons: dict[str, Comparison]


def judge(minutes: Iterable[Minute], rules: Rules, since: int | None = None, now: int | None = None) -> Verdict:
    """Return the verdict on a canary. A rollback stays one, whatever the later minutes are.

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
    comparisons = _compare_all(compared, rules) | _below_ceiling(with_canary, rules)
    since = with_canary[0].minute if since is None and with_canary else since
    usable = with_canary if rules.canary_alone else compared
    in_step = [each for each in usable if since is None or each.minute >= since]
    requests = sum(each.canary.requests for each in in_step if each.canary)
    newest = with_canary[-1].minute if with_canary else None
    now = ordered[-1].minute if now is None and ordered else now

    def verdict(answer: Literal["advance", "hold", "rollback"], reason: str, minute: int | None = newest) -> Verdict:
        return Verdict(answer, reason, minute, len(in_step), requests, comparisons)  # type: ignore[arg-type]

    found = [(each.alarm, name) for name, each in comparisons.items() if each.alarm is not None]
    if found:
        minute, name = min(found)
        return verdict("rollback", name, minute)
    missing = (
        ("no-data", not in_step),
        ("old-data", bool(in_step) and now is not None and now - in_step[-1].minute > rules.max_age_minutes),
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
    if rules.canary_alone:
        return {}
    tests = {"errors": (minutes, rules.tolerance)} | ({"slow": (slow, rules.slow_tolerance)} if slow else {})
    alpha = alpha_of(rules, len(tests))
    return {
        name: compare(counted, tolerance, alpha, rules.confirmations) for name, (counted, tolerance) in tests.items()
    }


def alpha_of(rules: Rules, comparisons: int) -> float:
    """Return the part of alpha that each of some comparisons with the stable model has."""
    return rules.alpha * (1 - _CEILING_SHARE) / comparisons


def compare(minutes: Sequence[Minute], tolerance: float, alpha: float, confirmations: int) -> Comparison:
    """Return the comparison of errors, over minutes in order. `alpha` is that of this test."""
    ratios = [(m.minute, log_ratios(m.canary, m.stable, tolerance)) for m in minutes if m.canary and m.stable]
    p_value, alarm = _test(ratios, alpha, confirmations)
    return Comparison(p_value, alpha, _rate(m.canary for m in minutes), _rate(m.stable for m in minutes), alarm)


def _below_ceiling(minutes: Sequence[Minute], rules: Rules) -> dict[str, Comparison]:
    rates = [rules.ceiling + (1 - rules.ceiling) * part for part in ABOVE_CEILING]
    if max(rates) == 1:
        return {}
    logs = [(math.log(u / rules.ceiling), math.log((1 - u) / (1 - rules.ceiling))) for u in rates]
    ratios = [
        (minute, [canary.errors * bad + (canary.requests - canary.errors) * good for bad, good in logs])
        for minute, canary, _ in minutes
        if canary
    ]
    alpha = rules.alpha * _CEILING_SHARE
    p_value, alarm = _test(ratios, alpha, _CEILING_CONFIRMATIONS)
    return {"ceiling": Comparison(p_value, alpha, _rate(m.canary for m in minutes), None, alarm)}


def _test(ratios: Sequence[tuple[int, list[float]]], alpha: float, confirmations: int) -> tuple[float, int | None]:
    """Return the p-value, and the first minute in which the evidence reached 1/alpha.

    Args:
        ratios: The minutes in order, each with the logarithms of its likelihood ratios.
        alpha: The part of alpha of this test.
        confirmations: The number of minutes that 1/alpha needs at least.
    """
    limit = -math.log(alpha)
    logs, most, alarm = [0.0] * (len(ratios[0][1]) if ratios else 1), 0.0, None
    for minute, added in ratios:
        logs = [log + min(more, limit / confirmations) for log, more in zip(logs, added, strict=True)]
        most = max(most, log_mean_exp(logs))
        # A sum of `confirmations` equal parts may differ from the whole in its last digit.
        if most >= limit * (1 - 1e-9) and alarm is None:
            alarm = minute
    return math.exp(-most), alarm


def log_ratios(canary: Counts, stable: Counts, tolerance: float) -> list[float]:
    """Return the logarithm of the likelihood ratio of a minute, for each factor."""
    errors = canary.errors + stable.errors
    expected = canary.requests * tolerance
    return [
        canary.errors * math.log(factor)
        + errors * math.log((expected + stable.requests) / (expected * factor + stable.requests))
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
