"""GPUs attached to N1 machines."""

from __future__ import annotations

import gpu_catalog as catalog
import pytest


@pytest.mark.parametrize("zone", ["us-east1-c", "europe-west1-b", "europe-west1-d"])
def test_four_p100_allow_less_in_three_zones(zone: str) -> None:
    found = catalog.too_large("n1-standard-96", "nvidia-tesla-p100", 4, (zone,))
    assert found == "4 x nvidia-tesla-p100 takes at most 64 vCPUs and 208 GB; n1-standard-96 has 96 and 360"
    assert catalog.too_large("n1-standard-96", "nvidia-tesla-p100", 4, ("us-west1-a",)) == ""
    assert not catalog.attached("n1-standard-96", "nvidia-tesla-p100", 4).is_in(zone)
    assert catalog.attached("n1-standard-32", "nvidia-tesla-p100", 4).is_in(zone)


def test_a_machine_with_its_gpus() -> None:
    found = catalog.attached("n1-standard-8", "nvidia-tesla-t4", 2)
    assert (found.key, found.gpu.device_name, found.gpu_count) == ("gcp/n1-standard-8+nvidia-tesla-t4x2", "Tesla T4", 2)
    assert (found.vcpus, found.memory_gib, found.attached) == (8, 30, True)
    assert found.markets == ("standard", "spot")


def test_a_custom_machine_takes_gpus_too() -> None:
    assert catalog.attached("custom-8-16384", "nvidia-tesla-t4").memory_gib == 16
    assert catalog.takes_accelerator("n1-custom-8-16384")
    assert not catalog.takes_accelerator("g2-standard-8")


def test_local_disks_depend_on_the_zone() -> None:
    assert catalog.attached("n1-standard-4", "nvidia-tesla-p4").local_disks.only_zones == (
        "northamerica-northeast1-b",
        "us-central1-c",
    )
    assert catalog.attached("n1-standard-4", "nvidia-tesla-v100").local_disks.not_zones == ("us-east1-c",)


@pytest.mark.parametrize(
    ("machine", "card", "count", "error", "text"),
    [
        ("n1-standard-64", "nvidia-tesla-t4", 1, catalog.DoesNotFit, "at most 48 vCPUs and 312 GB"),
        ("n1-standard-8", "nvidia-tesla-t4", 3, catalog.DoesNotFit, "it can have 1, 2, 4"),
        ("n1-standard-8", "nvidia-tesla-t44", 1, catalog.UnknownAccelerator, "did you mean nvidia-tesla-t4?"),
        ("n1-standrd-8", "nvidia-tesla-t4", 1, catalog.UnknownMachine, "did you mean n1-standard-8?"),
        ("n1-standard-8", "nvidia-l4", 1, catalog.UnknownAccelerator, "unknown accelerator that n1 takes 'nvidia-l4'"),
    ],
)
def test_gpus_that_cannot_be_attached_are_an_error(
    machine: str, card: str, count: int, error: type[LookupError], text: str
) -> None:
    with pytest.raises(error, match=text.replace("?", r"\?")):
        catalog.attached(machine, card, count)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("n1-standrd-8", "did you mean n1-standard-8?"),
        ("n2-standard-8", "did you mean g2-standard-8?"),
        ("g2-standrd-8", "did you mean g2-standard-8?"),
        ("L4", "L4 is a GPU, and g2-standard-4 is a machine with it"),
        ("a100", "A100 40GB is a GPU, and a2-highgpu-1g is a machine with it"),
        ("v100", "V100 is a GPU, and n1-standard-4+nvidia-tesla-v100x1 is a machine with it"),
    ],
)
def test_an_unknown_machine_is_answered_with_a_known_one(name: str, hint: str) -> None:
    with pytest.raises(catalog.UnknownMachine) as caught:
        catalog.machine(name)
    assert caught.value.hint == hint


def test_an_n1_machine_alone_has_no_gpu() -> None:
    with pytest.raises(catalog.UnknownMachine, match="attach one"):
        catalog.machine("n1-standard-8")
