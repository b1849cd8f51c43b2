"""Time limits of VMs, the action at the limit, and use of reservations."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google

SPOT = {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False}
NAMED = {
    "type": "SPECIFIC_RESERVATION",
    "specificReservation": {"key": "compute.googleapis.com/reservation-name", "values": ["one"]},
}


def limited(seconds: Any, **scheduling: Any) -> dict[str, Any]:
    return {"onHostMaintenance": "TERMINATE", "maxRunDuration": {"seconds": seconds}, **scheduling}


ACCEPTED: dict[str, dict[str, Any]] = {
    "thirty seconds": limited(30),
    "a hundred and twenty days": limited(10_368_000),
    "a time not known yet": limited(UNKNOWN),
    "no action, which is to stop": limited(3600),
    "an action at the end of the time": limited(3600, instanceTerminationAction="DELETE"),
    "an action when a Spot VM is taken away": {**SPOT, "instanceTerminationAction": "STOP"},
    "a limited Spot VM": limited(3600, **SPOT),
    "an action under a model not known yet": {
        "onHostMaintenance": "TERMINATE",
        "provisioningModel": UNKNOWN,
        "instanceTerminationAction": "STOP",
    },
}


def test_a_limit_that_google_takes_is_accepted(google: Google) -> None:
    assert {
        name: found
        for name, scheduling in ACCEPTED.items()
        if (found := google.problems(REGION_TEMPLATE, {**TEMPLATE, "scheduling": scheduling}))
    } == {}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "29 seconds": (
        limited(29),
        "scheduling.maxRunDuration.seconds: must be from 30 (30 seconds) to 10368000 (120 days), got 29",
    ),
    "a second more than 120 days, as spot": (
        limited(10_368_001, **SPOT),
        "scheduling.maxRunDuration.seconds: must be from 30 (30 seconds) to 10368000 (120 days), got 10368001",
    ),
    "a limited preemptible VM of the older model": (
        limited(3600, preemptible=True, automaticRestart=False),
        (
            "scheduling.maxRunDuration: cannot be used by a preemptible VM that is not a Spot VM\n"
            "  hint: set provisioningModel to SPOT"
        ),
    ),
    "an action that nothing leads to": (
        {"onHostMaintenance": "TERMINATE", "instanceTerminationAction": "DELETE"},
        (
            "scheduling.instanceTerminationAction: Invalid value for field "
            "'resource.scheduling.instanceTerminationAction': 'DELETE'. You cannot specify a termination action for a "
            "VM instance that has the standard provisioning model (default). To use instance termination action, the "
            "VM instance must use the Spot, Reservation-Bound or Flex Start provisioning model."
        ),
    ),
}


@pytest.mark.parametrize(("scheduling", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_limit_that_google_refuses_is_refused(google: Google, scheduling: dict[str, Any], expected: str) -> None:
    assert google.problems(REGION_TEMPLATE, {**TEMPLATE, "scheduling": scheduling}) == [expected]


@pytest.mark.parametrize("scheduling", [SPOT, {"preemptible": True, "automaticRestart": False}])
def test_what_can_be_taken_away_uses_no_reservation(google: Google, scheduling: dict[str, Any]) -> None:
    asked = {**TEMPLATE, "scheduling": scheduling, "reservationAffinity": NAMED}
    assert google.problems(REGION_TEMPLATE, asked) == [
        (
            "reservationAffinity.type: must not be SPECIFIC_RESERVATION for a Spot VM or a preemptible one, which "
            "cannot consume a reservation\n"
            "  hint: remove reservationAffinity"
        )
    ]
