"""The costs of pools, and the texts about unknown costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gpu_catalog as catalog
import pytest
from gpu_catalog import cost
from gpu_catalog.models import Demand


def demand(machine: str, market: str, region: str, most: int = 2, **changes: Any) -> Demand:
    given: dict[str, Any] = {
        "pool": machine,
        "machine": catalog.machine(machine),
        "market": catalog.market(market),
        "region": region,
        "max_machines": most,
    }
    return Demand(**(given | changes))


L4 = demand("g2-standard-8", "spot", "us-central1", 4, pool="l4")
L4_STANDARD = demand("g2-standard-8", "standard", "us-central1", 1, pool="release")
T4 = demand("gcp/n1-standard-8+nvidia-tesla-t4x1", "spot", "us-central1", 3, pool="t4")
GB300 = demand("a4x-maxgpu-4g-metal", "reservation", "us-central1", 2, pool="gb300")
G6 = demand("g6.xlarge", "spot", "us-east-1", 2, pool="g6")


def test_a_pool_that_rests_at_zero_costs_nothing_at_rest_and_its_machines_at_max() -> None:
    found = cost.of_pool(L4)
    assert found.price is not None
    each = found.price.usd_per_hour
    assert (each, found.price_date) == (0.5121, "2026-10-04")
    assert found.usd_per_hour_at_rest == 0
    assert found.usd_per_hour_at_max == round(4 * each, 4)
    assert found.usd_worst_month == round(4 * 730 * each, 4)


def test_machines_that_wait_are_paid_for_at_rest() -> None:
    found = cost.of_pool(demand("g2-standard-8", "standard", "us-central1", 4, machines_at_rest=1))
    assert found.usd_per_hour_at_rest is not None
    assert found.usd_per_hour_at_rest * 4 == pytest.approx(found.usd_per_hour_at_max)


def test_the_machine_of_a_check_is_not_in_the_worst_month() -> None:
    checked = demand("g2-standard-8", "spot", "us-central1", 4, machines_of_a_check=1)
    assert cost.of_pool(checked).usd_worst_month == cost.of_pool(L4).usd_worst_month


def test_a_price_without_a_source_is_unknown_and_rest_is_still_nothing() -> None:
    found = cost.of_pool(GB300)
    assert found.to_json() == {
        "usdPerHourAtRest": 0.0,
        "usdPerHourAtMax": "unknown",
        "usdWorstMonth": "unknown",
        "priceDate": "unknown",
    }


def test_a_total_with_an_unknown_price_is_a_minimum() -> None:
    whole, part = cost.of_stack([L4]), cost.of_stack([L4, GB300])
    assert not whole.total.at_least
    assert part.total.at_least
    assert part.total.usd_worst_month == whole.total.usd_worst_month
    assert part.unpriced == ("gb300",)
    assert "atLeast" not in whole.to_json()
    assert part.to_json()["atLeast"] is True
    assert part.summary == (
        "0.00 USD/h at rest, at least 2.05 USD/h at max, at least 1,495 USD in the worst month "
        "(prices of 2026-10-04; unknown for gb300; without boot disks and network traffic)"
    )


def test_the_summary_is_one_sentence_with_the_date_and_what_is_left_out() -> None:
    found = cost.of_stack([L4_STANDARD])
    assert found.summary == (
        "0.00 USD/h at rest, 0.85 USD/h at max, 623 USD in the worst month "
        "(prices of 2026-10-04; without boot disks and network traffic)"
    )


def test_the_summary_names_the_disks_of_stopped_machines_as_not_included() -> None:
    text = "without boot disks (at rest those of {}) and network traffic)"
    one, two = replace(L4_STANDARD, stopped_machines=1), replace(L4, stopped_machines=2)
    assert cost.of_stack([one]).summary.endswith(text.format("1 stopped machine"))
    assert cost.of_stack([one, two]).summary.endswith(text.format("3 stopped machines"))
    assert cost.of_stack([two]).total == cost.of_stack([L4]).total


def test_the_totals_are_kept_apart_by_market() -> None:
    found = cost.of_stack([L4, L4_STANDARD, T4])
    assert list(found.by_market) == ["spot", "standard"]
    assert found.by_market["standard"].usd_per_hour_at_max == cost.of_pool(L4_STANDARD).usd_per_hour_at_max
    apart = sum(total.usd_worst_month for total in found.by_market.values())
    assert apart == pytest.approx(found.total.usd_worst_month)


def test_a_spot_price_worked_out_from_a_saving_is_marked_as_estimated() -> None:
    found = cost.of_stack([G6])
    assert found.pools[0].to_json()["estimated"] is True
    assert found.total.estimated
    assert "; estimated for g6; " in found.summary
    assert "estimated" not in cost.of_pool(L4).to_json()


def test_an_undated_part_leaves_the_stack_without_a_date() -> None:
    assert cost.of_pool(T4).price is not None
    assert cost.of_pool(T4).price_date == "undated"
    found = cost.of_stack([L4, T4])
    assert found.to_json()["priceDate"] == "undated"
    assert "(some prices undated; without" in found.summary


def test_the_date_of_a_stack_is_that_of_its_oldest_price() -> None:
    h100 = demand("a3-highgpu-1g", "spot", "us-east4")
    assert [cost.of_pool(each).price_date for each in (L4, h100)] == ["2026-10-04", "2026-08-03"]
    assert cost.of_stack([L4, h100]).price_date == "2026-08-03"
    assert cost.of_stack([h100, L4]).price_date == "2026-08-03"


def test_a_stack_without_pools_costs_nothing() -> None:
    found = cost.of_stack([])
    assert (found.total.usd_worst_month, found.total.at_least, found.price_date) == (0, False, "unknown")


def test_a_pool_that_is_billed_by_another_unit_makes_the_total_the_least_there_is() -> None:
    builds = cost.Metered("builds", "e2-standard-8", "us-central1", "build-minute")
    document = cost.of_stack([L4], [builds])
    assert (document.total.usd_per_hour_at_max, document.total.at_least) == (2.0484, True)
    assert document.unpriced == ("builds (by the build-minute)",)
    assert cost.of_stack([], [builds]).to_json()["summary"] == (
        "0.00 USD/h at rest, unknown USD/h at max, unknown USD in the worst month "
        "(unknown for builds (by the build-minute); without boot disks and network traffic)"
    )


def test_a_stack_none_of_whose_prices_is_known_totals_unknown_and_not_nothing() -> None:
    document = cost.of_stack([GB300]).to_json()
    assert [document[key] for key in ("usdPerHourAtRest", "usdPerHourAtMax", "usdWorstMonth")] == [
        0.0,
        "unknown",
        "unknown",
    ]
    assert document["byMarket"]["reservation"] == {
        "usdPerHourAtRest": 0.0,
        "usdPerHourAtMax": "unknown",
        "usdWorstMonth": "unknown",
        "atLeast": True,
    }


def test_a_pool_of_several_types_costs_at_most_what_the_most_expensive_does_and_lists_each() -> None:
    others = tuple(catalog.machine(f"g5.{size}", "aws") for size in ("4xlarge", "2xlarge"))
    a10g = demand("g5.8xlarge", "standard", "us-east-1", 2, others=others)
    found = cost.of_pool(a10g)
    each = found.to_json()["usdPerHourByType"]
    assert list(each) == ["g5.2xlarge", "g5.4xlarge", "g5.8xlarge"]
    assert each == {name: cost.of_pool(demand(name, "standard", "us-east-1", 1)).usd_per_hour_at_max for name in each}
    assert (found.most_expensive_type, found.usd_per_hour_at_max) == ("g5.8xlarge", 2 * max(each.values()))
    assert "usdPerHourByType" not in cost.of_pool(G6).to_json()
