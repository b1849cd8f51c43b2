"""Old, undated and estimated prices in the comparison of offers, on given days."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import gpu_catalog as catalog
import pytest
from gpu_catalog.needs import Needs
from gpu_catalog.offers import best
from gpu_catalog.recommend import recommend

READ = date(2026, 8, 3)  # the date of the source kgcp, which has most prices of Google Cloud
TODAY = date(2026, 11, 21)


def compared(machine: str, market: Any, region: str, today: date | None = TODAY) -> tuple[float | None, float | None]:
    """Return the price itself, and the price that comparisons use."""
    found = best(catalog.machine(machine), market, region, today=today)
    return found.price and found.price.usd_per_hour, found.counts_as


def test_a_spot_price_counts_as_it_is_for_ninety_days_and_then_as_the_standard_price() -> None:
    last = READ + timedelta(90)
    assert compared("g2-standard-4", "spot", "us-central1", last) == (0.397336, 0.397336)
    assert compared("g2-standard-4", "spot", "us-central1", last + timedelta(1)) == (0.397336, 0.706832)
    assert compared("g2-standard-4", "spot", "us-central1", None) == (0.397336, 0.397336)


def test_an_old_standard_price_is_compared_unchanged_and_shows_its_age() -> None:
    assert compared("g6.xlarge", "standard", "us-east-1", date(2036, 1, 1)) == (0.8048, 0.8048)
    found = best(catalog.machine("g6.xlarge"), "standard", "us-east-1", today=TODAY)
    assert found.text == "standard 0.8048 USD/h in us-east-1, price of 2026-07-20, 124 days old"
    assert found.price_caveat == ""


@pytest.mark.parametrize("today", [None, date(2025, 6, 29), TODAY])
def test_an_estimated_spot_price_counts_as_the_standard_price_however_new(today: date | None) -> None:
    assert compared("g6.xlarge", "spot", "us-east-1", today) == (0.4104, 0.8048)


def test_an_undated_spot_price_of_an_attached_gpu_counts_as_the_standard_price_of_host_and_gpus() -> None:
    machine = "n1-standard-8+nvidia-tesla-t4x1"
    standard = catalog.price(machine, "us-central1", "standard")
    assert standard is not None
    assert compared(machine, "spot", "us-central1")[1] == standard.usd_per_hour


def test_a_list_price_of_what_is_not_sold_on_demand_is_still_the_most_that_spot_costs() -> None:
    assert catalog.price("a3-highgpu-1g", "us-east4", "standard") is None
    assert compared("a3-highgpu-1g", "spot", "us-east4") == (4.540105, 11.06947)


def test_machines_come_in_the_order_of_the_prices_listed_and_those_of_unknown_price_last() -> None:
    found = recommend(Needs(gpu_memory_gib=141, market="spot"), limit=99, today=TODAY)
    prices = [each.usd_per_hour for each in found]
    known = [usd for usd in prices if usd is not None]
    assert prices == sorted(known) + [None] * (len(prices) - len(known))
    kinds = {(each.offer.price is not None, each.offer.counts_as is not None) for each in found}
    assert kinds == {(True, True), (True, False), (False, False)}
    undated = next(each for each in found if each.machine.machine_type == "a4-highgpu-8g")
    assert undated.reasons[1:] == (
        "spot 32.61 USD/h in us-central1",
        "price undated",
        "the maximum is unknown, because no standard price is known",
    )


def test_a_size_with_a_fresh_price_is_listed_for_a_cheaper_one_whose_price_is_old_and_names_it() -> None:
    asked = Needs(gpu_memory_gib=24, cloud="gcp", region="us-central1", market="spot")
    first = recommend(asked, today=TODAY)[0]
    assert first.text == (
        "cheapest with 24 GiB; spot 0.5121 USD/h in us-central1; price of 2026-10-04; g2-standard-4 may cost less, "
        "but its price is not reliable: spot 0.3973 USD/h in us-central1, price of 2026-08-03, 110 days old"
    )
    sizes = recommend(asked, every_size=True, today=TODAY)
    assert [(each.machine.machine_type, each.usd_per_hour, each.offer.counts_as) for each in sizes[:3]] == [
        ("g2-standard-4", 0.397336, 0.706832), ("g2-standard-8", 0.5121, 0.5121),
        ("g2-standard-12", 0.562408, 1.000416),
    ]  # fmt: skip
    assert sizes[0].text == (
        "cheapest with 24 GiB; spot 0.3973 USD/h in us-central1; price of 2026-08-03, 110 days old; at most "
        "0.7068 USD/h, its standard price"
    )


def test_a_budget_is_held_against_the_price_itself() -> None:
    asked = Needs(gpu_memory_gib=24, cloud="gcp", region="us-central1", market="spot", budget_usd_per_hour=0.4)
    [found] = recommend(asked, today=TODAY)
    assert (found.machine.machine_type, found.offer.counts_as) == ("g2-standard-4", 0.706832)


def test_within_a_budget_an_old_price_elsewhere_is_taken_where_a_fresh_one_is_over_it() -> None:
    machine = catalog.machine("a3-highgpu-1g")
    regions = [best(machine, "spot", budget=budget, today=TODAY).region for budget in (None, 7, 5, 3)]
    assert regions == ["us-central1", "us-central1", "us-east4", "europe-north1"]


def test_a_region_that_googles_page_does_not_name_is_taken_last_and_named() -> None:
    machine = catalog.machine("a3-highgpu-1g")
    assert machine.unlisted_regions == (
        "asia-south1", "asia-south2", "australia-southeast1", "europe-north1", "europe-west8", "europe-west9",
    )  # fmt: skip
    assert best(machine, "spot").region not in machine.unlisted_regions
    asked = Needs(gpu_memory_gib=80, compute_capability="9.0", cloud="gcp", region="europe-north1")
    found = next(each for each in recommend(asked) if each.machine == machine)
    assert found.caveats == (
        "Google's page does not list the machine in europe-north1: the region may be open to some projects only",
    )


def test_so_many_machines_are_in_regions_that_googles_page_does_not_name() -> None:
    found = {each.machine_type: len(each.unlisted_regions) for each in catalog.machines() if each.unlisted_regions}
    assert found == {
        **dict.fromkeys(["a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g", "a3-highgpu-8g"], 6),
        **dict.fromkeys(["a3-edgegpu-8g", "a3-megagpu-8g"], 2),
        **dict.fromkeys(["g4-standard-6", "g4-standard-12", "g4-standard-24"], 7),
    }
