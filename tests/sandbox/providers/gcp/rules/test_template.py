"""Rules for instance templates: each refuses what Google refuses, with its words, and accepts what it accepts."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google

SPOT = {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False, "onHostMaintenance": "TERMINATE"}
FLEX = {
    "provisioningModel": "FLEX_START",
    "automaticRestart": False,
    "instanceTerminationAction": "DELETE",
    "maxRunDuration": {"seconds": 3600},
    "onHostMaintenance": "TERMINATE",
}
BOUND = {"provisioningModel": "RESERVATION_BOUND", "onHostMaintenance": "TERMINATE"}
ULTRA = {"machineType": "a3-ultragpu-8g", "disks": [{"sourceImage": "one", "diskType": "hyperdisk-balanced"}]}


def n1(machine: str, card: str, count: int) -> dict[str, Any]:
    disks = [{"sourceImage": "one", "diskType": "pd-standard"}]
    return {"machineType": machine, "guestAccelerators": [{"type": card, "count": count}], "disks": disks}


def flex(seconds: Any, **affinity: Any) -> dict[str, Any]:
    scheduling = {**FLEX, "maxRunDuration": {"seconds": seconds}}
    return {"scheduling": scheduling, **({"reservationAffinity": affinity} if affinity else {})}


def named(*values: str, key: str = "compute.googleapis.com/reservation-name") -> dict[str, Any]:
    return {"type": "SPECIFIC_RESERVATION", "specificReservation": {"key": key, "values": list(values)}}


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
    "flex start for ten minutes": flex(600),
    "flex start for seven days, beside all reservations": flex(604_800, type="NO_RESERVATION"),
    "flex start for a time not known yet": flex(UNKNOWN),
    "a reservation by its name": {"reservationAffinity": named("h200-of-ci")},
    "bound to a reservation": {**ULTRA, "scheduling": BOUND, "reservationAffinity": named("h200-of-ci")},
    "any reservation": {"reservationAffinity": {"type": "ANY_RESERVATION"}},
    "a reservation not known yet": {"scheduling": BOUND, **ULTRA, "reservationAffinity": UNKNOWN},
    "a run time limit on standard": {
        "scheduling": {"onHostMaintenance": "TERMINATE", "maxRunDuration": {"seconds": 60}}
    },
    "metadata of the largest size": {"metadata": {"script": "x" * 262144}},
    "labels": {"labels": {"team": "ci", "größe": "", "a-b_c": "1"}},
    "a name prefix": {"namePrefix": "p" * 54},
}


def test_a_template_that_google_takes_is_accepted(google: Google) -> None:
    assert {
        name: found
        for name, changes in ACCEPTED.items()
        if (found := google.problems(REGION_TEMPLATE, {**TEMPLATE, **changes}))
    } == {}


SPECIFIC = (
    "reservationAffinity.specificReservation: specific_reservation must be set when reservation_affinity is "
    "SPECIFIC_RESERVATION, and not set otherwise"
)
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
    "flex start for less than ten minutes": (
        flex(599),
        [
            (
                "scheduling.maxRunDuration.seconds: must be from 600 (10 minutes) to 604800 (7 days) when "
                "provisioningModel is FLEX_START, got 599"
            )
        ],
    ),
    "flex start for more than seven days": (
        flex(604_801),
        [
            (
                "scheduling.maxRunDuration.seconds: must be from 600 (10 minutes) to 604800 (7 days) when "
                "provisioningModel is FLEX_START, got 604801"
            )
        ],
    ),
    "flex start in a reservation": (
        flex(3600, **named("h200-of-ci")),
        [
            (
                "reservationAffinity.type: must not be SPECIFIC_RESERVATION when provisioningModel is FLEX_START\n"
                "  hint: set type to NO_RESERVATION"
            )
        ],
    ),
    "a specific reservation that is none": (
        {"reservationAffinity": {"type": "SPECIFIC_RESERVATION"}},
        [SPECIFIC],
    ),
    "no reservation and yet one": (
        {"reservationAffinity": {**named("h200-of-ci"), "type": "NO_RESERVATION"}},
        [SPECIFIC],
    ),
    "a reservation without a name": (
        {"reservationAffinity": named(key="")},
        [
            "reservationAffinity.specificReservation.key: must not be empty for a SPECIFIC_RESERVATION",
            "reservationAffinity.specificReservation.values: must not be empty for a SPECIFIC_RESERVATION",
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
