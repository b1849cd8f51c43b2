"""Recommended machines: their order, their reasons, and the explanation if no machine matches."""

from __future__ import annotations

from datetime import date
from typing import Any

import gpu_catalog as catalog
import pytest
from gpu_catalog import data_files, solver
from gpu_catalog.needs import DTYPES, Needs, UnknownDtype, UnknownRegion, missing_needs, needs_of, number_type
from gpu_catalog.offers import shortfalls
from gpu_catalog.recommend import candidates, explain_no_match, recommend
from hypothesis import given, settings
from hypothesis import strategies as st

from .needs_strategy import needs as some_needs


def keys(**needs: Any) -> list[str]:
    return [each.machine.key for each in recommend(Needs(**needs))]


def test_the_cheapest_machine_with_24_gib_in_us_central1() -> None:
    first = recommend(Needs(gpu_memory_gib=24, cloud="gcp", region="us-central1"))[0]
    assert first.machine.machine_type == "g2-standard-4"
    assert first.text == "cheapest with 24 GiB; spot 0.3973 USD/h in us-central1; price of 2026-08-03"
    assert first.offer.zones == ("us-central1-a", "us-central1-b", "us-central1-c")


def test_the_cheapest_region_is_found_where_none_is_asked_for() -> None:
    first = recommend(Needs(gpu_memory_gib=80, compute_capability="9.0", cloud="gcp", market="spot"))[0]
    assert (first.machine.machine_type, first.offer.region) == ("g4-standard-48", "us-central1")
    assert first.usd_per_hour == 1.7716


def test_a_more_expensive_machine_has_the_difference_in_percent() -> None:
    found = recommend(Needs(gpu_memory_gib=24, market="on-demand", region="us-east-1"))  # type: ignore[arg-type]
    assert [(each.machine.machine_type, each.usd_per_hour) for each in found[:3]] == [
        ("g6.xlarge", 0.8048),
        ("g5.xlarge", 1.006),
        ("gr6.4xlarge", 1.5392),
    ]
    assert found[1].text == "25 % more than the cheapest; standard 1.006 USD/h in us-east-1; price of 2026-07-20"


def test_an_estimated_price_and_the_rate_of_interruptions_are_shown() -> None:
    found = recommend(Needs(gpu_memory_gib=16, market="spot", region="us-east-1", architecture="x86_64"))
    assert found[0].text == (
        "cheapest with 16 GiB; spot about 0.1894 USD/h in us-east-1; price of 2025-06-28, estimated: on-demand price "
        "less the saving then; at most 0.526 USD/h, its standard price; 15-20% of the spot instances were interrupted "
        "in a month (2025-06-28)"
    )


def test_an_undated_price_is_marked() -> None:
    found = recommend(Needs(gpu_memory_gib=16, market="standard", region="us-central1"))
    assert found[0].machine.key == "gcp/n1-standard-4+nvidia-tesla-t4x1"
    assert found[0].reasons[1:3] == ("standard 0.54 USD/h in us-central1", "price undated")


def test_an_unknown_price_comes_last_and_is_marked() -> None:
    found = recommend(Needs(dtype="fp4", region="us-central1", cloud="gcp"), limit=99)
    known = [each.usd_per_hour is not None for each in found]
    assert known == sorted(known, reverse=True)
    assert not all(known)
    assert found[-1].reasons[0].endswith("price unknown")


def test_under_a_budget_an_unknown_price_does_not_count_as_low() -> None:
    assert recommend(Needs(market="flex-start"))
    assert recommend(Needs(market="flex-start", budget_usd_per_hour=1000)) == []


def test_a_price_of_exactly_the_budget_is_within_it() -> None:
    price = 0.397336
    asked = Needs(gpu_memory_gib=24, cloud="gcp", region="us-central1", budget_usd_per_hour=price)
    assert [(each.machine.machine_type, each.usd_per_hour) for each in recommend(asked)] == [("g2-standard-4", price)]


def test_a_budget_is_held_against_other_markets_where_the_machine_is_not_sold_as_asked() -> None:
    asked = Needs(market="standard", region="us-east4", budget_usd_per_hour=100)
    assert [need.need for need in shortfalls(catalog.machine("a3-highgpu-1g"), asked)] == ["market"]


def test_of_unknown_prices_the_smallest_machine_comes_first_also_where_it_is_newer() -> None:
    found = recommend(Needs(market="flex-start", region="us-central1"), limit=3)
    assert [(each.machine.machine_type, each.machine.gpu.compute_capability, each.usd_per_hour) for each in found] == [
        ("g2-standard-4", "8.9", None),
        ("a2-highgpu-1g", "8.0", None),
        ("g2-standard-24", "8.9", None),
    ]


