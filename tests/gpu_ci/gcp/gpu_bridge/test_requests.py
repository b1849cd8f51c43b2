"""Each request of a step and of its machine has the form of Google's discovery documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from googleapiclient.http import HttpRequest
from pulumi_sandbox.providers.gcp.discovery import document, methods
from pulumi_sandbox.providers.gcp.object_storage import UPLOAD, StorageServer, _parts

from tests.gpu_ci.cli.doctor.google_apis import compare
from tests.gpu_ci.gcp.gpu_bridge.bridge import Bridge


@pytest.mark.slow
def test_the_requests_of_a_whole_build_are_those_of_googles_apis(
    bridge: Bridge, storage: StorageServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, answer = HttpRequest.__init__, storage.storage.answer
    machines: list[dict[str, Any]] = []
    objects: dict[str, dict[str, Any]] = {}
    parameters: set[str] = set()

    def record(self: HttpRequest, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        if self.methodId == "compute.instances.insert":
            machines.append(json.loads(self.body))

    def served(method: str, target: str, headers: Any, body: bytes, base: str) -> Any:
        url = urlsplit(target)
        query = parse_qs(url.query)
        if UPLOAD.fullmatch(url.path) and "upload_id" not in query:
            kind = query["uploadType"][0]
            given = json.loads(_parts(headers, body)[0] if kind == "multipart" else body)
            objects[given["name"].rpartition("/")[2].partition("-")[0]] = given
        parameters.update(set(query) - {"upload_id"})
        return answer(method, target, headers, body, base)

    monkeypatch.setattr(HttpRequest, "__init__", record)
    monkeypatch.setattr(storage.storage, "answer", served)
    step = bridge.build(folder, "sh", "-c", "echo out; echo made > made.txt", artifacts=["made.txt"])
    assert step.run() == 0
    [machine] = machines
    compare(machine, "compute", "Instance")
    assert {"request.json", "log", "result.json", "artifacts.tar.gz"} < set(objects)
    for each in objects.values():
        compare(each, "storage", "Object")
    calls = methods("storage.v1", "objects")
    known = {name for call in ("get", "insert", "delete") for name in calls[call]["parameters"]}
    assert parameters <= known | set(document("storage.v1")["parameters"])
