"""Each API call of step, machine and reaper has the permissions that the component BuildGpuBridge grants."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httplib2  # type: ignore[import-untyped]
import pytest
from google.auth.credentials import AnonymousCredentials
from googleapiclient.http import HttpRequest
from gpu_ci.gcp.gate import google_service
from gpu_ci.gcp.gate.compute_api import GoogleCompute
from gpu_ci.gcp.gpu_bridge import steps
from gpu_ci.gcp.gpu_bridge.follow import BridgeApi
from gpu_ci.gcp.gpu_bridge.reaper import GoogleBuilds
from gpu_common import google_permissions
from pulumi_sandbox.providers.gcp.discovery import document, methods
from pulumi_sandbox.providers.gcp.permissions import Asked, holds
from pulumi_sandbox.providers.machines.metadata import TOKEN

from tests.gpu_ci.cli.doctor.google_apis import compare
from tests.gpu_ci.gcp.gpu_bridge.bridge import Bridge
from tests.gpu_ci.gcp.gpu_bridge.faulty_storage import FaultyServer
from tests.gpu_ci.gcp.test_build_gpu_bridge import BUCKET, build, named
from tests.gpu_ci.harness import Deployment

# Google Cloud documentation "IAM basic and predefined roles reference" (docs.cloud.google.com/iam/docs/
# roles-permissions): the permissions that this test needs.
ROLES = {
    "roles/iam.serviceAccountUser": {"iam.serviceAccounts.actAs"},
    "roles/pubsub.publisher": {"pubsub.topics.publish"},
    "roles/logging.logWriter": {"logging.logEntries.create"},
    "roles/storage.objectCreator": {"storage.objects.create"},
    "roles/storage.objectViewer": {"storage.objects.get", "storage.objects.list"},
}
BUILDS = ("machines", "project", "log-writer", "machine-account-user", "reader", "writer", "build-events-publisher")
MACHINES = ("machine-log-writer", "machine-reader", "machine-writer")
GET, LIST, CREATE, DELETE = (f"storage.objects.{verb}" for verb in ("get", "list", "create", "delete"))
NEEDED = {
    **google_permissions.CALLS,
    "compute.zoneOperations.list": ("compute.zoneOperations.list",),
    "cloudbuild.projects.locations.builds.get": ("cloudbuild.builds.get",),
}
PROGRAM = f"{steps.folder()}/{steps.ARCHIVE}"
BUILD = "builds/7f2c/a1-1/"


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return build()


def has(deployment: Deployment, grants: tuple[str, ...], permission: str, name: str = "") -> bool:
    """Return True if one of the grants has the permission, for an object with this name or a machine of the bridge."""
    machine = f"projects/p/zones/z/{permission.split('.')[1]}/gpu-tests-stack-build-1a2b3c"
    path = machine if permission.startswith("compute.") else f"projects/_/buckets/{BUCKET}/objects/{name}"
    for grant in grants:
        inputs = named(deployment, f"gpu-tests-{grant}")
        own = ROLES.get(inputs["role"]) or named(deployment, f"gpu-tests-{grant}-role")["permissions"]
        condition = inputs.get("condition")
        if permission in own and (not condition or holds(condition["expression"], Asked(path))):
            return True
    return False


class Success:
    """A connection on which each request succeeds."""

    def request(self, *_: Any, **__: Any) -> tuple[httplib2.Response, bytes]:
        return httplib2.Response({"status": "200"}), b'{"name": "o", "id": "1", "status": "DONE", "properties": {}}'


def public(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in vars(base) if not name.startswith("_")}


def test_builds_have_the_permissions_of_every_call_of_the_step_and_the_reaper(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: set[str] = set()
    make = HttpRequest.__init__

    def record(self: HttpRequest, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        called.add(str(self.methodId))

    monkeypatch.setattr(HttpRequest, "__init__", record)
    monkeypatch.setattr(google_service, "credentials", lambda *_: AnonymousCredentials())  # type: ignore[no-untyped-call]
    monkeypatch.setattr(google_service.GoogleService, "_connection", lambda _: Success())
    compute, builds = GoogleCompute(0), GoogleBuilds()
    calls: dict[str, Callable[[], Any]] = {
        "template": lambda: compute.template("p", "r", "t"),
        "insert": lambda: compute.insert("p", "z", {}, "t"),
        "delete": lambda: compute.delete("p", "z", "n"),
        "done": lambda: compute.done("p", "z", "o"),
        "instances": lambda: compute.instances("p", "z", "l", "v"),
        "instances_of_all_zones": lambda: compute.instances_of_all_zones("p", "e", ["id"]),
        "status": lambda: compute.status("p", "z", "n"),
        "guest_attribute": lambda: compute.guest_attribute("p", "z", "n", "a/b"),
        "serial": lambda: compute.serial("p", "z", "n", 0),
        "operations": lambda: list(compute.operations("p", "z", "e")),
    }
    assert set(calls) == public(BridgeApi)
    for call in calls.values():
        call()
    builds.status("p", "us-central1", "b")
    assert called == set(steps.CALLS) == set(NEEDED)
    missing = {one for each in called for one in NEEDED[each] if not has(deployment, BUILDS, one)}
    assert missing == set()


@pytest.mark.slow
def test_every_request_of_a_whole_build_is_one_of_googles_api_and_is_granted(
    bridge: Bridge, storage: FaultyServer, folder: Path, monkeypatch: pytest.MonkeyPatch, deployment: Deployment
) -> None:
    requests: set[tuple[tuple[str, ...], str, str]] = set()
    parameters: set[str] = set()
    machines: list[dict[str, Any]] = []
    make, answer = HttpRequest.__init__, storage.storage.answer

    def record(self: HttpRequest, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        if self.methodId == "compute.instances.insert":
            machines.append(json.loads(self.body))

    def served(method: str, path: str, headers: Any, body: bytes, base: str) -> Any:
        url = urlsplit(path)
        query = parse_qs(url.query)
        parameters.update(set(query) - {"upload_id"})
        who = BUILDS if headers.get("authorization") == f"Bearer {TOKEN}" else MACHINES
        name = query["name"][0] if "name" in query else unquote(url.path.partition("/o/")[2])
        if method == "POST" and not name:
            name = str(re.search(rb'"name": ?"([^"]+)"', body)[1].decode())  # type: ignore[index]
        if name and (verb := {"GET": GET, "POST": CREATE, "DELETE": DELETE}.get(method)):
            requests.add((who, verb, re.sub("[0-9a-f]{64}", "DIGEST", name)))
        return answer(method, path, headers, body, base)

    monkeypatch.setattr(HttpRequest, "__init__", record)
    monkeypatch.setattr(storage.storage, "answer", served)
    step = bridge.build(folder, "sh", "-c", "echo out; echo made > made.txt", artifacts=["made.txt"])
    assert step.run() == 0
    compare(machines[0], "compute", "Instance")
    calls = methods("storage.v1", "objects")
    known = {name for call in ("get", "insert", "delete") for name in calls[call]["parameters"]}
    assert parameters <= known | set(document("storage.v1")["parameters"])
    starts = {(who, verb, name.partition("/")[0]) for who, verb, name in requests}
    assert starts == {
        (BUILDS, CREATE, "sources"),
        *((BUILDS, verb, "requests") for verb in (CREATE, DELETE)),
        (BUILDS, GET, "builds"),
        (MACHINES, CREATE, "builds"),
        *((MACHINES, GET, name) for name in ("requests", "sources")),
    }
    assert {one for one in requests if not has(deployment, *one)} == set()
