"""Keys of machines and changes of metadata: the requests to Google, their number, and the results of errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_manager.model import Machine
from gpu_manager.ports import Refused, Unavailable

from tests.manager.machine_key import PUBLISHED
from tests.manager.suppliers.compute_engine.conftest import POOL, Google
from tests.manager.suppliers.compute_engine.fake_compute import NAME, ZONE

LABELS = {
    "gpu-ci-manager": "staging",
    "gpu-ci-pool": "l4",
    "gpu-ci-job": "0a1b2c3d4e5f",
    "gpu-ci-template": NAME,
    "gpu-ci-registered-by": "manager",
}


def waiting(google: Google, name: str = "l4-a", status: str = "RUNNING", **others: Any) -> dict[str, Any]:
    metadata = {"fingerprint": "f1", "items": [{"key": "startup-script", "value": "#!/bin/bash"}]}
    return google.api.add(name, status, labels=LABELS, **{"metadata": metadata, **others})


def publish(google: Google, name: str = "l4-a", **changes: Any) -> None:
    row = google.api.machines[ZONE, name]
    value = {"machine": f"{name}-{row['id']}", "certificate": PUBLISHED, **changes}
    google.api.keys[name] = json.dumps(value)


def only(google: Google) -> Machine:
    [machine] = google.machines([POOL])
    return machine


def key_reads(google: Google) -> int:
    return sum(each[0] == "guest attribute" for each in google.api.asked)


def test_a_key_is_read_four_times_in_any_minute_and_no_sooner_than_after_ten_seconds(google: Google) -> None:
    """The agent needs six of the ten queries that Google allows in a minute."""
    waiting(google)
    read_at = []
    for second in range(130):
        before = key_reads(google)
        google.machines([POOL])
        read_at += [second] * (key_reads(google) - before)
        google.now[0] += 1
    assert read_at == [0, 10, 20, 30, 60, 70, 80, 90, 120]


def test_twenty_keys_are_read_in_a_pass_and_the_oldest_reading_comes_first(google: Google) -> None:
    names = [f"l4-{number:02}" for number in range(45)]
    for name in names:
        waiting(google, name)
    counts = []
    for _ in range(3):
        before = key_reads(google)
        google.machines([POOL])
        counts.append(key_reads(google) - before)
        google.now[0] += 1
    assert counts == [20, 20, 5]
    assert {each[3] for each in google.api.asked if each[0] == "guest attribute"} == set(names)


def test_no_key_is_read_of_a_machine_with_a_registration_or_its_own_app(google: Google) -> None:
    items = [{"key": "gpu-agent-registration", "value": "sealed"}]
    waiting(google, metadata={"fingerprint": "f1", "items": items})
    google.api.add("l4-b")
    first, second = google.machines([POOL])
    assert (first.sealed, first.unregistered) == (True, False)
    assert (second.registered_by, second.unregistered) == ("machine", False)
    assert key_reads(google) == 0


@pytest.mark.parametrize(
    "changes",
    [{"machine": "l4-a-1"}, {"certificate": 5}, {"certificate": "A" * 4097}, {"certificate": None}],
)
def test_a_missing_key_or_a_key_of_another_machine_is_ignored(google: Google, changes: dict[str, Any]) -> None:
    waiting(google)
    publish(google, **changes)
    assert only(google).key == ""


def test_a_key_that_cannot_be_read_keeps_no_machine_from_the_list(google: Google) -> None:
    waiting(google)
    publish(google)
    google.api.errors["guest attribute"] = ApiError("rateLimitExceeded", "Quota exceeded", 429)
    assert only(google).key == ""
    google.now[0] += 15
    assert only(google).key == PUBLISHED


def test_the_registration_is_added_to_all_other_metadata(google: Google) -> None:
    """Google replaces the whole metadata."""
    row = waiting(google)
    machine = only(google)
    seen = google.manager.channel.mailbox(machine)
    assert seen.version[1] == {"startup-script": "#!/bin/bash"}
    assert google.manager.channel.send(machine, seen, "sealed")
    assert row["metadata"]["items"] == [
        {"key": "startup-script", "value": "#!/bin/bash"},
        {"key": "gpu-agent-registration", "value": "sealed"},
    ]
    assert only(google).sealed


def test_metadata_that_has_changed_meanwhile_is_left_as_it_is(google: Google) -> None:
    row = waiting(google)
    machine = only(google)
    seen = google.manager.channel.mailbox(machine)
    row["metadata"] = {"fingerprint": "f2", "items": []}
    assert google.manager.channel.send(machine, seen, "sealed") is False
    assert row["metadata"]["items"] == []


def test_another_machine_of_the_same_name_gets_nothing(google: Google) -> None:
    waiting(google)
    machine = only(google)
    waiting(google, id="2000000000000000000")
    with pytest.raises(Unavailable, match="another machine has this name now"):
        google.manager.channel.mailbox(machine)


@pytest.mark.parametrize(
    ("call", "error", "expected"),
    [
        ("instance", ApiError("notFound", "gone", 404), Unavailable),
        ("instance", ApiError("backendError", "down", 503), Unavailable),
        ("instance", ApiError("forbidden", "Required permission", 403), Refused),
        ("set metadata", ApiError("notFound", "gone", 404), Unavailable),
        ("set metadata", ApiError("resourceNotReady", "The resource is not ready", 400), Unavailable),
        ("set metadata", ApiError("forbidden", "Required permission", 403), Refused),
    ],
)
def test_an_error_about_a_missing_machine_is_temporary(
    google: Google, call: str, error: ApiError, expected: type[Exception]
) -> None:
    waiting(google)
    machine = only(google)
    seen = google.manager.channel.mailbox(machine)
    google.api.errors[call] = error
    asks: dict[str, Callable[[], object]] = {
        "instance": lambda: google.manager.channel.mailbox(machine),
        "set metadata": lambda: google.manager.channel.send(machine, seen, "sealed"),
    }
    with pytest.raises(expected):
        asks[call]()
