"""Run the steps of a build on this computer, one after the other, with the account of the build.

| step | effect |
|---|---|
| entrypoint `gcloud`, `storage cp gs://BUCKET/PREFIX/* FOLDER/` | copies the objects |
| entrypoint `python`, `-m pip install` | none: the sandbox's own environment has the libraries |
| entrypoint `python` | runs the sandbox's Python with these arguments |
| entrypoint `docker` | none: the sandbox has no images |
| `script` | runs the script with a docker and a gcloud that do nothing |

A step finds the APIs of the sandbox in its environment, as the clients of `pulumi-sandbox serve` do. Paths of volumes
and /workspace are folders of the build.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.gcp.names import last
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.machines.metadata import token_of

WORKSPACE = "/workspace"
_NAME = r"[A-Za-z_]\w*"
_SUBSTITUTION = re.compile(rf"\$(?:({_NAME})|{{({_NAME})}})")
STARTING = "Starting Step #"
# Fields of a step with an effect on its end or its values. The steps run one after the other, so waitFor has none.
_IGNORED = {"allowExitCodes", "allowFailure", "secretEnv", "timeout"}
_TERM_SEC = 30.0
_OUTPUT_BYTES = 50_000

FAKE_PROGRAM = """#!/bin/sh
echo "the sandbox does not run ${0##*/} $*"
"""


class BuildFailed(Exception):  # noqa: N818 - a result of a build, no error of the sandbox
    """A step of the build failed."""


@dataclass
class Running:
    """A build that has not ended."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[bytes] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def stop(self, number: signal.Signals) -> None:
        """Send a signal to the process of the step, and start no other process."""
        with self.lock:
            self.cancelled.set()
            if self.process:
                signal_group(self.process, number)

    def start(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start the process of a step. Raise BuildFailed if the build is cancelled."""
        with self.lock:
            if self.cancelled.is_set():
                raise BuildFailed("cancelled")
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        threading.Thread(target=self._kill_late, args=(self.process,), daemon=True).start()
        return self.process

    def _kill_late(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the process if it does not end after a cancellation."""
        while process.poll() is None:
            if self.cancelled.wait(1.0):
                time.sleep(_TERM_SEC)
                signal_group(process, signal.SIGKILL)
                return


@dataclass
class BuildSteps:
    """The steps of one build, in a folder of its own."""

    folder: Path
    account: str
    """The service account of the build."""
    substitutions: Mapping[str, str]
    storage: ObjectStorage
    environment: Callable[[], Mapping[str, str]]
    log: Callable[[bytes], None]
    now: Callable[[], str]
    """Returns the time, as the API writes it."""
    running: Running = field(default_factory=Running)
    timings: dict[int, dict[str, str]] = field(default_factory=dict)
    """The start and the end of each step that was started."""

    @property
    def outputs(self) -> list[str]:
        """What the steps wrote to $BUILDER_OUTPUT/output, in base64 (discovery document cloudbuild v1, Results)."""
        files = [self.folder / f"output-{number}" / "output" for number in self.timings]
        return [
            base64.b64encode(each.read_bytes()[:_OUTPUT_BYTES] if each.is_file() else b"").decode() for each in files
        ]

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def run(self, steps: Iterable[Any]) -> None:
        """Run the steps in order. Raise BuildFailed at the first that fails."""
        self.workspace.mkdir(exist_ok=True)
        for number, step in enumerate(map(table, steps)):
            if self.running.cancelled.is_set():
                raise BuildFailed("cancelled")
            name = str(step.get("id") or number)
            self.log(f"{STARTING}{number} - {name}\n".encode())
            if ignored := sorted(_IGNORED & step.keys()):
                self.log(f"the sandbox ignores {', '.join(ignored)} of this step\n".encode())
            timing = self.timings[number] = {"startTime": self.now()}
            try:
                code = self._step(number, _replaced(step, self.substitutions))
            finally:
                timing["endTime"] = self.now()
            if code:
                raise BuildFailed(f"step {name} failed with code {code}")

    def _step(self, number: int, step: Mapping[str, Any]) -> int:
        """Run a step, and return its exit code."""
        paths = {WORKSPACE: str(self.workspace)}
        for volume in map(table, rows(step.get("volumes"))):
            paths[str(volume["path"])] = str(self.folder / f"volume-{volume['name']}")
        for path in paths.values():
            Path(path).mkdir(exist_ok=True)
        args = [_moved(str(each), paths) for each in step.get("args") or []]
        # The API has the field env, and Pulumi's package has envs.
        given = step.get("env") or step.get("envs") or []
        environment = dict(_moved(str(each), paths).split("=", 1) for each in given)
        (output := self.folder / f"output-{number}").mkdir()
        environment["BUILDER_OUTPUT"] = str(output)
        if isinstance(script := step.get("script"), str):
            return self._script(number, _moved(script, paths), environment)
        match step.get("entrypoint"), args:
            case "gcloud", ["storage", "cp", source, target]:
                return self._copy(source, Path(target))
            case "python", ["-m", "pip", "install", *_]:
                return 0
            case "python", _:
                return self._process([sys.executable, *args], environment)
            case "docker", _:
                self.log(f"the sandbox does not run docker {' '.join(args)}\n".encode())
                return 0
        self.log(b"the sandbox runs only python, docker, gcloud storage cp, and scripts\n")
        return 1

    def _script(self, number: int, script: str, environment: Mapping[str, str]) -> int:
        folder = self.folder / f"step-{number}"
        programs = folder / "bin"
        programs.mkdir(parents=True)
        files = {folder / "script": script, programs / "docker": FAKE_PROGRAM, programs / "gcloud": FAKE_PROGRAM}
        for path, text in files.items():
            path.write_text(text)
            path.chmod(0o755)
        return self._process([str(folder / "script")], environment, str(programs))

    def _process(self, command: Sequence[str], environment: Mapping[str, str], *programs: str) -> int:
        """Run a process, write its output to the log, and return its exit code."""
        complete = {
            "PATH": os.pathsep.join([*programs, str(Path(sys.executable).parent), os.defpath]),
            "HOME": str(self.folder),
            **self.environment(),
            "GOOGLE_OAUTH_ACCESS_TOKEN": token_of(last(self.account)),
            **environment,
        }
        with self.running.start(command, self.workspace, complete) as process:
            assert process.stdout is not None  # noqa: S101 - Popen opens the pipe
            while chunk := os.read(process.stdout.fileno(), 65_536):
                self.log(chunk)
        return process.returncode

    def _copy(self, source: str, target: Path) -> int:
        bucket, _, prefix = source.removeprefix("gs://").removesuffix("*").partition("/")
        self.storage.load()
        found = {name: each for name, each in self.storage.buckets[bucket].items() if name.startswith(prefix)}
        for name, each in found.items():
            (target / last(name)).write_bytes(each.content)
        if not found:
            text = f"ERROR: (gcloud.storage.cp) The following URLs matched no objects or files:\n{source}\n"
            self.log(text.encode())
        return 0 if found else 1


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _replaced(value: Any, known: Mapping[str, str]) -> Any:
    """Replace substitutions in all fields but `script`, as Cloud Build does."""
    if isinstance(value, dict):
        return {name: each if name == "script" else _replaced(each, known) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, known) for each in value]
    if not isinstance(value, str):
        return value
    # Cloud Build leaves unknown names to the shell.
    return _SUBSTITUTION.sub(lambda found: str(known.get(found[1] or found[2], found[0])), value)


def _moved(text: str, paths: Mapping[str, str]) -> str:
    for path, folder in paths.items():
        text = re.sub(rf"{re.escape(path)}(?![\w-])", folder, text)
    return text
