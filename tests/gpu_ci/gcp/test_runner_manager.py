"""The runner manager on Google Cloud: its key, and its permissions, which match the API calls of its code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httplib2  # type: ignore[import-untyped]
import pytest
from google.auth.credentials import AnonymousCredentials
from gpu_ci.gcp import manager_permissions
from gpu_ci.gcp.gate import google_service
from gpu_ci.gcp.gate.compute_api import GoogleCompute
from gpu_ci.gcp.runner_manager import RunnerManager, RunnerManagerArgs
from gpu_common import google_permissions
from gpu_manager.stores.bucket import BucketStore
from gpu_manager.suppliers.compute_engine.api import Api
from pulumi_sandbox.providers.gcp.discovery import document

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED, build
from tests.manager.stores.fake_storage import FakeStorage

PAGE = (Path(__file__).resolve().parents[3] / "docs/reference/runner-manager.md").read_text(encoding="utf-8")


def deployed() -> Deployment:
    return deploy(lambda: build(RunnerManager, "manager"), computed=COMPUTED)


def test_another_configuration_is_another_revision() -> None:
    def annotations(text: str) -> Any:
        wiring = {"project": "p-123456", "app_key": "projects/other/secrets/key", "machine_accounts": ACCOUNTS}
        args = RunnerManagerArgs(**RunnerManager.EXAMPLE, **wiring, configuration=text)
        made = deploy(lambda: RunnerManager("manager", args), computed=COMPUTED)
        template = made.one("cloudrunv2/workerPool:WorkerPool").inputs["template"]
        assert template["volumes"][0]["secret"]["secret"] == "projects/other/secrets/key"
        return template["annotations"]

    assert annotations('{"a": 1}') == annotations('{"a": 1}') != annotations('{"a": 2}')


ACCOUNTS = {"l4": "gpu-l4@example-ci.iam.gserviceaccount.com", "t4": "gpu-t4@example-ci.iam.gserviceaccount.com"}


class Recorder:
    """Answers every request, and keeps which method of the discovery documents it is."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def request(self, uri: str, method: str = "GET", **_: Any) -> tuple[httplib2.Response, bytes]:
        self.called.add(method_of(method, uri))
        answer = {"name": "operation-1", "status": "DONE", "properties": {}}
        stored = {"generation": "1", "updated": "2026-11-24T20:00:00Z"}
        date = "Tue, 24 Nov 2026 20:00:00 GMT"
        return httplib2.Response({"status": "200", "date": date}), json.dumps(answer | stored).encode()

    def close(self) -> None:
        pass


def method_of(verb: str, uri: str) -> str:
    """Such as compute.instances.insert."""
    path = uri.partition("?")[0].partition("googleapis.com/")[2].removeprefix("upload/")
    for name in ("compute.v1", "storage.v1"):
        found = document(name)
        for resource in found["resources"].values():
            for method in resource.get("methods", {}).values():
                form = re.sub(r"\{\+?\w+\}", "[^/]+", found["servicePath"] + method["path"])
                if method["httpMethod"] == verb and re.fullmatch(form, path):
                    return str(method["id"])
    raise AssertionError(f"{verb} {uri} is no method")


def test_the_roles_have_the_permissions_of_the_calls_that_the_manager_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method of the manager's port to Google is called once; what reaches the wire is the table's keys."""
    monkeypatch.setattr(google_service, "credentials", lambda *_: AnonymousCredentials())  # type: ignore[no-untyped-call]
    recorder = Recorder()
    google = GoogleCompute(0)
    monkeypatch.setattr(google, "_connection", lambda: recorder)
    calls: dict[str, Callable[[], Any]] = {
        "template": lambda: google.template("p", "r", "t"),
        "insert": lambda: google.insert("p", "z", {}, "t"),
        "delete": lambda: google.delete("p", "z", "n"),
        "stop": lambda: google.stop("p", "z", "n"),
        "start": lambda: google.start("p", "z", "n", "i"),
        "operation": lambda: google.operation("p", "z", "o"),
        "operations": lambda: list(google.operations("p", "z", "e")),
        "instance": lambda: google.instance("p", "z", "n"),
        "instances_of_all_zones": lambda: google.instances_of_all_zones("p", "e", ["id"]),
        "guest_attribute": lambda: google.guest_attribute("p", "z", "n", "a/b"),
        "set_metadata": lambda: google.set_metadata("p", "z", "n", "f", {"k": "v"}),
    }
    assert set(calls) == {name for name in vars(Api) if not name.startswith("_")} - {"account", "close"}
    for call in calls.values():
        call()
    assert recorder.called == set(manager_permissions.MACHINES)
    storage = FakeStorage(lambda: 1e9)
    BucketStore(storage.bucket(), "o", "a").take()
    assert {f"storage.objects.{name}" for name in storage.asked} == set(manager_permissions.STATE)


def test_the_page_lists_the_permissions_of_the_roles() -> None:
    section = PAGE.partition("## Permissions\n")[2].partition("\n#")[0]
    listed = re.findall(r"`((?:compute|storage)\.[a-zA-Z.]+)`", section)
    wanted = [*google_permissions.of_calls(manager_permissions.MACHINES),
              *google_permissions.of_calls(manager_permissions.STATE)]  # fmt: skip
    assert listed == wanted
