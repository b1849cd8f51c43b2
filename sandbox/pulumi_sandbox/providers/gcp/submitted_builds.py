"""Emulate builds that a user submits to Cloud Build: `builds.create`, `builds.cancel` and their log in a bucket.

build_steps.py runs the steps. The log is the object log-BUILD.txt in the logsBucket of the build. Cloud Build also
writes it while the build runs (discovery document cloudbuild v1, Build.logsBucket).
"""

from __future__ import annotations

import io
import json
import re
import signal
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pulumi_sandbox.providers.gcp.build_events import BuildEvents
from pulumi_sandbox.providers.gcp.build_steps import BuildFailed, BuildSteps, Docker, Running
from pulumi_sandbox.providers.gcp.discovery import document
from pulumi_sandbox.providers.gcp.machine_apis import error_answer
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage
from pulumi_sandbox.providers.gcp.project_apis import ProjectApis
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.store import World

CREATE = re.compile(r"/v1/projects/([^/]+)/locations/([^/]+)/builds")
CANCEL = re.compile(r"/v1/projects/([^/]+)/locations/[^/]+/builds/([^/:]+):cancel")
_ENDED = ("SUCCESS", "FAILURE", "CANCELLED", "TIMEOUT")
_CLOSE_SEC = 10.0


class SubmittedBuilds:
    """The builds of one server.

    `environment` returns the variables with the addresses of the sandbox's APIs. `docker` returns the docker of a build
    with a service account and substitutions.
    """

    def __init__(
        self,
        world: World,
        projects: ProjectApis,
        storage: ObjectStorage,
        environment: Callable[[], Mapping[str, str]],
        docker: Callable[[str, Mapping[str, str]], Docker],
    ) -> None:
        self._world, self._projects, self._storage, self._environment = world, projects, storage, environment
        self._docker = docker
        self._events = BuildEvents(world, self._start)
        self._running: dict[str, Running] = {}
        self._closing = threading.Event()
        self._lock = threading.Lock()

    def answer(self, call: Call) -> Answer | None:
        """Answer a call, or return None if it is for other methods."""
        if call.method == "POST" and (found := CREATE.fullmatch(call.path)):
            if refusal := self._projects.refusal(call, found[1], "cloudbuild.builds.create"):
                return refusal
            return self._create(found[1], found[2], table(call.body))
        if call.method == "POST" and (found := CANCEL.fullmatch(call.path)):
            if refusal := self._projects.refusal(call, found[1], "cloudbuild.builds.update"):
                return refusal
            return self._cancel(found[2])
        return None

    def close(self) -> None:
        """End all builds. Their processes would otherwise outlive the server."""
        self._closing.set()
        with self._lock:
            for running in self._running.values():
                running.stop(signal.SIGKILL)
        until = time.monotonic() + _CLOSE_SEC
        while self._running and time.monotonic() < until:
            time.sleep(0.01)

    def _create(self, project: str, region: str, build: dict[str, Any]) -> Answer:
        if wrong := list(_wrong_fields("Build", build, "build")):
            return error_answer(400, "INVALID_ARGUMENT", "\n".join(wrong))
        if not rows(build.get("steps")):
            return error_answer(400, "INVALID_ARGUMENT", "invalid build: no steps")
        started = self._start(project, region, build)
        operation = f"operations/build/{project}/{started['id']}"
        return as_json(200, {"name": operation, "metadata": {"build": started}})

    def _start(self, project: str, region: str, build: dict[str, Any]) -> dict[str, Any]:
        number = str(uuid4())
        document = {
            **build,
            "id": number,
            "name": f"projects/{project}/locations/{region}/builds/{number}",
            "projectId": project,
            "status": "WORKING",
            "createTime": _now(),
            "startTime": _now(),
        }
        self._running[number] = Running()
        self._store(document)
        threading.Thread(target=self._run, args=(document, project, region), name="build", daemon=True).start()
        return document

    def _cancel(self, number: str) -> Answer:
        stored = self._world.setting(f"cloudBuild:{number}")
        if stored is None:
            return error_answer(404, "NOT_FOUND", "not found")
        with self._lock:
            running = self._running.get(number)
            if running is None:
                return error_answer(400, "FAILED_PRECONDITION", "the build has ended")
            running.stop(signal.SIGTERM)
        return as_json(200, json.loads(stored))

    def _run(self, document: dict[str, Any], project: str, region: str) -> None:
        number = document["id"]
        running = self._running[number]
        status, detail = "FAILURE", ""
        try:
            with tempfile.TemporaryDirectory(prefix="sandbox-build-") as folder:
                steps = self._steps(document, project, region, Path(folder), running)
                steps.workspace.mkdir()
                self._unpack(table(table(document.get("source")).get("storageSource")), steps.workspace)
                steps.run(rows(document.get("steps")))
            status = "SUCCESS"
        except BuildFailed as failed:
            detail = str(failed)
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
        finally:
            if running.cancelled.is_set():
                status = "CANCELLED"
            self._log(document, f"{status}{f': {detail}' if detail else ''}\n".encode())
            try:
                self._store({**document, "status": status, "statusDetail": detail, "finishTime": _now()})
            finally:
                with self._lock:
                    del self._running[number]

    def _unpack(self, source: Mapping[str, Any], workspace: Path) -> None:
        if source:
            found = self._storage.buckets[str(source["bucket"])][str(source["object"])]
            with tarfile.open(fileobj=io.BytesIO(found.content)) as archive:
                archive.extractall(workspace, filter="data")

    def _steps(self, document: dict[str, Any], project: str, region: str, folder: Path, running: Running) -> BuildSteps:
        known = {
            "BUILD_ID": document["id"],
            "PROJECT_ID": project,
            "LOCATION": region,
            **table(document.get("substitutions")),
        }
        account = str(document.get("serviceAccount") or "")
        return BuildSteps(
            folder,
            account,
            known,
            self._storage,
            self._environment,
            self._docker(account, known),
            partial(self._log, document),
            running,
        )

    def _log(self, document: Mapping[str, Any], content: bytes) -> None:
        bucket, _, prefix = str(document.get("logsBucket") or "").removeprefix("gs://").partition("/")
        if bucket:
            self._storage.append(bucket, f"{prefix.rstrip('/')}/log-{document['id']}.txt".lstrip("/"), content)

    def _store(self, document: Mapping[str, Any]) -> None:
        self._world.set_setting(f"cloudBuild:{document['id']}", json.dumps(document))
        if not self._closing.is_set():
            self._events.publish(document)


def _wrong_fields(schema: str, value: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield Google's message for each field of a request that is unknown to the API or has another type."""
    fields = document("cloudbuild.v1")["schemas"][schema].get("properties", {})
    for name, given in value.items():
        if name not in fields:
            yield f"Invalid JSON payload received. Unknown name \"{name}\" at '{path}': Cannot find field."
            continue
        field, place = fields[name], f"{path}.{_snake(name)}"
        if field.get("type") != "array":
            yield from _wrong_value(field, given, place)
        elif isinstance(given, list):
            for number, each in enumerate(given):
                yield from _wrong_value(field["items"], each, f"{place}[{number}]")
        else:
            yield f"Invalid value at '{place}' (a list), {json.dumps(given)}"


def _wrong_value(field: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    if kind := field.get("$ref"):
        yield from _wrong_fields(kind, table(value), place)
    elif field.get("type") == "string" and not isinstance(value, str):
        yield f"Invalid value at '{place}' (TYPE_STRING), {json.dumps(value)}"
    elif place.rpartition(".")[2].startswith("env[") and "=" not in value:
        yield f"invalid build: '{place}' is not NAME=VALUE: {value}"


def _snake(name: str) -> str:
    """Return the name of a field as in Google's messages, such as storage_source."""
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
