"""The cheapest offers of machines, and the caveats of an offer."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import gpu_catalog as catalog
import pytest
from gpu_catalog.offers import Offer, UnknownDtype, caveats, cheapest, dtypes, lacking, supports

TODAY = date(2026, 11, 21)
MACHINES = catalog.machines()


def offer(machine: str, market: catalog.Market, region: str) -> Offer:
    found = catalog.machine(machine)
    return Offer(found, market, region, catalog.price(found, region, market))


def test_each_family_has_its_cheapest_size_market_and_region_and_unknown_prices_come_last() -> None:
    found = cheapest(MACHINES)
    families = [(each.machine.family, each.machine.gpu.key, each.machine.gpu_count) for each in found]
    assert len(set(families)) == len(families) > 60
    prices = [each.price.usd_per_hour for each in found if each.price]
    assert prices == sorted(prices)
    assert not any(later.price and not earlier.price for earlier, later in pairwise(found))
    for each in found:
        others = (
            price.usd_per_hour
            for other in MACHINES
            if (other.family, other.gpu, other.gpu_count)
            == (each.machine.family, each.machine.gpu, each.machine.gpu_count)
            for market in other.markets
            for region in {*other.regions} - {*other.unlisted_regions}
            if (price := catalog.price(other, region, market))
        )
        if (least := min(others, default=None)) is not None:
            assert each.price is not None, each
            assert each.price.usd_per_hour == least, each


def test_a_market_a_region_and_a_budget_are_kept() -> None:
    found = cheapest(MACHINES, "spot", "us-central1", budget=2.0)
    assert found
    assert {(each.market, each.region) for each in found} == {("spot", "us-central1")}
    assert all(each.price and each.price.usd_per_hour <= 2.0 for each in found)
    assert cheapest(MACHINES, budget=0.01) == []


def test_a_region_that_google_does_not_list_is_offered_only_if_no_other_is() -> None:
    machines = [each for each in MACHINES if each.unlisted_regions]
    assert machines
    for each in cheapest(machines):
        assert each.region not in each.machine.unlisted_regions or not (
            any(
                catalog.price(each.machine, place, each.market)
                for place in each.machine.regions
                if place != each.region
            )
        )
    machine = machines[0]
    [only] = cheapest([machine], region=machine.unlisted_regions[0])
    assert f"Google's page does not list the machine in {only.region}" in " ".join(caveats(only))


@pytest.mark.parametrize(
    ("machine", "dtype", "torch", "fits"),
    [
        ("g2-standard-8", "fp8", None, True),
        ("g5.xlarge", "fp8", None, False),
        ("g5.xlarge", "bf16", None, True),
        ("n1-standard-8+nvidia-tesla-t4x1", "bf16", None, False),
        ("n1-standard-8+nvidia-tesla-t4x1", "int8", "2.15.0", True),
        ("n1-standard-8+nvidia-tesla-p100x1", None, "2.15.0", False),
        ("n1-standard-8+nvidia-tesla-p100x1", None, "2.14.0+cu126", True),
        ("g4ad.xlarge", None, "2.15.0", False),
    ],
)
def test_number_types_and_torch_need_a_gpu_that_runs_them(
    machine: str, dtype: str | None, torch: str | None, fits: bool
) -> None:
    assert supports(catalog.machine(machine), dtype, torch) is fits


def test_an_unknown_number_type_or_torch_is_an_error() -> None:
    assert dtypes() == ("fp32", "fp16", "int8", "bf16", "fp8", "fp4")
    with pytest.raises(UnknownDtype, match="unknown number type 'fp9'"):
        supports(catalog.machine("g2-standard-8"), "fp9")
    with pytest.raises(ValueError, match="not a torch version: 'new'"):
        supports(catalog.machine("g2-standard-8"), None, "new")


@pytest.mark.parametrize(
    ("machine", "market", "region", "text"),
    [
        ("g5.xlarge", "spot", "us-east-1", "of the spot instances were interrupted in a month (2025-06-28)"),
        ("g4-standard-6", "spot", "us-central1", "the machine has 0.125 of a GPU, which needs the vGPU guest driver"),
        ("g5g.xlarge", "standard", "us-east-1", "the processor is arm64"),
        (
            "n1-standard-8+nvidia-tesla-v100x1",
            "spot",
            "us-central1",
            "driver branch 580 is the last one that supports the V100",
        ),
        (
            "n1-standard-8+nvidia-tesla-p100x1",
            "spot",
            "us-central1",
            "the default torch 2.15.0+cu132 has no kernels for compute capability 6.0: take torch 2.14.0+cu126",
        ),
        ("g4-standard-48", "spot", "us-central1", "fp4 is supported only in part"),
    ],
)
def test_a_caveat_says_what_to_consider(machine: str, market: catalog.Market, region: str, text: str) -> None:
    assert text in "; ".join(caveats(offer(machine, market, region), "fp4", "2.15.0"))
    assert list(caveats(offer("g2-standard-8", "spot", "us-central1"), "bf16", "2.15.0")) == []


def test_a_price_is_doubtful_if_it_is_old_undated_or_estimated() -> None:
    assert not offer("g2-standard-8", "spot", "us-central1").is_doubtful(date(2027, 1, 2))
    assert offer("g2-standard-8", "spot", "us-central1").is_doubtful(date(2027, 1, 3))
    assert offer("n1-standard-8+nvidia-tesla-t4x1", "spot", "us-central1").is_doubtful(date(2025, 1, 1))
    assert offer("g5.xlarge", "spot", "us-east-1").is_doubtful(date(2025, 7, 1))
    assert not offer("a2-highgpu-1g", "flex-start", "moon-1").is_doubtful(TODAY)


def test_what_a_machine_lacks_for_a_job_of_another_one_is_listed() -> None:
    small, large, arm = (catalog.machine(name) for name in ("g5.xlarge", "g6e.xlarge", "g5g.xlarge"))
    assert lacking(large, small) == []
    assert lacking(small, large) == ["has 24 GiB of GPU memory, not 48", "has compute capability 8.6, not 8.9"]
    assert lacking(arm, small)[0] == "is arm64, not x86_64"
