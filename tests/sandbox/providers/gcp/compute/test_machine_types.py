"""The API answers requests for a machine type by name."""

from __future__ import annotations

import pytest
from pulumi_sandbox.providers.gcp.compute import machine_types


@pytest.mark.parametrize(
    ("name", "vcpus", "memory_gb", "accelerator", "gpus"),
    [
        ("g2-standard-24", 24, 96, "nvidia-l4", 2),
        ("g4-standard-6", 6, 22, "nvidia-rtx-pro-6000", 1),
        ("a2-ultragpu-1g-nolssd", 12, 170, "nvidia-a100-80gb", 1),
        ("n1-standard-8", 8, 30, "", 0),
        ("custom-8-16384", 8, 16, "", 0),
        ("c9-standard-8", None, None, "", 0),
    ],
)
def test_what_a_name_stands_for(
    name: str, vcpus: int | None, memory_gb: float | None, accelerator: str, gpus: int
) -> None:
    found = machine_types.machine(name)
    assert found is not None
    assert (found.vcpus, found.memory_gb, found.accelerator, found.gpus) == (vcpus, memory_gb, accelerator, gpus)


@pytest.mark.parametrize(
    ("name", "card", "spot", "metric"),
    [
        ("g2-standard-8", "", False, "NVIDIA_L4_GPUS"),
        ("g2-standard-8", "", True, "PREEMPTIBLE_NVIDIA_L4_GPUS"),
        ("a3-highgpu-8g", "", False, "GPUS_PER_GPU_FAMILY{gpu_family=NVIDIA_H100}"),
        ("a3-highgpu-8g", "", True, "PREEMPTIBLE_NVIDIA_H100_GPUS"),
        ("n1-standard-8", "nvidia-tesla-t4-vws", True, "PREEMPTIBLE_NVIDIA_T4_GPUS"),
    ],
)
def test_the_quota_that_is_used_up(name: str, card: str, spot: bool, metric: str) -> None:
    chosen = machine_types.machine(name)
    assert chosen is not None
    offer = machine_types.offer_of(chosen, card)
    assert offer is not None
    assert machine_types.quota_metric(offer, spot) == metric
