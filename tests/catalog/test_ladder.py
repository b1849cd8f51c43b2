"""Capacity ladders: the checks of a ladder, and the default ladder of a machine."""

from __future__ import annotations

from typing import Any

import gpu_catalog as catalog
import pytest
from gpu_catalog.ladder import NoLadder, Rung, check_ladder, default_ladder
from gpu_catalog.needs import Needs, needs_of
from gpu_catalog.recommend import candidates
from hypothesis import given, settings
from hypothesis import strategies as st

from .needs_strategy import needs as some_needs

L4: dict[str, Any] = {"machine": "g2-standard-8", "market": "spot", "region": "us-central1"}


def wrong(*rungs: dict[str, Any], needs: Needs | None = None) -> list[tuple[tuple[str | int, ...], str]]:
    return [(each.at, each.text) for each in check_ladder([Rung(**rung) for rung in rungs], needs)]


def summary(rungs: tuple[Rung, ...]) -> list[tuple[str, str, str]]:
    return [(rung.machine.partition("/")[2], rung.market, rung.region) for rung in rungs]


def test_a_ladder_by_zone_then_market_then_region_then_cloud_is_in_order() -> None:
    assert (
        wrong(
            {**L4, "zones": ("us-central1-a",), "timeout_sec": 60},
            {**L4, "zones": ("us-central1-b", "us-central1-c")},
            L4,
            {**L4, "market": "on-demand"},
            {**L4, "region": "us-east1"},
            {"machine": "g6.2xlarge", "market": "spot", "region": "us-east-1", "cloud": "aws"},
        )
        == []
    )


def test_a_ladder_has_at_least_one_rung() -> None:
    assert wrong() == [((), "has no rung")]


@pytest.mark.parametrize(
    ("rung", "at", "text"),
    [
        ({"machine": "g2-standard-9"}, (1, "machine"), "unknown machine type with a GPU 'g2-standard-9'"),
        ({"machine": "n1-standard-8"}, (1, "machine"), "unknown machine type with a GPU 'n1-standard-8'"),
        (
            {"machine": "n1-standard-8+nvidia-tesla-v100x3"},
            (1, "machine"),
            "no machine has 3 x nvidia-tesla-v100; it can have 1, 2, 4, 8",
        ),
        ({"market": "sport"}, (1, "market"), "unknown market 'sport'"),
        (
            {"market": "reservation"},
            (1, "market"),
            "gcp/g2-standard-8 is not sold as reservation: only as standard, spot, flex-start",
        ),
        ({"cloud": "aws"}, (1, "machine"), "unknown machine type with a GPU 'g2-standard-8'"),
        ({"cloud": "azure"}, (1, "cloud"), "unknown cloud 'azure'"),
        (
            {"region": "us-east5"},
            (1, "region"),
            "us-east5 has no gcp/g2-standard-8; us-east1-b, us-east1-c, us-east1-d have",
        ),
        (
            {"zones": ("us-central1-a", "us-central1-f")},
            (1, "zones", 1),
            "us-central1-f has no gcp/g2-standard-8; us-central1-a, us-central1-b, us-central1-c have",
        ),
        ({"zones": ("us-east1-b",)}, (1, "zones", 0), "us-east1-b is not in us-central1"),
        ({"zones": ("us-central1-a", "us-central1-a")}, (1, "zones", 1), "us-central1-a is listed twice"),
        ({"timeout_sec": 0}, (1, "timeout_sec"), "waits 0 seconds: must be more than 0"),
    ],
)
def test_a_rung_that_cannot_be_is_refused(rung: dict[str, Any], at: tuple[str | int, ...], text: str) -> None:
    assert wrong({**L4, "region": "us-east1"}, {**L4, **rung}) == [(at, text)]


def test_a_name_nearly_right_is_answered_with_the_right_one() -> None:
    (found,) = check_ladder([Rung(**{**L4, "machine": "g2-standart-8"})])
    assert str(found) == "rung 1: unknown machine type with a GPU 'g2-standart-8'; did you mean g2-standard-8?"


@pytest.mark.parametrize(
    ("machine", "region", "texts"),
    [
        ("g6f.4xlarge", "us-east-1", ["has 12 GiB of GPU memory, not 24", "has 0.5 GPUs, not 1"]),
        ("g5.xlarge", "us-east-1", ["has compute capability 8.6, not 8.9"]),
        ("g4dn.12xlarge", "us-east-1", ["has 16 GiB of GPU memory, not 24", "has compute capability 7.5, not 8.9"]),
        (
            "g5g.xlarge",
            "us-east-1",
            ["is arm64, not x86_64", "has 16 GiB of GPU memory, not 24", "has compute capability 7.5, not 8.9"],
        ),
    ],
)
def test_no_rung_drops_below_the_first(machine: str, region: str, texts: list[str]) -> None:
    found = wrong(L4, {"machine": machine, "market": "spot", "region": region})
    assert found == [((1, "machine"), f"aws/{machine} {text}") for text in texts]