def test_other_regions_are_reported_only_where_none_is_requested() -> None:
    texts = [recommend(Needs(market="flex-start", region=region))[0].text for region in (None, "us-central1")]
    assert ["other regions, at unknown prices" in text for text in texts] == [True, False]


def test_a_processor_is_a_caveat_only_where_none_is_requested() -> None:
    found = [recommend(Needs(region="us-east-1", architecture=each), limit=99) for each in (None, "arm64")]
    caveats = [[each.caveats for each in some if each.machine.family == "g5g"] for some in found]
    assert [["the processor is arm64" in each for each in some] for some in caveats] == [[True] * 2, [False] * 2]


def test_a_limit_of_less_than_nothing_is_nothing() -> None:
    assert recommend(Needs(), limit=-1) == []


def test_one_size_of_a_family_is_listed_unless_every_one_is_requested() -> None:
    asked = Needs(gpu_memory_gib=24, cloud="gcp", region="us-central1", market="spot", budget_usd_per_hour=0.6)
    assert [each.machine.machine_type for each in recommend(asked)] == ["g2-standard-4"]
    assert [each.machine.machine_type for each in recommend(asked, every_size=True)] == [
        "g2-standard-4",
        "g2-standard-8",
        "g2-standard-12",
    ]


def test_a_larger_machine_is_taken_where_the_job_needs_one() -> None:
    first = recommend(Needs(gpu_memory_gib=24, cloud="gcp", region="us-central1", vcpus=12, memory_gib=48))[0]
    assert first.machine.machine_type == "g2-standard-12"


@pytest.mark.parametrize(
    ("dtype", "oldest"),
    [("fp32", "6.0"), ("fp16", "7.0"), ("int8", "7.5"), ("bf16", "8.0"), ("fp8", "8.9"), ("fp4", "10.0")],
)
def test_a_number_type_is_had_from_this_compute_capability_on(dtype: Any, oldest: str) -> None:
    found = recommend(Needs(dtype=dtype), limit=999, every_size=True)
    assert min((each.machine.gpu.capability, each.machine.gpu.compute_capability) for each in found)[1] == oldest


def test_every_number_type_has_a_source() -> None:
    assert [row["dtype"] for row in data_files.rows("dtypes")] == list(DTYPES)
    assert all(catalog.source(key).certain for name in DTYPES for key in number_type(name).sources)


def test_partial_support_of_a_number_type_is_a_caveat() -> None:
    first = recommend(Needs(dtype="fp4"))[0]
    assert first.machine.gpu.key == "rtx-pro-6000"
    assert first.caveats == ("fp4 is supported only in part: Transformer Engine calls its NVFP4 partial here",)


def test_a_gpu_that_new_drivers_leave_behind_is_a_caveat() -> None:
    found = recommend(Needs(cloud="gcp", region="us-central1", market="spot"), limit=99)
    p100 = next(each for each in found if each.machine.gpu.key == "p100")
    assert p100.caveats == ("driver branch 580 is the last one that supports the P100",)


def test_a_torch_that_has_to_run_leaves_out_what_it_has_no_kernels_for() -> None:
    def cards(torch: str) -> set[str]:
        return {each.machine.gpu.key for each in recommend(Needs(cloud="gcp", torch=torch), limit=999)}

    assert cards("") - cards("2.15.0") == {"p100", "p4", "v100"}
    assert cards("2.14.0+cu126") >= {"p100", "p4", "v100"}
    why = explain_no_match(Needs(region="us-east-1", torch="2.15.0+cpu"))
    assert why is not None
    assert why.freed["torch"] > 0
    assert [need.text for need in why.unmet if need.need == "torch"] == [
        "cannot run this torch: torch 2.15.0+cpu is built without CUDA"
    ]


def test_a_gpu_that_the_default_torch_does_not_support_has_a_caveat() -> None:
    found = recommend(Needs(cloud="gcp", region="us-central1", market="spot"), limit=99, default_torch="2.15.0")
    caveats = {each.machine.gpu.key: each.caveats[-1:] for each in found}
    assert caveats["v100"] == (
        "the default torch 2.15.0+cu132 has no kernels for compute capability 7.0: take torch 2.14.0+cu126",
    )
    assert caveats["l4"] == ()


def test_a_fraction_of_a_gpu_is_recommended_only_where_one_is_requested() -> None:
    assert all(each.machine.gpu_count >= 1 for each in recommend(Needs(), limit=999, every_size=True))
    assert "gcp/g4-standard-6" in keys(gpu_count=0.125, cloud="gcp", region="us-central1", compute_capability="12.0")
    assert "gcp/g4-standard-6" not in keys(gpu_count=0.125, gpu_memory_gib=24, cloud="gcp", compute_capability="12.0")


