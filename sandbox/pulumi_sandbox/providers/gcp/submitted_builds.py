"""Emulate builds that a user submits to Cloud Build: `builds.create`, `builds.cancel` and their log in a bucket.

The steps run on this computer, one after the other, with the account of the build:

| step | effect |
|---|---|
| entrypoint `gcloud`, `storage cp gs://BUCKET/PREFIX/* FOLDER/` | copies the objects |
| entrypoint `python`, `-m pip install` | none: the sandbox's own environment has the libraries |
| entrypoint `python` | runs the sandbox's Python with these arguments |
| `script` | runs the script |

A step finds the APIs of the sandbox in its environment, as the clients of `pulumi-sandbox serve` do. Paths of volumes
and /workspace are folders of the build. The log is the object log-BUILD.txt in the logsBucket of the build. Cloud Build
also writes it while the build runs (discovery document cloudbuild v1, Build.logsBucket).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from pulumi_sandbox.providers.gcp.build_substitutions import replaced
from pulumi_sandbox.providers.gcp.machine_apis import error_answer
from pulumi_sandbox.providers.gcp.names import last
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage
from pulumi_sandbox.providers.gcp.project_apis import ProjectApis
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.machines.metadata import token_of
from pulumi_sandbox.world.store import World

CREATE = re.compile(r"/v1/projects/([^/]+)/locations/([^/]+)/builds")
CANCEL = re.compile(r"/v1/projects/([^/]+)/locations/[^/]+/builds/([^/:]+):cancel")
_ENDED = ("SUCCESS", "FAILURE", "CANCELLED", "TIMEOUT")
_TERM_SEC = 30.0


@dataclass
class Running:
    """A build that has not ended."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[bytes] | None = None


