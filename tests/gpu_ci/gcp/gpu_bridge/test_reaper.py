"""The reaper, with the machines and builds of Google's own clients."""

from __future__ import annotations

from threading import Event
from typing import Any

import httplib2  # type: ignore[import-untyped]
import pytest
from google.auth.credentials import AnonymousCredentials
from gpu_ci.gcp.gate import google_service
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.gpu_bridge import __main__ as program
from gpu_ci.gcp.gpu_bridge.reaper import GoogleBuilds, reap

NOW = 1_800_000_000


class Google:
    """A project with machines. `errors` has the error of each deletion."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.deleted: list[tuple[str, str]] = []
        self.errors: dict[str, ApiError] = {}
        self.statuses: dict[str, str] = {}
        self.region = "us-central1"

    def add(self, name: str, *, ttl: str = str(NOW + 60), status: str = "RUNNING", **labels: str) -> None:
        given = {"gpu-ci-bridge": "l4", "gpu-ci-build": "b", "gpu-ci-build-region": "us-central1", "gpu-ci-ttl": ttl}
        self.rows.append(
            {"name": name, "zone": "https://x/zones/us-central1-a", "status": status, "labels": {**given, **labels}}
        )

    def instances_of_all_zones(self, project: str, expression: str, fields: Any) -> list[dict[str, Any]]:
        assert (project, expression) == ("acme-ci", "labels.gpu-ci-bridge:*")
        return self.rows

    def delete(self, project: str, zone: str, name: str) -> str:
        self.deleted.append((zone, name))
        if error := self.errors.get(name):
            raise error
        return "operation"

    def status(self, project: str, region: str, build: str) -> str:
        assert (project, region) == ("acme-ci", self.region)
        if build not in self.statuses:
            raise ApiError("notFound", "Requested entity was not found.", 404)
        return self.statuses[build]


@pytest.fixture
def google() -> Google:
    return Google()


def reaped(google: Google, bridge: str = "*") -> list[tuple[str, str]]:
    found = reap(google, google, "acme-ci", NOW, print, bridge)  # type: ignore[arg-type]
    return [(each.name, each.why) for each in found]


@pytest.mark.parametrize("status", ["SUCCESS", "CANCELLED", "EXPIRED"])
def test_the_machine_of_an_ended_build_is_deleted(google: Google, status: str) -> None:
    google.add("a")
    google.statuses["b"] = status
    assert reaped(google) == [("a", f"its build has ended ({status})")]
    assert google.deleted == [("us-central1-a", "a")]


@pytest.mark.parametrize("status", ["QUEUED", "WORKING", "STATUS_UNKNOWN", None])
def test_the_machine_of_a_build_that_may_run_stays(google: Google, status: str | None) -> None:
    google.add("a")
    if status:
        google.statuses["b"] = status
    assert (reaped(google), google.deleted) == ([], [])


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({"ttl": str(NOW)}, "its time is over"),
        ({"ttl": "never"}, "it has no valid label gpu-ci-ttl"),
        ({"status": "TERMINATED"}, "it is off"),
    ],
)
def test_a_machine_that_no_step_can_need_is_deleted(google: Google, labels: dict[str, str], why: str) -> None:
    google.add("a", **labels)
    google.statuses["b"] = "WORKING"
    assert reaped(google) == [("a", why)]


def test_an_error_about_one_machine_does_not_stop_the_others(
    google: Google, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c"):
        google.add(name, ttl="1")
    google.errors = {
        "a": ApiError("forbidden", "Forbidden", 403),
        "b": ApiError("notFound", "b was not found", 404),
    }
    assert [name for name, _ in reaped(google)] == ["c"]
    assert "could not delete a in us-central1-a: Forbidden" in capsys.readouterr().out


def test_the_command_reap_names_what_it_deleted(
    google: Google, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    google.add("a", ttl="1")
    monkeypatch.setattr(program, "GoogleCompute", lambda: google)
    monkeypatch.setattr(program, "GoogleBuilds", lambda: google)
    monkeypatch.setattr(program, "cancellation", Event)
    assert program.main(["reap", "--project", "acme-ci"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "gpu-ci: deleting a in us-central1-a: its time is over",
        "gpu-ci: deleted 1 machine",
    ]


def test_the_address_of_another_cloud_build_contains_the_version_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Connection:
        def request(self, uri: str, *_: Any, **__: Any) -> tuple[httplib2.Response, bytes]:
            asked.append(uri)
            return httplib2.Response({"status": "200"}), b'{"status": "CANCELLED"}'

    monkeypatch.setenv("GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT", "http://127.0.0.1:1/cloudbuild/v1/")
    monkeypatch.setattr(google_service, "credentials", lambda *_: AnonymousCredentials())  # type: ignore[no-untyped-call]
    monkeypatch.setattr(google_service.GoogleService, "_connection", lambda _: Connection())
    assert GoogleBuilds().status("acme-ci", "us-central1", "b") == "CANCELLED"
    assert asked == ["http://127.0.0.1:1/cloudbuild/v1/projects/acme-ci/locations/us-central1/builds/b?alt=json"]