def test_a_job_can_have_lower_needs() -> None:
    t4 = {"machine": "g4dn.xlarge", "market": "spot", "region": "us-east-1"}
    assert wrong(L4, t4, needs=Needs(gpu_memory_gib=16, compute_capability="7.5")) == []
    assert wrong(L4, t4, needs=Needs(dtype="bf16")) == [
        ((1, "machine"), "aws/g4dn.xlarge has compute capability 7.5, not 8.0, which bf16 requires")
    ]


def test_a_job_that_needs_more_than_the_first_rung_has_is_reported() -> None:
    assert wrong(L4, needs=Needs(gpu_count=2)) == [((0, "machine"), "gcp/g2-standard-8 has 1 GPU, not 2")]


def test_a_location_a_market_and_a_budget_the_job_insists_on_are_kept() -> None:
    found = wrong(L4, needs=Needs(market="standard", region="us-east1", budget_usd_per_hour=0.5))
    assert found == [
        ((0, "market"), "is spot, but the job needs standard"),
        ((0, "region"), "is us-central1, but the job needs us-east1"),
        ((0,), "gcp/g2-standard-8 costs 0.5121 USD/h, and the budget is 0.5"),
    ]


def test_a_rung_that_costs_exactly_the_budget_is_within_it() -> None:
    assert wrong(L4, needs=Needs(budget_usd_per_hour=0.5121)) == []


def test_a_budget_does_not_reject_an_unknown_price() -> None:
    assert wrong({**L4, "market": "flex-start"}, needs=Needs(budget_usd_per_hour=0.01)) == []


def test_amd_and_retired_gpus_are_on_no_ladder() -> None:
    (found,) = wrong({"machine": "g4ad.xlarge", "market": "spot", "region": "us-east-1"})
    assert found[1] == "aws/g4ad.xlarge has a Radeon Pro V520, an AMD GPU: it has no NVIDIA driver and no CUDA"
    (found,) = wrong({"machine": "p2.xlarge", "market": "spot", "region": "us-east-1"})
    assert found[1] == "aws/p2.xlarge has a K80, which is retired: current drivers and torch do not support it"


def test_a_place_that_an_earlier_step_tries_is_a_problem() -> None:
    again = {**L4, "machine": "gcp/g2-standard-8", "market": "SPOT", "timeout_sec": 900}
    assert wrong(L4, again) == [((1,), "rung 1 already tries gcp/g2-standard-8 as spot in us-central1")]
    zones = {**L4, "zones": ("us-central1-a", "us-central1-b")}
    text = "already tries gcp/g2-standard-8 as spot in us-central1-b"
    assert wrong(zones, {**L4, "zones": ("us-central1-c", "us-central1-b")}) == [((1, "zones", 1), f"rung 1 {text}")]
    assert wrong(L4, {**L4, "zones": ("us-central1-b",)}) == [((1, "zones", 0), f"rung 1 {text}")]


def test_a_whole_region_may_follow_some_of_its_zones() -> None:
    assert wrong({**L4, "zones": ("us-central1-a",)}, L4) == []


def test_the_default_ladder_is_spot_in_all_zones_then_standard_then_the_neighbours() -> None:
    rungs = default_ladder("g2-standard-8", regions=["us-central1"], timeout_sec=120)
    assert summary(rungs) == [
        ("g2-standard-8", "spot", "us-central1"),
        ("g2-standard-8", "standard", "us-central1"),
        ("g4-standard-48", "spot", "us-central1"),
        ("g4-standard-48", "standard", "us-central1"),
        ("a3-highgpu-1g", "spot", "us-central1"),
    ]
    assert rungs[0].zones == ("us-central1-a", "us-central1-b", "us-central1-c")
    assert rungs[2].zones == ("us-central1-b", "us-central1-f")
    assert {rung.timeout_sec for rung in rungs} == {120}


def test_the_default_ladder_takes_every_region_before_the_next_market() -> None:
    rungs = default_ladder("g6.xlarge", regions=["us-east-1", "us-west-2"], neighbours=0)
    assert [(market, region) for _, market, region in summary(rungs)] == [
        ("spot", "us-east-1"),
        ("spot", "us-west-2"),
        ("standard", "us-east-1"),
        ("standard", "us-west-2"),
    ]