def test_retired_amd_and_unplaced_machines_are_no_candidates() -> None:
    assert all(each.gpu.is_nvidia and not each.legacy and each.regions for each in candidates())
    assert len(candidates()) == len(catalog.machines()) - 1, "p6e-gb200 is in no region that a source names"


@given(some_needs, st.sampled_from([None, date(2026, 8, 4), date(2026, 11, 21), date(2036, 1, 1)]))
@settings(deadline=None, max_examples=40)
def test_a_recommended_machine_meets_the_needs_and_passes_the_check(needs: Needs, today: date | None) -> None:
    found = recommend(needs, today=today)
    for each in found:
        assert missing_needs(each.machine, needs) == []
        assert needs.market in (None, each.offer.market)
        assert needs.region in (None, each.offer.region)
        if needs.budget_usd_per_hour is not None:
            assert each.usd_per_hour is not None
            assert each.usd_per_hour <= needs.budget_usd_per_hour
        choices = {"market": each.offer.market, "zone": each.offer.region, "torch": needs.torch or None}
        assert solver.check(each.machine, **choices).works
        assert each.offer.price == catalog.price(each.machine, each.offer.region, each.offer.market)
    prices = [each.usd_per_hour for each in found]
    known = [usd for usd in prices if usd is not None]
    assert prices == sorted(known) + [None] * (len(prices) - len(known))
    assert found == recommend(needs, today=today)


@given(some_needs)
@settings(deadline=None, max_examples=15)
def test_either_something_is_recommended_or_the_reason_is_given(needs: Needs) -> None:
    why = explain_no_match(needs)
    assert (why is None) is bool(recommend(needs))
    if why:
        assert why.unmet
        assert why.excluded[why.need] == max(why.excluded.values())
        for need, count in why.freed.items():
            dropped = {
                **{name: getattr(needs, name) for name in Needs.__slots__},
                need: 0 if need == "gpu_count" else getattr(Needs(), need),
            }
            assert len(recommend(Needs(**dropped), limit=999, every_size=True)) == count


def test_the_need_that_excludes_the_most_is_named_and_the_nearest_machine() -> None:
    why = explain_no_match(Needs(gpu_memory_gib=24, budget_usd_per_hour=0.1))
    assert why is not None
    assert (why.need, why.nearest.machine_type) == ("budget_usd_per_hour", "g2-standard-4")
    assert why.text == (
        "budget_usd_per_hour excludes the most: 319 of 319 machines; without budget_usd_per_hour 78 would match; the "
        "nearest is gcp/g2-standard-4: it costs at least 0.2709 USD/h, not 0.1"
    )


def test_two_needs_that_exclude_each_other_are_both_named() -> None:
    why = explain_no_match(Needs(cloud="aws", region="us-central1"))
    assert why is not None
    assert why.need == "cloud"
    assert set(why.freed) == {"cloud", "region"}


def test_there_is_nothing_to_explain_where_something_fits() -> None:
    assert explain_no_match(Needs(gpu_memory_gib=24)) is None


@pytest.mark.parametrize(
    ("needs", "error", "text"),
    [
        ({"dtype": "bf61"}, UnknownDtype, "did you mean bf16?"),
        ({"region": "us-centrall"}, UnknownRegion, "did you mean us-central1?"),
        ({"market": "sport"}, catalog.UnknownMarket, "did you mean spot?"),
        ({"cloud": "gpc"}, LookupError, "did you mean gcp?"),
        ({"architecture": "arm46"}, LookupError, "did you mean arm64?"),
        ({"compute_capability": "ada"}, ValueError, "'ada' is no compute capability"),
        ({"torch": "newest"}, ValueError, "not a torch version: 'newest'"),
        ({"region": "asia-west1"}, UnknownRegion, "did you mean asia-east1?"),
        ({"gpu_memory_gib": -1}, ValueError, "gpu_memory_gib must be a number from 0 on"),
        ({"gpu_memory_gib": float("nan")}, ValueError, "gpu_memory_gib must be a number from 0 on"),
        ({"budget_usd_per_hour": 0}, ValueError, "nothing is free"),
    ],
)
def test_a_need_that_makes_no_sense_is_refused(needs: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text.replace("?", r"\?")):
        Needs(**needs)


def test_the_needs_of_a_job_written_for_a_machine() -> None:
    asked = needs_of(catalog.machine("g6.xlarge"))
    assert asked == Needs(gpu_memory_gib=24, gpu_count=1, compute_capability="8.9", architecture="x86_64")
    assert missing_needs(catalog.machine("g2-standard-8"), asked) == []
    assert [need.need for need in missing_needs(catalog.machine("g5g.xlarge"), asked)] == [
        "architecture",
        "gpu_memory_gib",
        "compute_capability",
    ]