class SubmittedBuilds:
    """The builds of one server. `environment` returns the variables with the addresses of the sandbox's APIs."""

    def __init__(
        self,
        world: World,
        projects: ProjectApis,
        storage: ObjectStorage,
        environment: Callable[[], Mapping[str, str]],
    ) -> None:
        self._world, self._projects, self._storage, self._environment = world, projects, storage, environment
        self._running: dict[str, Running] = {}
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

    def _create(self, project: str, region: str, build: dict[str, Any]) -> Answer:
        if not rows(build.get("steps")):
            return error_answer(400, "INVALID_ARGUMENT", "invalid build: no steps")
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
        self._store(document)
        self._running[number] = Running()
        threading.Thread(target=self._run, args=(document, project, region), name="build", daemon=True).start()
        operation = f"operations/build/{project}/{number}"
        return as_json(200, {"name": operation, "metadata": {"build": document}})

    def _cancel(self, number: str) -> Answer:
        stored = self._world.setting(f"cloudBuild:{number}")
        if stored is None:
            return error_answer(404, "NOT_FOUND", "not found")
        with self._lock:
            running = self._running.get(number)
            if running is None:
                return error_answer(400, "FAILED_PRECONDITION", "the build has ended")
            running.cancelled.set()
            if running.process:
                _signal(running.process, signal.SIGTERM)
        return as_json(200, json.loads(stored))

    def _run(self, document: dict[str, Any], project: str, region: str) -> None:
        number = document["id"]
        running = self._running[number]
        status, detail = "FAILURE", ""
        try:
            with tempfile.TemporaryDirectory(prefix="sandbox-build-") as folder:
                workspace = Path(folder, "workspace")
                workspace.mkdir()
                self._unpack(table(table(document.get("source")).get("storageSource")), workspace)
                detail = self._steps(document, project, region, Path(folder), running)
            status = "CANCELLED" if running.cancelled.is_set() else "FAILURE" if detail else "SUCCESS"
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
        finally:
            self._log(document, f"{status}{f': {detail}' if detail else ''}\n".encode())
            self._store({**document, "status": status, "statusDetail": detail, "finishTime": _now()})
            with self._lock:
                del self._running[number]

    def _unpack(self, source: Mapping[str, Any], workspace: Path) -> None:
        if source:
            found = self._storage.buckets[str(source["bucket"])][str(source["object"])]
            with tarfile.open(fileobj=io.BytesIO(found.content)) as archive:
                archive.extractall(workspace, filter="data")

    def _steps(self, document: dict[str, Any], project: str, region: str, folder: Path, running: Running) -> str:
        """Run the steps. Return the first failure, or an empty text."""
        known = {
            "BUILD_ID": document["id"],
            "PROJECT_ID": project,
            "LOCATION": region,
            **table(document.get("substitutions")),
        }
        for number, step in enumerate(map(table, rows(document.get("steps")))):
            if running.cancelled.is_set():
                return "cancelled"
            name = str(step.get("id") or number)
            self._log(document, f"Starting Step #{number} - {name}\n".encode())
            code = self._step(document, _replaced(step, known), folder, running)
            if code:
                return f"step {name} failed with code {code}"
        return ""

    def _step(self, document: dict[str, Any], step: dict[str, Any], folder: Path, running: Running) -> int:
        """Run a step, and return its exit code."""
        paths = {"/workspace": str(folder / "workspace")}
        for volume in map(table, rows(step.get("volumes"))):
            paths[str(volume["path"])] = str(folder / f"volume-{volume['name']}")
        for path in paths.values():
            Path(path).mkdir(exist_ok=True)
        args = [_moved(str(each), paths) for each in step.get("args") or []]
        entrypoint = step.get("entrypoint")
        if entrypoint == "gcloud" and args[:2] == ["storage", "cp"]:
            return self._copy(args[2], Path(args[3]))
        if entrypoint == "python" and args[:3] == ["-m", "pip", "install"]:
            return 0
        if isinstance(script := step.get("script"), str):
            file = folder / "script"
            file.write_text(_moved(script, paths))
            file.chmod(0o755)
            command = [str(file)]
        elif entrypoint == "python":
            command = [sys.executable, *args]
        else:
            self._log(document, b"the sandbox runs only python, gcloud storage cp, and scripts\n")
            return 1
        given = dict(_moved(str(each), paths).split("=", 1) for each in step.get("env") or [])
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "HOME": str(folder),
            **self._environment(),
            "GOOGLE_OAUTH_ACCESS_TOKEN": token_of(last(str(document.get("serviceAccount") or ""))),
            **given,
        }
        return self._process(document, command, environment, folder / "workspace", running)

    def _process(
        self,
        document: dict[str, Any],
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        running: Running,
    ) -> int:
        with self._lock:
            if running.cancelled.is_set():
                return 1
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            running.process = process
        threading.Thread(target=_kill_late, args=(running, process), daemon=True).start()
        with process:
            assert process.stdout is not None  # noqa: S101 - Popen opens the pipe
            while chunk := os.read(process.stdout.fileno(), 65_536):
                self._log(document, chunk)
        return process.returncode

    def _copy(self, source: str, target: Path) -> int:
        bucket, _, prefix = source.removeprefix("gs://").removesuffix("*").partition("/")
        if load := getattr(self._storage, "load", None):
            load()
        found = {name: each for name, each in self._storage.buckets[bucket].items() if name.startswith(prefix)}
        for name, each in found.items():
            (target / last(name)).write_bytes(each.content)
        return 0 if found else 1

    def _log(self, document: Mapping[str, Any], content: bytes) -> None:
        bucket, _, prefix = str(document.get("logsBucket") or "").removeprefix("gs://").partition("/")
        if bucket:
            self._storage.append(bucket, f"{prefix.rstrip('/')}/log-{document['id']}.txt".lstrip("/"), content)

    def _store(self, document: Mapping[str, Any]) -> None:
        self._world.set_setting(f"cloudBuild:{document['id']}", json.dumps(document))


def _kill_late(running: Running, process: subprocess.Popen[bytes]) -> None:
    """Kill the process if it does not end after a cancellation."""
    while process.poll() is None:
        if running.cancelled.wait(1.0):
            time.sleep(_TERM_SEC)
            _signal(process, signal.SIGKILL)
            return


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _replaced(value: Any, known: Mapping[str, str]) -> Any:
    """Replace substitutions in all fields but `script`, as Cloud Build does."""
    if isinstance(value, dict):
        return {name: each if name == "script" else _replaced(each, known) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, known) for each in value]
    return replaced(value, known) if isinstance(value, str) else value


def _moved(text: str, paths: Mapping[str, str]) -> str:
    for path, folder in paths.items():
        text = re.sub(rf"{re.escape(path)}(?![\w-])", folder, text)
    return text


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
