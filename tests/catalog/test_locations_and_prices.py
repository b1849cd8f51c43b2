"""The regions of machines, and their prices there."""

from __future__ import annotations

import gpu_catalog as catalog
import pytest


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-central1-a", "us-central1"),
        ("us-south1-ai1b", "us-south1"),
        ("europe-west4-ai1a", "europe-west4"),
        ("us-east-1a", "us-east-1"),
        ("us-gov-west-1b", "us-gov-west-1"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-central1", "us-central1"),
        ("IN2", "IN2"),
    ],
)
def test_the_region_of_a_zone(zone: str, region: str) -> None:
    assert catalog.region_of(zone) == region


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("europe-west5", "europe-west1"),
        ("eu-west-9", "eu-west-1"),
        ("asia-west1", "asia-east1"),
        ("australia-east1", "australia-southeast1"),
        ("us-centrall1", "us-central1"),
        ("eurpoe-west4", "europe-west4"),
        ("uscentral1", "us-central1"),
        ("mars-north1", ""),
    ],
)
def test_a_region_that_was_probably_meant_is_of_the_same_continent(given: str, meant: str) -> None:
    assert catalog.closest_location(given, catalog.regions()) == meant


def test_the_zones_and_regions_of_a_gpu() -> None:
    machine = catalog.machine("g2-standard-8")
    assert machine.is_in("us-central1-a")
    assert machine.is_in("us-central1")
    assert not machine.is_in("us-central1-f")
    assert not machine.is_in("africa-south1-a")
    assert machine.zones_near("us-central1-f") == ("us-central1-a", "us-central1-b", "us-central1-c")
    assert catalog.zones(machine, "us-east4") == ("us-east4-a", "us-east4-c")
    assert len(catalog.regions(machine)) == 18


def test_a_region_whose_zones_no_source_names_is_believed() -> None:
    machine = catalog.machine("g4-standard-48")
    assert machine.is_in("asia-east1-b")
    assert "asia-east1" in machine.regions
    assert catalog.zones(machine, "asia-east1") == ()


@pytest.mark.parametrize(
    ("machine", "gone", "stays"),
    [
        ("a3-highgpu-8g", "asia-northeast1-b", "us-central1-a"),
        ("a3-megagpu-8g", "asia-east1-c", "asia-northeast1-b"),
        ("a3-ultragpu-8g", "us-east1-d", "us-east4-b"),
        ("a3-ultragpu-8g", "us-east5-a", "us-south1-b"),
        ("a3-edgegpu-8g", "us-central1-a", "asia-south1-c"),
    ],
)
def test_a_region_google_has_withdrawn_the_gpu_from_does_not_have_it(machine: str, gone: str, stays: str) -> None:
    assert not catalog.machine(machine).is_in(gone)
    assert catalog.machine(machine).is_in(stays)


def test_a_zone_that_only_the_api_names_counts() -> None:
    """Google's page gives P100 in australia-southeast1 as c, the API as b."""
    machine = catalog.attached("n1-standard-4", "nvidia-tesla-p100")
    assert catalog.zones(machine, "australia-southeast1") == ("australia-southeast1-b", "australia-southeast1-c")


def test_a_zone_that_only_the_undated_copy_names_is_marked() -> None:
    undated = {
        catalog.machine("a3-highgpu-1g").machine_type: catalog.machine("a3-highgpu-1g").undated_zones,
        "t4": catalog.attached("n1-standard-4", "nvidia-tesla-t4").undated_zones,
        "g4": catalog.machine("g4-standard-48").undated_zones,  # us-west1-a: an answer of the API of 2026
    }
    assert "us-central1-b" in undated["a3-highgpu-1g"]
    assert "us-central1-a" not in undated["a3-highgpu-1g"]
    assert (undated["t4"], undated["g4"]) == (("southamerica-east1-b",), ())


def test_aws_names_regions_and_no_zones() -> None:
    machine = catalog.machine("g7.2xlarge")
    europe, america = ("eu-central-1", "eu-north-1", "eu-south-2"), ("us-east-1", "us-east-2", "us-west-2")
    assert catalog.regions(machine) == (*europe, *america)
    assert catalog.zones(machine) == ()
    assert machine.is_in("us-east-1a")
    assert not machine.is_in("eu-west-1a")
    assert catalog.regions("p3.2xlarge") == ("us-gov-west-1",)


def test_the_newest_price_is_taken() -> None:
    listed = catalog.price("g2-standard-4", "us-central1", "spot")
    checked = catalog.price("g2-standard-8", "us-central1", "spot")
    assert listed is not None
    assert checked is not None
    assert (round(listed.usd_per_hour, 4), listed.date, listed.sources) == (0.3973, "2026-08-03", ("kgcp",))
    assert (checked.usd_per_hour, checked.date, checked.sources) == (0.5121, "2026-10-04", ("gcc",))


def test_a_price_by_the_word_on_demand() -> None:
    found = catalog.price("g6.xlarge", "us-east-1", "on-demand")
    assert found is not None
    assert (found.usd_per_hour, found.market, found.date, found.estimated) == (0.8048, "standard", "2026-07-20", False)


def test_a_spot_price_on_aws_is_an_estimate_as_old_as_the_saving() -> None:
    found = catalog.price("g4dn.xlarge", "us-east-1", "spot")
    assert found is not None
    assert (found.usd_per_hour, found.date, found.estimated) == (0.1894, "2025-06-28", True)
    assert catalog.interruption("g4dn.xlarge", "us-east-1") == "15-20%"
    assert catalog.interruption("g7.2xlarge", "us-east-1") == ""


def test_an_n1_machine_costs_its_host_and_its_gpus() -> None:
    found = catalog.price("n1-standard-8+nvidia-tesla-t4x4", "us-central1", "standard")
    assert found is not None
    assert found.usd_per_hour == pytest.approx(0.379998 + 4 * 0.35)
    assert found.date is None, "the GPU's part is undated"


@pytest.mark.parametrize(
    ("machine", "region", "market"),
    [
        ("a3-highgpu-1g", "us-central1", "standard"),
        ("a3-ultragpu-8g", "us-central1", "reservation"),
        ("g2-standard-8", "africa-south1", "spot"),
        ("g2-standard-8", "us-central1", "flex-start"),
        ("g6.xlarge", "us-west-2", "standard"),
        ("p5e.48xlarge", "us-east-1", "standard"),
        ("a2-ultragpu-1g-nolssd", "us-central1", "spot"),
        ("n1-standard-32+nvidia-tesla-t4x1", "us-central1", "spot"),
        ("a4x-highgpu-4g", "us-central1", "reservation"),
    ],
)
def test_an_unknown_price_stays_unknown(machine: str, region: str, market: str) -> None:
    assert catalog.price(machine, region, market) is None
