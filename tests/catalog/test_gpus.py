"""GPU models: their names, drivers and quotas."""

from __future__ import annotations

import gpu_catalog as catalog
import pytest


def test_everything_that_can_be_chosen_is_nvidia() -> None:
    assert [each.key for each in catalog.machines() if not catalog.is_nvidia(each)] == []


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("l4", "l4"),
        ("L40S", "l40s"),
        ("A100 80GB", "a100-80gb"),
        ("nvidia-tesla-a100", "a100-40gb"),
        ("nvidia-h100-mega-80gb", "h100"),
        ("nvidia-tesla-t4-vws", "t4"),
        ("NVIDIA L4", "l4"),
        ("RTX PRO 6000", "rtx-pro-6000"),
    ],
)
def test_the_names_of_a_card(name: str, key: str) -> None:
    assert catalog.gpu(name).key == key


def test_every_accelerator_type_names_one_card() -> None:
    assert len(catalog.accelerators()) == len(set(catalog.accelerators())) == 14
    assert {each.accelerator for each in catalog.machines(cloud="gcp")} == set(catalog.accelerators())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a100", "unknown GPU 'a100'; which one: a100-40gb or a100-80gb?"),
        ("h100s", "unknown GPU 'h100s'; did you mean h100?"),
        ("something", "unknown GPU 'something'"),
    ],
)
def test_a_card_there_is_not(name: str, text: str) -> None:
    with pytest.raises(catalog.UnknownGpu) as caught:
        catalog.gpu(name)
    assert str(caught.value) == text
    assert isinstance(caught.value, LookupError)


def test_a_branch_is_within_or_not() -> None:
    volta, blackwell = catalog.driver_branches("v100"), catalog.driver_branches("b200")
    assert volta is not None
    assert blackwell is not None
    assert [branch in volta for branch in (570, 580, 595)] == [True, True, False]
    assert [branch in blackwell for branch in (535, 570, 595)] == [False, True, True]
    assert (volta.certain, blackwell.certain) == (False, True)


@pytest.mark.parametrize(
    ("machine", "market", "metric", "takes"),
    [
        ("g2-standard-24", "standard", "NVIDIA_L4_GPUS", 2),
        ("g2-standard-24", "spot", "PREEMPTIBLE_NVIDIA_L4_GPUS", 2),
        ("g2-standard-24", "flex-start", "PREEMPTIBLE_NVIDIA_L4_GPUS", 2),
        ("a3-highgpu-8g", "standard", "GPUS_PER_GPU_FAMILY{gpu_family=NVIDIA_H100}", 8),
        ("a3-highgpu-8g", "spot", "PREEMPTIBLE_NVIDIA_H100_GPUS", 8),
        ("n1-standard-8+nvidia-tesla-t4x4", "spot", "PREEMPTIBLE_NVIDIA_T4_GPUS", 4),
        ("g4-standard-6", "standard", "GPUS_PER_GPU_FAMILY{gpu_family=NVIDIA_RTX_PRO_6000}", 1),
        ("g6.12xlarge", "standard", "L-DB2E81BA", 48),
        ("g6.12xlarge", "spot", "L-3819A6DF", 48),
        ("p4d.24xlarge", "spot", "L-7212CCBC", 96),
        ("p5.48xlarge", "spot", "L-C4BD4855", 192),
    ],
)
def test_the_quota_a_machine_draws_from(machine: str, market: str, metric: str, takes: int) -> None:
    quota = catalog.quota_metric(machine, market)
    assert quota is not None
    assert (quota.metric, quota.per_machine, quota.certain) == (metric, takes, True)


def test_google_counts_gpus_of_all_regions_too() -> None:
    assert [each.metric for each in catalog.quota_metrics("g2-standard-8", "spot")] == [
        "PREEMPTIBLE_NVIDIA_L4_GPUS",
        "GPUS_ALL_REGIONS",
    ]
    assert [each.metric for each in catalog.quota_metrics("g6.xlarge", "spot")] == ["L-3819A6DF"]


def test_the_spot_quota_of_p6_is_disputed() -> None:
    quota = catalog.quota_metric("p6-b200.48xlarge", "spot")
    assert quota is not None
    assert (quota.metric, quota.alternatives, quota.certain) == ("L-7212CCBC", ("L-C4BD4855",), False)


def test_a_machine_that_is_not_sold_this_way_draws_from_no_quota() -> None:
    assert catalog.quota_metric("a3-highgpu-1g", "standard") is None
    assert catalog.quota_metrics("a4x-highgpu-4g", "spot") == ()


def test_images_for_machines() -> None:
    assert [each.ami_type for each in catalog.ami_types("g5g.xlarge")] == [
        "AL2023_ARM_64_NVIDIA",
        "BOTTLEROCKET_ARM_64_NVIDIA",
        "BOTTLEROCKET_ARM_64_NVIDIA_FIPS",
    ]
    assert [each.ami_type for each in catalog.ami_types("g7.2xlarge")] == ["AL2023_x86_64_NVIDIA"]
    assert len(catalog.ami_types()) == 23
    assert {each.retired for each in catalog.ami_types() if each.os == "al2"} == {"2025-11-26"}
    for machine in catalog.machines(cloud="aws"):
        assert {each.architecture for each in catalog.ami_types(machine)} == {machine.architecture}


def test_an_unknown_market_is_refused() -> None:
    with pytest.raises(catalog.UnknownMarket, match="did you mean spot"):
        catalog.market("spott")
