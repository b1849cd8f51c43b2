"""The verdict: the test against scipy's exact distributions, its properties, and each reason."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
import scipy
from gpu_ci.delivery.judge import FACTORS, Counts, Minute, Rules, judge, log_mean_exp, log_ratios
from hypothesis import given
from hypothesis import strategies as st

from tests.gpu_ci.delivery.simulated import rollouts

RANK = {"advance": 0, "hold": 1, "rollback": 2}
RULES = Rules(step_minutes=3, min_requests=10)


def counts(most: int = 200, requests: int = 1) -> st.SearchStrategy[Counts]:
    return st.integers(requests, most).flatmap(lambda n: st.integers(0, n).map(lambda x: Counts(n, x)))


MINUTES = st.lists(st.tuples(counts(), counts()), min_size=1, max_size=12).map(
    lambda pairs: [Minute(at, *pair) for at, pair in enumerate(pairs)]
)


def constant(canary: Counts | None, stable: Counts | None, minutes: int = 5) -> list[Minute]:
    return [Minute(at, canary, stable) for at in range(minutes)]


def share(n: int, m: int, ratio: float) -> float:
    return n * ratio / (n * ratio + m)


def added(x: int, y: int, n: int, m: int, tolerance: float = 1.5) -> list[float]:
    return log_ratios(Counts(n, x), Counts(m, y), tolerance)


# The test, compared with exact distributions.

pairs = pytest.mark.parametrize(("n", "m"), [(10, 90), (50, 50), (3, 400), (80, 20)])


@pairs
@pytest.mark.parametrize("tolerance", [1.0, 1.5, 4.0])
def test_a_ratio_is_that_of_two_binomial_probabilities(n: int, m: int, tolerance: float) -> None:
    good, *bad = (share(n, m, tolerance * factor) for factor in (1, *FACTORS))
    for k in (0, 1, 2, 7, 30):
        errors = range(k + 1)
        exact = [scipy.stats.binom.logpmf(errors, k, each) - scipy.stats.binom.logpmf(errors, k, good) for each in bad]
        for x in errors:
            assert added(x, k - x, n, m, tolerance) == pytest.approx([each[x] for each in exact], abs=1e-9)


@pairs
def test_the_evidence_never_exceeds_what_the_exact_test_allows(n: int, m: int) -> None:
    for k in (1, 5, 40, 300):
        for x in range(k + 1):
            exact = scipy.stats.binomtest(x, k, share(n, m, 1.5), alternative="greater").pvalue
            assert math.exp(-log_mean_exp(added(x, k - x, n, m))) >= exact * (1 - 1e-9)


@pairs
@pytest.mark.parametrize("stable_rate", [1e-5, 0.01, 0.2, 0.6])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5])
def test_the_mean_ratio_is_at_most_1_within_the_tolerance_at_any_error_rate(
    n: int, m: int, stable_rate: float, ratio: float
) -> None:
    """The mean over the exact distribution of errors of both models, for each factor and for the evidence."""
    chances = [
        list(enumerate(scipy.stats.binom.pmf(range(requests + 1), requests, rate).tolist()))
        for requests, rate in ((n, min(1.0, stable_rate * ratio)), (m, stable_rate))
    ]
    parts = [
        [p * q * math.exp(log) for log in [*added(x, y, n, m), log_mean_exp(added(x, y, n, m))]]
        for x, p in chances[0]
        for y, q in chances[1]
        if p * q > 1e-18
    ]
    means = [math.fsum(each) for each in zip(*parts, strict=True)]
    assert max(means) <= 1 + 1e-9
    if stable_rate == 1e-5 and ratio == 1.5:
        assert means == pytest.approx([1] * (len(FACTORS) + 1), abs=1e-3)  # the test gives nothing away


@pytest.mark.parametrize(("requests", "part"), [(100, 0.1), (1000, 0.5)])
def test_false_alarms_are_as_rare_as_promised_at_the_edge_of_the_tolerance(requests: float, part: float) -> None:
    runs, rules = 600, Rules(alpha=0.1, confirmations=1)
    alarms = sum(
        judge(minutes, rules).answer == "rollback"
        for minutes in rollouts(runs, 60, requests, part, (0.03, 0.02), seed=11)
    )
    assert 0.01 * runs < alarms <= 0.1 * runs


@pytest.mark.parametrize("requests", [30, 300, 3000])
@pytest.mark.parametrize("burst", [0.5, 1.0])
def test_bursts_of_a_minute_roll_few_good_canaries_back(requests: float, burst: float) -> None:
    runs = 400
    rolled_back = sum(
        judge(minutes, Rules()).answer == "rollback"
        for minutes in rollouts(runs, 15, requests, 0.1, (0.02, 0.02), burst=burst, seed=7)
    )
    assert rolled_back <= 0.01 * runs


@pytest.mark.parametrize(
    ("slow", "limits"),
    [(None, {"errors": 0.009, "ceiling": 0.001}), (5, {"errors": 0.0045, "slow": 0.0045, "ceiling": 0.001})],
)
def test_the_tests_divide_alpha(slow: float | None, limits: dict[str, float]) -> None:
    found = judge(constant(Counts(100, 2, slow), Counts(900, 18, slow)), Rules()).comparisons
    assert {name: each.limit for name, each in found.items()} == pytest.approx(limits)


@pytest.mark.parametrize("ceiling", [0.2, 0.5, 0.9])
def test_the_ceiling_never_exceeds_what_the_exact_test_allows(ceiling: float) -> None:
    rules = Rules(ceiling=ceiling, canary_alone=True)
    for n in (1, 10, 60):
        for x in range(n + 1):
            exact = scipy.stats.binomtest(x, n, ceiling, alternative="greater").pvalue
            assert judge([Minute(0, Counts(n, x), None)], rules).comparisons["ceiling"].p_value >= exact * (1 - 1e-9)


@pytest.mark.parametrize("requests", [30, 300])
def test_models_that_fail_equally_below_the_ceiling_stay(requests: float) -> None:
    runs = 400
    both = rollouts(runs, 60, requests, 0.1, (0.45, 0.45), seed=3)
    assert sum(judge(minutes, Rules()).answer == "rollback" for minutes in both) <= 0.001 * runs


# Properties.


@given(MINUTES, st.data())
def test_more_errors_of_the_canary_never_make_the_answer_better(minutes: list[Minute], data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(range(len(minutes))))
    canary = minutes[at].canary
    assert canary
    more = data.draw(st.integers(0, int(canary.requests - canary.errors)))
    worse = list(minutes)
    worse[at] = minutes[at]._replace(canary=canary._replace(errors=canary.errors + more))
    assert RANK[judge(minutes, RULES).answer] <= RANK[judge(worse, RULES).answer]


@given(MINUTES, st.data())
def test_more_errors_of_the_stable_model_never_make_the_answer_worse(
    minutes: list[Minute], data: st.DataObject
) -> None:
    at = data.draw(st.sampled_from(range(len(minutes))))
    stable = minutes[at].stable
    assert stable
    more = data.draw(st.integers(0, int(stable.requests - stable.errors)))
    better = list(minutes)
    better[at] = minutes[at]._replace(stable=stable._replace(errors=stable.errors + more))
    assert RANK[judge(better, RULES).answer] <= RANK[judge(minutes, RULES).answer]


@given(MINUTES)
def test_of_two_models_only_the_one_with_more_errors_has_evidence_against_it(minutes: list[Minute]) -> None:
    """With as many requests of both models, each minute is evidence against one of them at most."""
    for _, x, y in minutes:
        assert x
        assert y
        for mine, other in ((x, y), (y, x)):
            against = log_ratios(Counts(200, mine.errors), Counts(200, other.errors), 1.0)
            assert max(against) <= 0 or mine.errors > other.errors


@given(MINUTES)
def test_a_canary_no_worse_than_the_stable_model_in_any_minute_stays(minutes: list[Minute]) -> None:
    good = [
        Minute(at, x._replace(errors=min(x.errors, x.requests * y.errors / y.requests, x.requests / 2)), y)
        for at, x, y in minutes
        if x and y
    ]
    verdict = judge(good, RULES)
    assert verdict.answer != "rollback"
    assert verdict.comparisons["errors"].p_value == 1


@given(MINUTES, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(minutes: list[Minute], shuffler: random.Random) -> None:
    shuffled = list(minutes)
    shuffler.shuffle(shuffled)
    assert judge(shuffled, RULES) == judge(minutes, RULES)


@given(MINUTES, st.integers(2, 1000))
def test_only_the_share_of_requests_counts_for_the_comparison(minutes: list[Minute], times: int) -> None:
    more = [
        Minute(at, x._replace(requests=x.requests * times), y._replace(requests=y.requests * times))
        for at, x, y in minutes
        if x and y
    ]
    p_values = (judge(each, RULES).comparisons["errors"].p_value for each in (minutes, more))
    assert next(p_values) == pytest.approx(next(p_values), rel=1e-6)


@given(st.sampled_from([Counts(200, 60), Counts(200, 190)]), MINUTES)
def test_a_rollback_is_one_forever(bad: Counts, later: list[Minute]) -> None:
    first = constant(bad, Counts(200, 10), 6)
    verdict = judge(first, RULES)
    assert verdict.answer == "rollback"
    after = judge([*first, *(each._replace(minute=each.minute + 100) for each in later)], RULES)
    assert (after.answer, after.reason, after.minute) == ("rollback", verdict.reason, verdict.minute)


@given(st.lists(st.one_of(st.none(), st.just(Counts(0))), max_size=30), counts(requests=0))
def test_no_data_of_the_canary_is_a_hold(canary: list[Counts | None], stable: Counts) -> None:
    minutes = [Minute(at, each, stable) for at, each in enumerate(canary)]
    verdict = judge(minutes, RULES.model_copy(update={"max_hold_minutes": 10_000}), since=0)
    assert (verdict.answer, verdict.reason) == ("hold", "no-data")


@given(st.lists(st.one_of(st.none(), st.just(Counts(0))), max_size=30), st.integers(1, 200))
def test_no_data_of_the_stable_model_is_a_hold(stable: list[Counts | None], requests: int) -> None:
    minutes = [Minute(at, Counts(requests, requests / 2), each) for at, each in enumerate(stable)]
    verdict = judge(minutes, RULES)
    assert (verdict.answer, verdict.reason) == ("hold", "no-data")


# Reasons.

GOOD, STABLE = Counts(50, 1), Counts(450, 9)
BAD = Counts(50, 20)
CASES: dict[str, tuple[Sequence[Minute], dict[str, object], dict[str, int], str, str]] = {
    "good": (constant(GOOD, STABLE, 10), {}, {}, "advance", "within-tolerance"),
    "nothing": ([], {}, {}, "hold", "no-data"),
    "a step of 9 minutes": (constant(GOOD, STABLE, 9), {}, {}, "hold", "step-not-over"),
    "gaps do not count": (
        [*constant(GOOD, STABLE, 9), Minute(9, None, STABLE), Minute(10, GOOD, None)], {}, {}, "hold", "step-not-over",
    ),
    "a new step": (constant(GOOD, STABLE, 15), {}, {"since": 10}, "hold", "step-not-over"),
    "few requests in the step": (constant(Counts(9, 0), STABLE, 20), {}, {"since": 10}, "hold", "few-requests"),
    "enough requests": (constant(Counts(10, 0), STABLE, 10), {}, {}, "advance", "within-tolerance"),
    "metrics of the canary stopped": (
        [*constant(GOOD, STABLE, 10), Minute(25, None, STABLE)], {}, {}, "hold", "old-data",
    ),
    "a long time before the canary": (
        [Minute(0, None, STABLE), *(Minute(at, GOOD, STABLE) for at in range(70, 75))], {}, {}, "hold", "step-not-over",
    ),
    "metrics stopped": (constant(GOOD, STABLE, 10), {}, {"now": 25}, "hold", "old-data"),
    "metrics are late": (constant(GOOD, STABLE, 10), {}, {"now": 24}, "advance", "within-tolerance"),
    "more errors": (constant(BAD, STABLE, 10), {}, {}, "rollback", "errors"),
    "three terrible minutes": (
        [*constant(Counts(50, 25), STABLE, 3), *(Minute(at, GOOD, STABLE) for at in range(3, 10))], {}, {},
        "advance", "within-tolerance",
    ),
    "one confirmation": ([Minute(0, BAD, STABLE)], {"confirmations": 1}, {}, "rollback", "errors"),
    "rolled back in an earlier step": (
        [*constant(BAD, STABLE, 6), *(Minute(at, GOOD, STABLE) for at in range(6, 30))], {}, {"since": 20},
        "rollback", "errors",
    ),
    "slow": (constant(Counts(50, 1, 30), Counts(450, 9, 45)), {}, {}, "rollback", "slow"),
    "slow within its tolerance": (
        constant(Counts(50, 1, 30), Counts(450, 9, 45), 10), {"slow_tolerance": 10}, {}, "advance", "within-tolerance",
    ),
    "both fail equally": (constant(Counts(50, 24), Counts(450, 216), 10), {}, {}, "advance", "within-tolerance"),
    "both fail above the ceiling": (constant(Counts(50, 40), Counts(450, 360), 10), {}, {}, "rollback", "ceiling"),
    "the first alarm is the reason": (constant(Counts(50, 50), STABLE, 10), {}, {}, "rollback", "ceiling"),
    "no ceiling": (
        constant(Counts(50, 50), Counts(450, 450), 10), {"ceiling": 1}, {}, "advance", "within-tolerance",
    ),
    "a ceiling with 16 digits": (
        constant(Counts(50, 50), Counts(450, 450), 10), {"ceiling": 1 - 2**-53}, {}, "advance", "within-tolerance",
    ),
    "a ceiling of few requests": (constant(Counts(3, 3), None, 3), {}, {}, "hold", "no-data"),
    "a ceiling of enough requests": (constant(Counts(3, 3), None, 7), {}, {}, "rollback", "ceiling"),
    "a ceiling of one minute": (constant(Counts(500, 500), None, 1), {}, {}, "hold", "no-data"),
    "a ceiling of two minutes": (constant(Counts(500, 500), None, 2), {}, {}, "rollback", "ceiling"),
    "a minute below the ceiling": (
        [Minute(at, Counts(50, 25 if at % 2 else 26), None) for at in range(9)], {}, {}, "hold", "no-data",
    ),
    "alone": (constant(GOOD, None, 10), {"canary_alone": True}, {}, "advance", "within-tolerance"),
    "alone and bad": (constant(Counts(50, 30), None, 10), {"canary_alone": True}, {}, "rollback", "ceiling"),
    "a long hold": ([], {}, {"since": 0, "now": 70}, "hold", "max-hold"),
    "not yet a long hold": ([], {}, {"since": 0, "now": 69}, "hold", "no-data"),
    "a long hold is a rollback": ([], {"on_max_hold": "rollback"}, {"since": 0, "now": 70}, "rollback", "max-hold"),
    "few requests for long": (constant(Counts(1, 0), STABLE, 70), {}, {"now": 70}, "hold", "max-hold"),
    "enough after long": (constant(GOOD, STABLE, 90), {}, {"now": 90}, "advance", "within-tolerance"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_answer_has_its_reason(name: str) -> None:
    minutes, rules, times, answer, reason = CASES[name]
    verdict = judge(minutes, Rules.model_validate(rules), **times)
    assert (verdict.answer, verdict.reason) == (answer, reason)


def test_the_numbers_of_a_verdict_are_those_of_the_step() -> None:
    verdict = judge(constant(GOOD, STABLE, 15), Rules(), since=10)
    assert (verdict.minute, verdict.step_minutes, verdict.step_requests) == (14, 5, 250)


@pytest.mark.parametrize("confirmations", [1, 2, 4, 7])
def test_a_rollback_needs_its_confirmations_and_names_the_last(confirmations: int) -> None:
    minutes = constant(Counts(450, 225), STABLE, 20)
    assert judge(minutes, Rules(confirmations=confirmations)).minute == confirmations - 1


def test_huge_counts_do_not_overflow() -> None:
    verdict = judge(constant(Counts(1e12, 1e12), Counts(1e12, 1), 100), Rules(confirmations=1, ceiling=1))
    assert (verdict.reason, verdict.minute) == ("errors", 0)
    assert verdict.comparisons["errors"].p_value < 1e-100
