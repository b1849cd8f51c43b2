"""Compute Engine limits clients that read a VM too often, too early or too late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.compute import instances_api, vm_store
from pulumi_sandbox.providers.gcp.compute.vm_store import QueryRate
from pulumi_sandbox.providers.machines.metadata import Machine

from tests.sandbox.providers.gcp.api import Api, printed, script
from tests.sandbox.providers.gcp.conftest import Google

WHERE = "zones/us-central1-a/instances/check"


def reason(answer: tuple[int, dict[str, Any]]) -> tuple[int, str]:
    status, body = answer
    return status, body["error"]["errors"][0]["reason"]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_ten_queries_a_minute_and_three_a_second_are_allowed() -> None:
    clock = Clock()
    rate = QueryRate(clock)
    assert [rate.allows() for _ in range(4)] == [True, True, True, False]
    for clock.now in (1, 2, 3, 4, 5, 6, 7):
        assert rate.allows()
    clock.now = 59.9
    assert not rate.allows()
    clock.now = 60
    assert rate.allows()


def test_a_write_beyond_the_rate_is_answered_and_lost() -> None:
    kept: dict[str, dict[str, str]] = {}
    allowed = [True, False, False]

    def write(space: str, key: str, value: str) -> None:
        kept.setdefault(space, {})[key] = value

    machine = Machine(dict, lambda: kept, write, lambda: allowed.pop(0))
    path = "/instance/guest-attributes/gpu-smoke"
    assert [machine.answer("PUT", f"{path}/{key}", {}, "x").status for key in ("one", "two")] == [200, 200]
    assert kept == {"gpu-smoke": {"one": "x"}}
    assert machine.answer("GET", f"{path}/one", {}, "").status == 429


def test_reading_beyond_the_rate_is_refused(api: Api) -> None:
    api.insert(api.google.template(**script("sleep 60")).id)
    found = [reason(api.call("GET", f"{WHERE}/getGuestAttributes", queryPath="gpu-smoke/verdict")) for _ in range(4)]
    assert found == [*[(404, "notFound")] * 3, (429, "rateLimitExceeded")]


def test_a_machine_is_stopping_before_it_is_off_and_its_serial_port_answers_503_then(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vm_store, "STOPPING_SEC", 3600)
    api.insert(api.google.template(**script("echo one; shutdown -h now")).id)
    api.until(lambda: api.instance()["status"] == "STOPPING", "STOPPING")
    assert reason(api.call("GET", f"{WHERE}/serialPort")) == (503, "backendError")
    assert reason(api.call("GET", f"{WHERE}/getGuestAttributes", queryPath="a/b")) == (404, "notFound")


def test_the_serial_port_of_a_machine_that_is_off_is_empty(api: Api) -> None:
    api.insert(api.google.template(**script("echo one; shutdown -h now")).id)
    assert printed(api.off())[0] == "one"
    answer = api.ok("GET", f"{WHERE}/serialPort", start="3")
    assert (answer["contents"], answer["start"], answer["next"]) == ("", "0", "0")


def test_an_account_that_was_made_just_now_is_unknown_to_an_insert(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances_api, "ACCOUNT_SEC", 3600.0)
    email = api.google.make("gcp:serviceaccount/account:Account", "one", {"accountId": "runner"}).outputs["email"]
    account = [{"email": email, "scopes": ["cloud-platform"]}]
    template = api.google.template(serviceAccount={"email": email, "scopes": ["cloud-platform"]}).id
    operation = api.insert(template, serviceAccounts=account)
    assert operation["error"]["errors"] == [
        {
            "code": "EXTERNAL_RESOURCE_NOT_FOUND",
            "message": f"The resource '{email}' of type 'serviceAccount' was not found.",
        }
    ]
    assert api.call("GET", WHERE)[0] == 404
    monkeypatch.setattr(instances_api, "ACCOUNT_SEC", 0.0)
    assert "error" not in api.insert(template, serviceAccounts=account)


@contextmanager
def served(folder: Path, settings: str) -> Iterator[Api]:
    """The Compute Engine API of a sandbox with this sandbox.yaml."""
    google = Google(folder, settings=settings)
    google.cloud.configure(google.config)
    try:
        yield Api(google)
    finally:
        google.cloud.stop()
        google.world.close()


def test_a_machines_serial_port_is_a_terminal_and_its_scripts_output_may_be_elsewhere(tmp_path: Path) -> None:
    with served(tmp_path, "guest:\n  scriptOutput: journal\n  environment: {CONSOLE: '${serialPort}'}\n") as api:
        boot = "echo lost; [ -t 3 ] 3>>$CONSOLE && echo kept >$CONSOLE; shutdown -h now; sleep 60"
        api.insert(api.google.template(**script(boot)).id)
        assert api.off() == "kept\r\n"
