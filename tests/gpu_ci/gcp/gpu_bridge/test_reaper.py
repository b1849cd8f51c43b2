"""The reaper: which machines it deletes, and its requests to Cloud Build."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

import httplib2  # type: ignore[import-untyped]
import pytest
from google.auth.credentials import AnonymousCredentials
from gpu_ci.gcp.gate import google_service
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.gpu_bridge import __main__ as program
from gpu_ci.gcp.gpu_bridge.reaper import GoogleBuilds

NOW = 1_800_000_000


def reaped(monkeypatch: pytest.MonkeyPatch, build: Any, *names: str, errors: Any = None, **changes: str) -> list[str]:
    """Run the command `reap` in a project with machines of these names. Return those that it deleted."""
    given = {"ttl": str(NOW + 60), "status": "RUNNING", **changes}
    labels = {"gpu-ci-bridge": "l4", "gpu-ci-build": "b", "gpu-ci-ttl": given["ttl"]}
    rows = [{"name": name, "zone": "x/zones/z-a", "status": given["status"], "labels": labels} for name in names]
    deleted: list[str] = []

    def delete(project: str, zone: str, name: str) -> None:
        if error := (errors or {}).get(name):
            raise error
        deleted.append(f"{project} {zone} {name}")

    def status(project: str, region: str, build_id: str) -> str:
        assert (project, region, build_id) == ("acme-ci", "global", "b")
        if isinstance(build, ApiError):
            raise build
        return str(build)

    def listed(project: str, expression: str, fields: object) -> list[dict[str, Any]]:
        assert (project, expression) == ("acme-ci", "labels.gpu-ci-bridge=l4")
        return rows

    compute = SimpleNamespace(instances_of_all_zones=listed, delete=delete)
    monkeypatch.setattr(program, "GoogleCompute", lambda: compute)
    monkeypatch.setattr(program, "GoogleBuilds", lambda: SimpleNamespace(status=status))
    monkeypatch.setattr(program, "cancellation", Event)
    monkeypatch.setattr(program.time, "time", lambda: NOW)
    assert program.main(["reap", "--project", "acme-ci", "--bridge", "l4"]) == 0
    return deleted


@pytest.mark.parametrize("status", ["SUCCESS", "CANCELLED", "EXPIRED"])
def test_the_machine_of_an_ended_build_is_deleted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    assert reaped(monkeypatch, status, "a") == ["acme-ci z-a a"]
    assert capsys.readouterr().err.splitlines() == [
        f"gpu-ci: deleting a in z-a: its build has ended ({status})",
        "gpu-ci: deleted 1 machine",
    ]


@pytest.mark.parametrize("status", ["QUEUED", "WORKING", "STATUS_UNKNOWN", ApiError("notFound", "not found", 404)])
def test_the_machine_of_a_build_that_may_run_stays(monkeypatch: pytest.MonkeyPatch, status: Any) -> None:
    assert reaped(monkeypatch, status, "a") == []


@pytest.mark.parametrize("changes", [{"ttl": str(NOW)}, {"ttl": "never"}, {"status": "TERMINATED"}])
def test_a_machine_that_no_step_can_need_is_deleted(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]) -> None:
    assert reaped(monkeypatch, "WORKING", "a", **changes) == ["acme-ci z-a a"]


def test_an_error_about_one_machine_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = {"a": ApiError("forbidden", "Forbidden", 403), "b": ApiError("notFound", "b was not found", 404)}
    assert reaped(monkeypatch, "FAILURE", "a", "b", "c", errors=errors) == ["acme-ci z-a c"]
    assert "could not delete a in z-a: Forbidden" in capsys.readouterr().err


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
