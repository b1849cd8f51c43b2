"""What traffic can detect, compared with other simulations and with the verdict."""

from __future__ import annotations

import statistics

import pytest
import scipy
from gpu_ci.delivery.judge import Rules, judge
from gpu_ci.delivery.power import Traffic, found_in

from tests.gpu_ci.delivery.simulated import rollouts

RULES = Rules(ceiling=1)


def found(traffic: Traffic, ratio: float, minutes: int = 60) -> list[int | None]:
    return found_in(traffic, ratio, minutes, RULES.tolerance, RULES.alpha, RULES.confirmations)


def share_found(traffic: Traffic, ratio: float) -> float:
    return statistics.fmean(minute is not None for minute in found(traffic, ratio))


@pytest.mark.parametrize(
    ("traffic", "ratio"),
    [
        (Traffic(30, 0.01, 0.1), 5),
        pytest.param(Traffic(30, 0.01, 0.1), 10, marks=pytest.mark.slow),
        pytest.param(Traffic(300, 0.01, 0.1), 3, marks=pytest.mark.slow),
        pytest.param(Traffic(300, 0.01, 0.5), 2, marks=pytest.mark.slow),
        (Traffic(30000, 0.01, 0.1), 1.7),
        (Traffic(100, 0.3, 0.3), 2),
    ],
)
def test_it_is_what_the_judge_finds_in_traffic_simulated_by_numpy(traffic: Traffic, ratio: float) -> None:
    rates = (ratio * traffic.rate, traffic.rate)
    minutes = rollouts(300, 60, traffic.requests_per_minute, traffic.canary_share, rates, seed=5)
    verdicts = [judge(each, RULES) for each in minutes]
    theirs = [61 if each.reason != "errors" or each.minute is None else each.minute + 1 for each in verdicts]
    ours = [minute or 61 for minute in found(traffic, ratio)]
    assert scipy.stats.ks_2samp(ours, theirs).pvalue > 0.01


def test_the_same_traffic_has_the_same_result() -> None:
    traffic = Traffic(300, 0.01, 0.1)
    assert found(traffic, 3, minutes=10) == found(traffic, 3, minutes=10)


def test_a_worse_canary_and_more_traffic_are_found_more_often() -> None:
    by_ratio = [share_found(Traffic(100, 0.01, 0.1), ratio) for ratio in (1, 3, 10)]
    by_traffic = [share_found(Traffic(30, 0.01, 0.1), 3), by_ratio[1], share_found(Traffic(300, 0.01, 0.1), 3)]
    assert by_ratio == sorted(by_ratio)
    assert by_traffic == sorted(by_traffic)
    assert by_ratio[0] <= 0.01
    assert by_ratio[-1] > 0.9


def test_the_first_minute_is_1_and_the_last_one_counts() -> None:
    traffic = Traffic(1000, 0.01, 0.5)
    assert set(found(traffic, 50, minutes=RULES.confirmations)) == {RULES.confirmations}
    assert set(found(traffic, 50, minutes=RULES.confirmations - 1)) == {None}


def test_a_rate_above_1_is_1() -> None:
    assert found(Traffic(100, 0.5, 0.1), 2, minutes=5) == found(Traffic(100, 0.5, 0.1), 50, minutes=5)
