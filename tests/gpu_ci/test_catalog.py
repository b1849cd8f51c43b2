"""Facts about GPUs, and what follows from them."""

from __future__ import annotations

import pytest
from gpu_ci.catalog import gcp


def test_a_machine_with_its_gpus_built_in() -> None:
    gpus = gcp.built_in("g2-standard-24")
    assert (gpus.accelerator, gpus.name, gpus.count) == ("nvidia-l4", "NVIDIA L4", 2)
    assert (gpus.memory_gb, gpus.compute_capability) == (24, "8.9")
    assert gpus.boot_disks == ("pd-balanced", "pd-ssd")


def test_gpus_attached_to_n1() -> None:
    gpus = gcp.attached("nvidia-tesla-t4", 4)
    assert (gpus.name, gpus.count, gpus.markets) == ("Tesla T4", 4, ("standard", "spot"))


def test_where_a_gpu_is() -> None:
    gpus = gcp.built_in("g2-standard-8")
    assert gpus.is_in("us-central1-a")
    assert not gpus.is_in("us-central1-f")
    assert gpus.zones_near("us-central1-f") == ("us-central1-a", "us-central1-b", "us-central1-c")


def test_a_region_whose_zones_no_source_names_is_believed() -> None:
    assert gcp.built_in("g4-standard-48").is_in("asia-east1-b")


@pytest.mark.parametrize(("zone", "region"), [("us-central1-a", "us-central1"), ("us-south1-ai1b", "us-south1")])
def test_the_region_of_a_zone(zone: str, region: str) -> None:
    assert gcp.region_of(zone) == region


@pytest.mark.parametrize("machine", gcp.machine_types())
def test_every_machine_type_has_complete_facts(machine: str) -> None:
    if gcp.takes_accelerator(machine):
        return
    gpus = gcp.built_in(machine)
    assert gpus.count > 0
    assert gpus.zones
    assert set(gpus.markets) <= {"standard", "spot", "flex-start", "reservation"}
    assert gpus.markets
    assert set(gpus.boot_disks) <= {"pd-balanced", "pd-ssd", "pd-standard", "hyperdisk-balanced"}
    major, minor = gpus.compute_capability.split(".")
    assert int(major) >= 6, minor


@pytest.mark.parametrize(
    ("machine", "accelerator", "count", "fits"),
    [
        ("n1-standard-8", "nvidia-tesla-t4", 1, True),
        ("n1-standard-64", "nvidia-tesla-t4", 1, False),
        ("n1-standard-64", "nvidia-tesla-t4", 4, True),
        ("n1-highmem-16", "nvidia-tesla-v100", 2, True),
        ("n1-highmem-32", "nvidia-tesla-v100", 2, False),
    ],
)
def test_how_big_an_n1_may_be_for_its_gpus(machine: str, accelerator: str, count: int, fits: bool) -> None:
    assert (gcp.fits(machine, accelerator, count) == "") is fits


def test_four_p100_allow_less_in_some_zones() -> None:
    assert gcp.fits("n1-standard-96", "nvidia-tesla-p100", 4, ("us-west1-a",)) == ""
    assert "64 vCPUs and 208 GB" in gcp.fits("n1-standard-96", "nvidia-tesla-p100", 4, ("us-east1-c",))
