"""Machine types, GPUs, boot disks, regions and purchase models of an instance template."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE
from pulumi_sandbox.providers.gcp.types import TEMPLATE as GLOBAL_TEMPLATE

from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google

SPOT = {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False, "onHostMaintenance": "TERMINATE"}
T4 = [{"type": "nvidia-tesla-t4", "count": 1}]


def disk(kind: str | None) -> dict[str, Any]:
    return {"disks": [{"sourceImage": "one", **({"diskType": kind} if kind else {})}]}


def n1(machine: str, card: str, count: int) -> dict[str, Any]:
    return {"machineType": machine, "guestAccelerators": [{"type": card, "count": count}], **disk("pd-standard")}


ACCEPTED: dict[str, dict[str, Any]] = {
    "the type's own accelerator": {"guestAccelerators": [{"type": "nvidia-l4", "count": 1}]},
    "no GPU and live migration": {"machineType": "e2-standard-4", "scheduling": {"onHostMaintenance": "MIGRATE"}},
    "a series that is not known": {"machineType": "c9-standard-8", "scheduling": {}},
    "G2 with custom memory": {"machineType": "g2-custom-8-49152"},
    "without local SSD": {"machineType": "a2-ultragpu-1g-nolssd"},
    "N1 with a T4": n1("n1-standard-8", "nvidia-tesla-t4", 1),
    "N1 with a T4 workstation": n1("n1-standard-8", "nvidia-tesla-t4-vws", 1),
    "custom N1 with a T4": n1("custom-8-16384", "nvidia-tesla-t4", 1),
    "the largest N1 for two V100": n1("n1-highmem-16", "nvidia-tesla-v100", 2),
    "no disk type on N1": {**n1("n1-standard-8", "nvidia-tesla-t4", 1), **disk(None)},
    "a disk that exists, whose type is its own": {"disks": [{"source": "one"}]},
    "hyperdisk on A3 Ultra": {"machineType": "a3-ultragpu-8g", "scheduling": SPOT, **disk("hyperdisk-balanced")},
    "a data disk of any type": {
        "disks": [{"sourceImage": "one", "diskType": "pd-ssd"}, {"boot": False, "diskType": "pd-standard"}]
    },
    "A3 High spot": {"machineType": "a3-highgpu-1g", "scheduling": SPOT},
    "A4X reserved": {
        "machineType": "a4x-highgpu-4g",
        **disk("hyperdisk-balanced"),
        "scheduling": {"provisioningModel": "RESERVATION_BOUND", "onHostMaintenance": "TERMINATE"},
        "reservationAffinity": {
            "type": "SPECIFIC_RESERVATION",
            "specificReservation": {"key": "compute.googleapis.com/reservation-name", "values": ["one"]},
        },
    },
}


def test_a_machine_that_google_has_is_accepted(google: Google) -> None:
    assert {
        name: found
        for name, changes in ACCEPTED.items()
        if (found := google.problems(REGION_TEMPLATE, {**TEMPLATE, **changes}))
    } == {}


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a machine type misspelt": (
        {"machineType": "g2-standrd-8"},
        ['machineType: "g2-standrd-8" is not a machine type\n  hint: did you mean g2-standard-8?'],
    ),
    "a size there is not": (
        {"machineType": "n1-standard-3"},
        ['machineType: "n1-standard-3" is not a machine type\n  hint: did you mean n1-standard-32?'],
    ),
    "no machine type at all": (
        {"machineType": "Large"},
        ['machineType: "Large" is not a machine type'],
    ),
    "too much custom memory": (
        {"machineType": "g2-custom-8-65536"},
        ['machineType: "g2-custom-8-65536" is not a machine type'],
    ),
    "another GPU than the type's": (
        {"guestAccelerators": T4},
        [
            (
                "guestAccelerators[0]: g2-standard-8 comes with 1 x nvidia-l4; 1 x nvidia-tesla-t4 cannot be added\n"
                "  hint: remove guestAccelerators"
            )
        ],
    ),
    "another count than the type's": (
        {"guestAccelerators": [{"type": "nvidia-l4", "count": 2}]},
        [
            (
                "guestAccelerators[0]: g2-standard-8 comes with 1 x nvidia-l4; 2 x nvidia-l4 cannot be added\n"
                "  hint: remove guestAccelerators"
            )
        ],
    ),
    "a GPU on E2": (
        {"machineType": "e2-standard-4", "guestAccelerators": T4},
        [
            (
                "guestAccelerators[0]: e2-standard-4 takes no GPU; only N1 machine types (not shared-core ones) take "
                "attached GPUs"
            )
        ],
    ),
    "a GPU that is not attached": (
        n1("n1-standard-8", "nvidia-l4", 1),
        [
            (
                "guestAccelerators[0].type: nvidia-l4 cannot be attached to N1 machine types; these can: "
                "nvidia-tesla-t4 "
                "nvidia-tesla-p4 nvidia-tesla-v100 nvidia-tesla-p100"
            ),
        ],
    ),
    "three T4": (
        n1("n1-standard-8", "nvidia-tesla-t4", 3),
        ["guestAccelerators[0].count: expected one of 1, 2, 4 GPUs of type nvidia-tesla-t4, got 3"],
    ),
    "too many vCPUs for one V100": (
        n1("n1-standard-16", "nvidia-tesla-v100", 1),
        ["machineType: n1-standard-16 (16 vCPUs, 60 GB) is larger than 1 x nvidia-tesla-v100 allows: 12 vCPUs, 78 GB"],
    ),
    "too much memory for one P100": (
        n1("custom-16-131072", "nvidia-tesla-p100", 1),
        [
            (
                "machineType: custom-16-131072 (16 vCPUs, 128 GB) is larger than 1 x nvidia-tesla-p100 allows: 16 "
                "vCPUs, "
                "104 GB"
            )
        ],
    ),
    "a standard disk on G2": (
        disk("pd-standard"),
        ["disks[0].diskType: [pd-standard] features are not compatible with g2-standard-8; use pd-balanced or pd-ssd"],
    ),
    "no disk type on G2, which the provider makes a standard disk": (
        disk(None),
        [
            (
                "disks[0].diskType: [pd-standard] features are not compatible with g2-standard-8 (the provider's "
                "default, because no disk type is set); use pd-balanced or pd-ssd"
            )
        ],
    ),
    "a persistent disk on A4": (
        {"machineType": "a4-highgpu-8g", "scheduling": SPOT, **disk("pd-ssd")},
        ["disks[0].diskType: [pd-ssd] features are not compatible with a4-highgpu-8g; use hyperdisk-balanced"],
    ),
    "a disk type's URL": (
        disk("zones/us-central1-a/diskTypes/pd-ssd"),
        [
            (
                "disks[0].diskType: expected a disk type without a URL, got zones/us-central1-a/diskTypes/pd-ssd\n"
                "  hint: use pd-ssd"
            )
        ],
    ),
    "not for sale on demand": (
        {"machineType": "a3-highgpu-1g"},
        ["scheduling.provisioningModel: a3-highgpu-1g is not offered as STANDARD; it is offered as SPOT, FLEX_START"],
    ),
    "a region without the machine": (
        {"region": "africa-south1"},
        ["region: g2-standard-8 is not available in any zone of africa-south1"],
    ),
    "a region without the card": (
        {"region": "europe-north1", **n1("n1-standard-8", "nvidia-tesla-t4", 1)},
        [
            (
                "region: nvidia-tesla-t4 is not available in any zone of europe-north1\n  hint: the nearest regions "
                "with it: europe-central2, europe-west1, europe-west2, europe-west3"
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_machine_that_google_does_not_have_is_refused(
    google: Google, changes: dict[str, Any], expected: list[str]
) -> None:
    assert google.problems(REGION_TEMPLATE, {**TEMPLATE, **changes}) == expected


def test_a_template_for_every_region_is_not_held_to_one(google: Google) -> None:
    assert google.problems(GLOBAL_TEMPLATE, {**TEMPLATE, "region": "africa-south1"}) == []
