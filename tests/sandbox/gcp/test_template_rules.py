"""Rules for instance templates: each refuses what Google refuses, with its words, and accepts what it accepts."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.cloud import UNKNOWN
from pulumi_sandbox.providers.gcp_mapping import REGION_TEMPLATE

from tests.sandbox.gcp.conftest import TEMPLATE, Google

SPOT = {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False, "onHostMaintenance": "TERMINATE"}
FLEX = {
    "provisioningModel": "FLEX_START",
    "automaticRestart": False,
    "instanceTerminationAction": "DELETE",
    "maxRunDuration": {"seconds": 3600},
    "onHostMaintenance": "TERMINATE",
}
T4 = [{"type": "nvidia-tesla-t4", "count": 1}]


def disk(kind: str | None) -> dict[str, Any]:
    return {"disks": [{"sourceImage": "one", **({"diskType": kind} if kind else {})}]}


def n1(machine: str, card: str, count: int) -> dict[str, Any]:
    return {"machineType": machine, "guestAccelerators": [{"type": card, "count": count}], **disk("pd-standard")}


ACCEPTED = {
    "as it is": {},
    "an unknown machine type": {"machineType": UNKNOWN},
    "unknown scheduling": {"scheduling": UNKNOWN},
    "spot": {"scheduling": SPOT},
    "spot and preemptible without onHostMaintenance": {
        "scheduling": {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False}
    },
    "preemptible alone": {"scheduling": {"preemptible": True, "automaticRestart": False}},
    "flex start": {"scheduling": FLEX},
    "a run time limit on standard": {
        "scheduling": {"onHostMaintenance": "TERMINATE", "maxRunDuration": {"seconds": 60}}
    },
    "metadata of the largest size": {"metadata": {"script": "x" * 262144}},
    "labels": {"labels": {"team": "ci", "größe": "", "a-b_c": "1"}},
    "a name prefix": {"namePrefix": "p" * 54},
}


@pytest.mark.parametrize("changes", ACCEPTED.values(), ids=ACCEPTED)
def test_a_template_that_google_takes_is_accepted(google: Google, changes: dict[str, Any]) -> None:
    assert google.problems(REGION_TEMPLATE, {**TEMPLATE, **changes}) == []


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "live migration by default": (
        {"scheduling": {}},
        [
            (
                "scheduling.onHostMaintenance: Instances with guest accelerators do not support live migration "
                "(got nothing: MIGRATE).\n  hint: set onHostMaintenance to TERMINATE"
            )
        ],
    ),
    "live migration of an attached GPU": (
        {**n1("n1-standard-4", "nvidia-tesla-t4", 1), "scheduling": {"onHostMaintenance": "MIGRATE"}},
        [
            (
                "scheduling.onHostMaintenance: Instances with guest accelerators do not support live migration "
                "(got MIGRATE).\n  hint: set onHostMaintenance to TERMINATE"
            )
        ],
    ),
    "spot as standard": (
        {"scheduling": {"provisioningModel": "SPOT", "onHostMaintenance": "TERMINATE"}},
        [
            "scheduling.preemptible: must be true when provisioningModel is SPOT\n  hint: set preemptible to true",
            (
                "scheduling.automaticRestart: must be false when provisioningModel is SPOT (the default is true)\n"
                "  hint: set automaticRestart to false"
            ),
        ],
    ),
    "preemptible that restarts": (
        {"scheduling": {"preemptible": True, "onHostMaintenance": "TERMINATE"}},
        [
            (
                "scheduling.automaticRestart: must be false when preemptible is true (the default is true)\n"
                "  hint: set automaticRestart to false"
            )
        ],
    ),
    "flex start as spot": (
        {"scheduling": {"provisioningModel": "FLEX_START", "preemptible": True, "onHostMaintenance": "TERMINATE"}},
        [
            (
                "scheduling.automaticRestart: must be false when preemptible is true (the default is true)\n"
                "  hint: set automaticRestart to false"
            ),
            "scheduling.preemptible: must not be true when provisioningModel is FLEX_START",
            (
                "scheduling.automaticRestart: must be false when provisioningModel is FLEX_START (the default is "
                "true)\n"
                "  hint: set automaticRestart to false"
            ),
            "scheduling.instanceTerminationAction: must be DELETE when provisioningModel is FLEX_START, got nothing",
            "scheduling.maxRunDuration: is required when provisioningModel is FLEX_START",
        ],
    ),
    "a reservation that is not named": (
        {"scheduling": {"provisioningModel": "RESERVATION_BOUND", "onHostMaintenance": "TERMINATE"}},
        [
            (
                "reservationAffinity.type: must be SPECIFIC_RESERVATION when provisioningModel is RESERVATION_BOUND, "
                "got nothing"
            )
        ],
    ),
    "metadata too large": (
        {"metadata": {"script": "x" * 262145}},
        [
            (
                "metadata.script: Value for field 'resource.properties.metadata.script' is too large: maximum size "
                "262144 character(s); actual size 262145."
            )
        ],
    ),
    "a startup script too large": (
        {"metadataStartupScript": "ä" * 131073},
        [
            (
                "metadata[\"startup-script\"]: Value for field 'resource.properties.metadata.startup-script' is too "
                "large: "
                "maximum size 262144 character(s); actual size 262146."
            )
        ],
    ),
    "too much metadata together": (
        {"metadata": {"a": "x" * 262144, "b": "x" * 262142}},
        ["metadata: all keys and values together must be less than 524288 bytes, got 524288"],
    ),
    "a metadata key": (
        {"metadata": {"a key": "x"}},
        ['metadata["a key"]: the key "a key" doesn\'t match regexp "^[a-zA-Z0-9-_]{1,128}$"'],
    ),
    "a label's value": (
        {"labels": {"team": "CI"}},
        [
            (
                "labels.team: Label value 'CI' violates format constraints. The value can only contain lowercase "
                "letters, "
                "numeric characters, underscores and dashes. The value can be at most 63 characters long. "
                "International "
                "characters are allowed."
            )
        ],
    ),
    "a label's key": (
        {"labels": {"1st": "x"}},
        [
            (
                "labels[\"1st\"]: Label key '1st' violates format constraints. The key must start with a lowercase "
                "character, can only contain lowercase letters, numeric characters, underscores and dashes. The key "
                "can be "
                "at most 63 characters long. International characters are allowed."
            )
        ],
    ),
    "too many labels": (
        {"labels": {f"label-{index}": "" for index in range(65)}},
        ["labels: expected at most 64 labels, got 65"],
    ),
    "a name and a prefix": (
        {"name": "one", "namePrefix": "two-"},
        ['name: "name": conflicts with namePrefix'],
    ),
    "a prefix too long": (
        {"namePrefix": "p" * 55},
        ['namePrefix: "namePrefix" cannot be longer than 54 characters, name is limited to 63'],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_template_that_google_refuses_is_refused(
    google: Google, changes: dict[str, Any], expected: list[str]
) -> None:
    assert google.problems(REGION_TEMPLATE, {**TEMPLATE, **changes}) == expected