def test_the_default_ladder_goes_to_another_cloud_where_a_region_of_it_is_given() -> None:
    rungs = default_ladder("a2-highgpu-1g", regions=["us-central1", "us-east-1"], markets=["standard"], neighbours=9)
    assert summary(rungs)[0] == ("a2-highgpu-1g", "standard", "us-central1")
    assert ("g6e.xlarge", "standard", "us-east-1") in summary(rungs)
    assert ("g6.xlarge", "standard", "us-east-1") not in summary(rungs), "24 GiB are less than 40"


def test_without_a_region_the_default_ladder_is_where_the_machine_costs_least() -> None:
    assert {rung.region for rung in default_ladder("a3-highgpu-1g")} == {"us-east4"}


def test_a_first_market_of_unknown_price_does_not_choose_the_region() -> None:
    rungs = default_ladder("a3-highgpu-1g", markets=["flex-start", "spot"], neighbours=0)
    assert [(market, region) for _, market, region in summary(rungs)] == [
        ("flex-start", "us-east4"),
        ("spot", "us-east4"),
    ]


def test_the_market_a_job_insists_on_is_the_only_one_of_its_default_ladder() -> None:
    rungs = default_ladder("g2-standard-8", Needs(market="standard"), regions=["us-central1"], neighbours=0)
    assert summary(rungs) == [("g2-standard-8", "standard", "us-central1")]


def test_a_budget_keeps_dear_neighbours_off_the_default_ladder() -> None:
    asked = Needs(gpu_memory_gib=24, budget_usd_per_hour=2)
    assert summary(default_ladder("g2-standard-8", asked, regions=["us-central1"])) == [
        ("g2-standard-8", "spot", "us-central1"),
        ("g2-standard-8", "standard", "us-central1"),
        ("g4-standard-48", "spot", "us-central1"),
    ]


@pytest.mark.parametrize(
    ("machine", "choices", "text"),
    [
        ("a4x-highgpu-4g", {}, "gcp/a4x-highgpu-4g is sold as reservation in .*, but requested is spot or standard"),
        ("g2-standard-8", {"regions": ["us-east5"]}, "but requested is spot or standard in us-east5"),
        ("g2-standard-8", {"needs": Needs(gpu_memory_gib=40)}, "has 24 GiB of GPU memory, not 40"),
        ("g2-standard-8", {"needs": Needs(budget_usd_per_hour=0.1)}, "for at most 0.1 USD/h"),
        ("g4ad.xlarge", {}, "an AMD GPU"),
        ("p6e-gb200.36xlarge", {"markets": ["capacity-block"]}, "in no known region"),
    ],
)
def test_there_is_no_ladder_for_a_machine_that_cannot_be_on_it(machine: str, choices: Any, text: str) -> None:
    with pytest.raises(NoLadder, match=text):
        default_ladder(machine, **choices)


@given(
    machine=st.sampled_from(candidates()),
    needs=st.none() | some_needs,
    regions=st.lists(st.sampled_from(catalog.regions()), max_size=3),
    markets=st.lists(st.sampled_from([*catalog.MARKETS, "on-demand"]), min_size=1, max_size=4),
    neighbours=st.integers(0, 4),
)
@settings(deadline=None, max_examples=60)
def test_a_default_ladder_always_passes_its_own_check(
    machine: catalog.Machine, needs: Needs | None, regions: list[str], markets: list[str], neighbours: int
) -> None:
    try:
        rungs = default_ladder(machine, needs, regions=regions, markets=markets, neighbours=neighbours)
    except NoLadder:
        return
    assert check_ladder(rungs, needs) == []
    assert rungs[0].machine == machine.key
    for rung in rungs:
        found = catalog.machine(rung.machine)
        assert found.gpu.capability >= machine.gpu.capability
        assert found.gpu_count == machine.gpu_count
    if needs is None:
        assert check_ladder(rungs, needs_of(machine)) == []


@given(machine=st.sampled_from(candidates()))
@settings(deadline=None, max_examples=20)
def test_every_machine_has_a_default_ladder_in_the_markets_it_is_sold_in(machine: catalog.Machine) -> None:
    rungs = default_ladder(machine, markets=machine.markets)
    assert check_ladder(rungs) == []
    assert [rung.market for rung in rungs if rung.machine == machine.key] == [*machine.markets]
