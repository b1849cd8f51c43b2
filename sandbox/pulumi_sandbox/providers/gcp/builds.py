"""Emulate Cloud Build: builds that a user submits, and builds of triggers that messages start.

build_steps.py runs the steps. The log of a build is the object log-BUILD.txt in its logsBucket, written while the build
runs (discovery document cloudbuild v1, Build.logsBucket). The status detail of a build without this bucket has the last
line of its output.

A build with options.pubsubTopic publishes a message after each change of its status, if its account has
roles/pubsub.publisher on the topic. Without this grant, the sandbox publishes nothing, and writes an event. A message
starts the triggers of its topic. Of a trigger's filter, the sandbox evaluates `_NAME.matches("REGEX")` only. Sources:
cloud.google.com/build/docs/subscribe-build-notifications, cloud.google.com/build/docs/configuring-notifications/
notifiers.
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
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema

from pulumi_sandbox.providers.gcp import machine_apis, types
from pulumi_sandbox.providers.gcp.build_steps import STARTING, BuildFailed, BuildSteps, Running
from pulumi_sandbox.providers.gcp.discovery import document
from pulumi_sandbox.providers.gcp.machine_apis import error_answer
from pulumi_sandbox.providers.gcp.names import last, part
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.store import Record, World

Json = dict[str, Any]
CREATE = re.compile(r"/v1/projects/([^/]+)/locations/([^/]+)/builds")
BUILD = re.compile(r"/v1/projects/([^/]+)/locations/[^/]+/builds/([^/:]+)(:cancel)?")
METADATA_TYPE = "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata"
TOPIC, TOPIC_MEMBER = "gcp:pubsub/topic:Topic", "gcp:pubsub/topicIAMMember:TopicIAMMember"
PUBLISHER_ROLES = ("roles/pubsub.publisher", "roles/pubsub.editor", "roles/pubsub.admin")
_PART = re.compile(r"\$\(body\.message\.([^)]+)\)")
_MATCHES = re.compile(r"""(_[A-Z0-9_]+)\.matches\((["'])(.*)\2\)""")
_SINCE = re.compile(r'create_time>="([^"]+)"')
_PAGE = 1000
_CLOSE_SEC = 10.0


class Builds:
    """The builds of one server. `environment` returns the variables with the addresses of the sandbox's APIs."""

    def __init__(
        self,
        world: World,
        storage: ObjectStorage | None = None,
        environment: Callable[[], Mapping[str, str]] = dict,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._world, self._clock = world, clock
        self._storage, self._environment = storage or ObjectStorage(), environment
        self._running: dict[str, Running] = {}
        self._closing = threading.Event()
        self._lock = threading.Lock()

    def answer(self, call: Call) -> Answer:
        """Answer builds.create, builds.list, builds.get and builds.cancel."""
        if call.method == "POST" and (found := CREATE.fullmatch(call.path)):
            refusal = machine_apis.refusal(self._world, call, found[1], "cloudbuild.builds.create")
            return refusal or self._create(found[1], found[2], table(call.body))
        if call.method == "GET" and (found := CREATE.fullmatch(call.path)):
            refusal = machine_apis.refusal(self._world, call, found[1], "cloudbuild.builds.list")
            return refusal or self._list(f"projects/{found[1]}/locations/{found[2]}/builds/", call.query)
        if (found := BUILD.fullmatch(call.path)) and call.method == ("POST" if found[3] else "GET"):
            permission = f"cloudbuild.builds.{'update' if found[3] else 'get'}"
            if refusal := machine_apis.refusal(self._world, call, found[1], permission):
                return refusal
            stored = self._world.setting(f"cloudBuild:{found[2]}")
            if stored is None:
                return error_answer(404, "NOT_FOUND", "not found")
            return self._cancel(found[2], stored) if found[3] else as_json(200, json.loads(stored))
        return error_answer(404, "NOT_FOUND", f"The sandbox does not serve {call.method} {call.path}.")

    def close(self) -> None:
        """End all builds. Their processes would otherwise outlive the server."""
        self._closing.set()
        with self._lock:
            for running in self._running.values():
                running.stop(signal.SIGKILL)
        self.wait(_CLOSE_SEC)

    def wait(self, sec: float) -> None:
        """Wait until every build has ended."""
        until = time.monotonic() + sec
        while self._running and time.monotonic() < until:
            time.sleep(0.01)

    def _now(self) -> str:
        return self._clock().isoformat().replace("+00:00", "Z")

    # -- methods of the API -------------------------------------------------------------------------------------------

    def _create(self, project: str, region: str, build: Json) -> Answer:
        if wrong := sorted(f"invalid build: {each.json_path}: {each.message}" for each in _schema().iter_errors(build)):
            return error_answer(400, "INVALID_ARGUMENT", "\n".join(wrong))
        if not rows(build.get("steps")):
            return error_answer(400, "INVALID_ARGUMENT", "invalid build: no steps")
        started = self._start(project, region, build)
        metadata = {"@type": METADATA_TYPE, "build": started}
        return as_json(200, {"name": f"operations/build/{project}/{started['id']}", "metadata": metadata})

    def _list(self, prefix: str, query: Mapping[str, list[str]]) -> Answer:
        """Return a page of the builds of a region, the newest first. Of filters, only create_time>= is known."""
        text = _one(query, "filter")
        since = _SINCE.fullmatch(text)
        if text and not since:
            return error_answer(400, "INVALID_ARGUMENT", f"the sandbox does not evaluate the filter {text}")
        builds = [json.loads(each) for each in self._world.settings("cloudBuild:")]
        found = [
            each for each in sorted(builds, key=lambda each: str(each["createTime"]), reverse=True)
            if each["name"].startswith(prefix) and (since is None or each["createTime"] >= since[1])
        ]  # fmt: skip
        begin = int(_one(query, "pageToken") or 0)
        end = begin + min(int(_one(query, "pageSize") or _PAGE), _PAGE)
        more = {"nextPageToken": str(end)} if found[end:] else {}
        return as_json(200, {"builds": found[begin:end], **more})

    def _cancel(self, number: str, stored: str) -> Answer:
        with self._lock:
            running = self._running.get(number)
            if running is None:
                return error_answer(400, "FAILED_PRECONDITION", "the build has ended")
            running.stop(signal.SIGTERM)
        return as_json(200, json.loads(stored))

    # -- one build ----------------------------------------------------------------------------------------------------

    def _start(self, project: str, region: str, build: Json) -> Json:
        number, now = str(uuid4()), self._now()
        own = {"BUILD_ID": number, "PROJECT_ID": project, "LOCATION": region}
        started = {
            **build,
            "id": number,
            "name": f"projects/{project}/locations/{region}/builds/{number}",
            "projectId": project,
            "status": "WORKING",
            "createTime": now,
            "startTime": now,
            "substitutions": {**own, **table(build.get("substitutions"))},
        }
        self._running[number] = Running()
        self._store(started)
        threading.Thread(target=self._run, args=(started,), name="build", daemon=True).start()
        return started

    def _run(self, build: Json) -> None:
        number, account, known = build["id"], str(build.get("serviceAccount") or ""), build["substitutions"]
        running = self._running[number]
        status, detail, output = "FAILURE", "", bytearray()
        ran: Json = {}

        def log(content: bytes) -> None:
            output.extend(content)
            self._log(build, content)

        try:
            with tempfile.TemporaryDirectory(prefix="sandbox-build-") as folder:
                steps = BuildSteps(
                    Path(folder), account, known, self._storage, self._environment, log, self._now, running
                )
                steps.workspace.mkdir()
                self._unpack(table(table(build.get("source")).get("storageSource")), steps.workspace)
                try:
                    steps.run(rows(build.get("steps")))
                finally:
                    ran = _with_times(build, steps)
            status = "SUCCESS"
        except BuildFailed as failed:
            detail = str(failed)
            last_line = output.decode(errors="replace").splitlines()[-1] if output else STARTING
            if not build.get("logsBucket") and not last_line.startswith(STARTING):
                detail += f": {last_line}"
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
        finally:
            if running.cancelled.is_set():
                status = "CANCELLED"
            self._log(build, f"{status}{f': {detail}' if detail else ''}\n".encode())
            end = {"status": status, "statusDetail": detail, "finishTime": self._now()}
            try:
                self._store({**build, **ran, **end})
            finally:
                with self._lock:
                    del self._running[number]

    def _unpack(self, source: Mapping[str, Any], workspace: Path) -> None:
        if source:
            found = self._storage.buckets[str(source["bucket"])][str(source["object"])]
            with tarfile.open(fileobj=io.BytesIO(found.content)) as archive:
                # Python 3.11.2 of Debian 12 has no filter "data".
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(workspace)  # noqa: S202 - the user's own source

    def _log(self, build: Mapping[str, Any], content: bytes) -> None:
        bucket, _, prefix = str(build.get("logsBucket") or "").removeprefix("gs://").partition("/")
        if bucket:
            self._storage.append(bucket, f"{prefix.rstrip('/')}/log-{build['id']}.txt".lstrip("/"), content)

    def _store(self, build: Mapping[str, Any]) -> None:
        self._world.set_setting(f"cloudBuild:{build['id']}", json.dumps(build))
        if not self._closing.is_set():
            self._publish(build)

    # -- messages -----------------------------------------------------------------------------------------------------

    def _publish(self, build: Mapping[str, Any]) -> None:
        """Publish the status of a build to its topic, and start the builds of the topic's triggers."""
        name = str(table(build.get("options")).get("pubsubTopic") or "")
        if not name or not self._may_publish(build, name):
            return
        message = {"attributes": {"buildId": build["id"], "status": build["status"]}, "data": build}
        for trigger in self._world.find(types.TRIGGER):
            if table(trigger.inputs.get("pubsubConfig")).get("topic") == name:
                self._receive(trigger, message)

    def _may_publish(self, build: Mapping[str, Any], name: str) -> bool:
        member = f"serviceAccount:{last(str(build.get('serviceAccount') or ''))}"
        granted = self._world.get(TOPIC, name) is not None and any(
            grant.inputs.get("member") == member
            and grant.inputs.get("role") in PUBLISHER_ROLES
            and last(str(grant.inputs.get("topic"))) == last(name)
            for grant in self._world.find(TOPIC_MEMBER)
        )
        if not granted:
            problem = f"the topic does not exist, or {member} lacks roles/pubsub.publisher"
            self._world.event("publish", TOPIC, name, f"no message about build {build['id']}: {problem}")
        return granted

    def _receive(self, trigger: Record, message: Mapping[str, Any]) -> None:
        build = _of_trigger(trigger)
        values = {
            key: _PART.sub(lambda found: _value(message, found[1]), text)
            for key, text in build["substitutions"].items()
        }
        text = str(trigger.inputs.get("filter") or "")
        condition = _MATCHES.fullmatch(text)
        if text and not condition:
            self._world.event("build", types.TRIGGER, trigger.id, f"the sandbox does not evaluate the filter {text}")
        elif condition is None or re.search(condition[3], values.get(condition[1], "")):
            project, region = part(trigger.id, "projects"), part(trigger.id, "locations")
            self._start(project, region, {**build, "substitutions": values})


def _with_times(build: Json, steps: BuildSteps) -> Json:
    """Return the fields that the steps of a build have changed."""
    timed = [
        {**step, **({"timing": steps.timings[number]} if number in steps.timings else {})}
        for number, step in enumerate(rows(build.get("steps")))
    ]
    return {"steps": timed, "results": {"buildStepOutputs": steps.outputs}}


def _one(query: Mapping[str, list[str]], name: str) -> str:
    return next(iter(query.get(name, [])), "")


def _of_trigger(trigger: Record) -> Json:
    """Return the build of a trigger in the form of the API. Pulumi's package has other names for some fields."""
    build = table(trigger.inputs.get("build"))
    steps = [
        {("env" if key == "envs" else key): value for key, value in table(step).items()}
        for step in rows(build.get("steps"))
    ]
    return {
        **build,
        "steps": steps,
        "substitutions": {str(key): str(value) for key, value in table(trigger.inputs.get("substitutions")).items()},
        "serviceAccount": trigger.inputs.get("serviceAccount"),
        "buildTriggerId": last(trigger.id),
    }


def _value(message: Mapping[str, Any], path: str) -> str:
    """Return a value of the message, or "" if it is missing. The path is such as attributes.status."""
    value: Any = message
    for key in path.split("."):
        value = table(value).get(key)
    return "" if value is None else str(value)


@cache
def _schema() -> jsonschema.Draft7Validator:
    """Return the schema of a build in the discovery document, without other fields."""
    schemas = json.loads(
        json.dumps(document("cloudbuild.v1")["schemas"]).replace('"$ref": "', '"$ref": "#/definitions/')
    )
    definitions = {name: {"additionalProperties": False, **schema} for name, schema in schemas.items()}
    return jsonschema.Draft7Validator({"$ref": "#/definitions/Build", "definitions": definitions})
