"""Disks of a template: the boot disk, its source, and sizes that Google accepts or refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google

[BOOT] = TEMPLATE["disks"]
BALANCED = "hyperdisk-balanced"
G4 = {"machineType": "g4-standard-48"}


def boot(**changes: Any) -> dict[str, Any]:
    return {"disks": [{**BOOT, **changes}]}


def data(**disk: Any) -> dict[str, Any]:
    return {"disks": [BOOT, {"boot": False, **disk}]}


ACCEPTED: dict[str, dict[str, Any]] = {
    "a first disk that says it does not boot, and does": boot(boot=False),
    "disks not known yet": {"disks": UNKNOWN},
    "a disk not known yet": {"disks": [UNKNOWN]},
    "an image not known yet": boot(sourceImage=UNKNOWN),
    "a boot disk from a snapshot": {"disks": [{"sourceSnapshot": "one", "diskType": "pd-ssd"}]},
    "an empty data disk": data(diskType="pd-standard", diskSizeGb=500),
    "the smallest boot disk": boot(diskSizeGb=10),
    "the largest": boot(diskSizeGb=65_536),
    "a size not known yet": boot(diskSizeGb=UNKNOWN),
    "a small data disk of Hyperdisk Balanced": data(diskType=BALANCED, diskSizeGb=4),
    "a disk of a type whose sizes are not known": data(diskType="hyperdisk-throughput", diskSizeGb=1),
}


def test_disks_that_google_takes_are_accepted(google: Google) -> None:
    assert {
        name: found
        for name, changes in ACCEPTED.items()
        if (found := google.problems(REGION_TEMPLATE, {**TEMPLATE, **changes}))
    } == {}


def sized(index: int, given: int, words: str) -> str:
    return (
        f"disks[{index}].diskSizeGb: Invalid value for field "
        f"'resource.properties.disks[{index}].initializeParams.diskSizeGb': '{given}'. Disk size cannot be {words}."
    )


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no disk": ({"disks": []}, "disks: expected at least one disk, the boot disk"),
    "two that boot": (
        {"disks": [BOOT, {**BOOT, "boot": True}]},
        (
            "disks[1].boot: Only the first disk specified in instance_template can be the boot disk. disk.1.boot was "
            "true"
        ),
    ),
    "nothing to boot": (
        {"disks": [{"diskType": "pd-ssd"}]},
        "disks[0]: Boot disk must have a source specified\n  hint: one of source, sourceImage, sourceSnapshot",
    ),
    "too small a boot disk": (
        boot(diskSizeGb=9),
        sized(0, 9, "smaller than 10 GB for disk type pd-balanced"),
    ),
    "too large a boot disk": (
        boot(diskSizeGb=65_537),
        sized(0, 65_537, "larger than 65536 GB for disk type pd-balanced"),
    ),
    "too small a boot disk of Hyperdisk Balanced": (
        {**G4, **boot(diskType=BALANCED, diskSizeGb=9)},
        sized(0, 9, "smaller than 10 GB for disk type hyperdisk-balanced"),
    ),
    "too small a data disk of Hyperdisk Balanced": (
        data(diskType=BALANCED, diskSizeGb=3),
        sized(1, 3, "smaller than 4 GB for disk type hyperdisk-balanced"),
    ),
    "too small a data disk of no type, which the provider makes a standard disk": (
        data(diskSizeGb=9),
        sized(1, 9, "smaller than 10 GB for disk type pd-standard"),
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_disks_that_google_refuses_are_refused(google: Google, changes: dict[str, Any], expected: str) -> None:
    assert google.problems(REGION_TEMPLATE, {**TEMPLATE, **changes}) == [expected]
