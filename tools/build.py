"""`make build`: one build of the sandbox's Cloud Build, with a step that runs a command on a GPU machine of a pool.

The sandbox serves Cloud Build, Compute Engine and Cloud Storage on this computer. The program of the step, the boot
agent and the smoke check (on the CPU) are the real ones.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import yaml
from gpu_ci.gcp.gpu_bridge.failures import BY_NAME, BridgeError
from gpu_ci.gcp.gpu_bridge.protocol import BUILD_LABEL
from gpu_ci.gcp.gpu_bridge.workspace import pack
from gpu_ci.kinds.cloud_build_gpu.kind import KIND
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.providers.machines.metadata import operator, token_of
from pulumi_sandbox.workspace import ENDPOINT, Workspace
from pulumi_sandbox.world.store import Fault, World

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
# The sandbox's machines have torch, and no GPU.
_OPTIONS = ["--env", "GPU_SMOKE_DEVICE=cpu"]
# The sandbox keeps the sources of a build in memory.
_SOURCE_MIB = 1024
_POLL_SEC = 0.5
_RUNNING = ("QUEUED", "PENDING", "WORKING")
_CANCELLED, _FAILED = 130, 1


@dataclass(frozen=True)
class Example:
    """A build to run, and what happens while its command runs."""

    command: tuple[str, ...]
    text: str
    cancel_at: str = ""
    """The build is cancelled when its log contains this text."""
    preempt_at: str = ""
    """The machine is preempted when the log contains this text."""


_BEGINS = "the command begins"
_LONG = ("sh", "-c", f"echo {_BEGINS}; sleep 300")
# With --retry-preempted, the command runs to its end on a second machine.
_SHORT = ("sh", "-c", f"echo {_BEGINS}; sleep 30; echo the command ends")
EXAMPLES = {
    "passing": Example(
        ("python3", "-m", "gpu_smoke", "--pool", "build", "--expect-gpus", "1"), "the command is the smoke check"
    ),
    "failing": Example(("sh", "-c", "echo the command fails; exit 7"), "the command exits with 7"),
    "cancelled": Example(_LONG, "the build is cancelled while the command runs", cancel_at=_BEGINS),
    "preempted": Example(_SHORT, "Google preempts the machine while the command runs", preempt_at=_BEGINS),
}


class Project:
    """The APIs of the sandbox for one project and region, as the sandbox's user."""

    def __init__(self, project: str, region: str) -> None:
        self._builds = f"{os.environ['GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT']}projects/{project}/locations/{region}/builds"
        self._storage = os.environ["GOOGLE_STORAGE_CUSTOM_ENDPOINT"].removesuffix("/storage/v1/")
        self._token = token_of(operator(project))

    def submit(self, build: dict[str, Any]) -> str:
        """Create a build, and return its id."""
        answer = json.loads(self._call("POST", self._builds, json.dumps(build).encode()))
        return str(answer["metadata"]["build"]["id"])

    def build(self, number: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._call("GET", f"{self._builds}/{number}"))
        return found

    def cancel(self, number: str) -> None:
        self._call("POST", f"{self._builds}/{number}:cancel", b"{}")

    def upload(self, bucket: str, name: str, content: bytes) -> None:
        self._call("POST", f"{self._storage}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", content)

    def read(self, bucket: str, name: str) -> bytes:
        """Return the content of an object; nothing if it does not exist."""
        try:
            return self._call("GET", f"{self._storage}/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}?alt=media")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return b""
            raise

    def _call(self, method: str, url: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, data=body, method=method, headers=headers)  # noqa: S310 - the sandbox
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - the sandbox
            return bytes(answer.read())


def main() -> int:
    """Return 0 if the build succeeded, 1 if it failed, and 130 if it was cancelled."""
    parser = argparse.ArgumentParser(
        prog="make build", description="Run one build in the sandbox; make up comes first."
    )
    parser.add_argument("--stack", default="staging", help="the stack that is up in the sandbox (default: %(default)s)")
    parser.add_argument("--pool", help=f"the pool of kind {KIND.name} (default: the first one)")
    parser.add_argument("--folder", default=str(ROOT / "smoke"), help="the source of the build (default: %(default)s)")
    parser.add_argument(
        "--option", action="append", default=[], help="an option of the step: --option=--retry-preempted; repeatable"
    )
    parser.add_argument("--example", choices=EXAMPLES, default="passing", metavar="NAME",
                        help=f"the build to run: {', '.join(EXAMPLES)} (default: %(default)s)")  # fmt: skip
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="the command, after --; default: the example's")
    options = parser.parse_args()
    if ENDPOINT not in os.environ or "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT" not in os.environ:
        serve = [str(BIN / "pulumi-sandbox"), "serve", "--exec", "--"]
        again = [*serve, sys.executable, "-m", "tools.build", *sys.argv[1:]]
        return subprocess.run(again, check=False).returncode
    pools = {name: each for name, each in _pools(options.stack).items() if each.get("kind") == KIND.name}
    name = options.pool or next(iter(pools), "")
    if name not in pools:
        return _refused(
            f"no such pool of kind {KIND.name}: {name or 'any'}",
            ", ".join(pools) or "none",
            f"the name of a deployed pool of kind {KIND.name}",
            "run make up; the stack file needs a pool of this kind (docs/guides/cloud-build-gpu.md)",
        )
    folder = options.folder
    if not Path(folder).is_dir():
        return _refused(
            "--folder is not a folder", folder, "a folder with the sources of the build", "correct --folder"
        )
    try:
        source = _packed(Path(folder))
    except BridgeError as error:
        expected, hint = f"a folder with files, at most {_SOURCE_MIB} MiB", error.hint or BY_NAME[error.name].hint
        return _refused(f"the sources cannot be packed: {error.detail}", folder, expected, hint)
    build = yaml.safe_load(pools[name]["cloudbuild"])
    example = EXAMPLES[options.example]
    if options.command:
        example = Example(tuple(options.command), f"the command is {shlex.join(options.command)}")
    _say(f"Running a build in the sandbox's Cloud Build, with the pool {name}.")
    _say(f"Here {example.text}.\n")
    step = build["steps"][-1]
    end = step["args"].index("--")
    step["args"] = [*step["args"][:end], *_OPTIONS, *options.option, "--", *example.command]
    return _run(pools[name], build, source, example)


def _refused(problem: str, got: str, expected: str, hint: str) -> int:
    sys.stderr.write(f"build: {problem}\n  got: {got}\n  expected: {expected}\n  hint: {hint}\n")
    return 2


def _pools(stack: str) -> dict[str, dict[str, Any]]:
    command = [str(BIN / "pulumi-sandbox"), "stack", "output", "pools", "--json", "--stack", stack]
    environment = {name: each for name, each in os.environ.items() if not name.startswith("GOOGLE_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found: dict[str, dict[str, Any]] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found


def _run(pool: dict[str, Any], build: dict[str, Any], content: bytes, example: Example) -> int:
    bucket = str(pool["bucket"])
    project = Project(build["serviceAccount"].split("/")[1], str(pool["zones"][0]).rpartition("-")[0])
    source = f"submitted/{time.time_ns()}.tar.gz"
    project.upload(bucket, source, content)
    build |= {
        "source": {"storageSource": {"bucket": bucket, "object": source}},
        "logsBucket": f"gs://{bucket}/logs",
        "options": {**(build.get("options") or {}), "logging": "GCS_ONLY"},
    }
    number = project.submit(build)

    def cancel(_: int, __: FrameType | None) -> None:
        project.cancel(number)

    signal.signal(signal.SIGINT, cancel)
    signal.signal(signal.SIGTERM, cancel)
    events: dict[str, Callable[[], None]] = {
        example.cancel_at: lambda: project.cancel(number),
        example.preempt_at: lambda: _preempt(number),
    }
    printed, status = 0, "WORKING"
    while True:
        # The status first: after the end of the build, its log is complete.
        status = project.build(number)["status"]
        log = project.read(bucket, f"logs/log-{number}.txt")
        sys.stdout.buffer.write(log[printed:])
        sys.stdout.flush()
        printed = len(log)
        for text in [each for each in events if each and each.encode() in log and status in _RUNNING]:
            events.pop(text)()
        if status not in _RUNNING:
            break
        time.sleep(_POLL_SEC)
    machines = _machines(number)
    left = f"the machines {', '.join(machines.values())} are left" if machines else "no machine of the build is left"
    _say(f"\nThe build ended with status {status}, and {left}.")
    others = ", ".join(f"BUILD={each}" for each in EXAMPLES if EXAMPLES[each] != example)
    _say(f'Other builds: make build with {others}, or with a command: ARGS="-- COMMAND"')
    return 0 if status == "SUCCESS" else _CANCELLED if status == "CANCELLED" else _FAILED


def _machines(number: str) -> dict[str, str]:
    """Return the machines of a build: names by id."""
    world = World(Workspace.find().world)
    try:
        rows = world.find(INSTANCE)
    finally:
        world.close()
    return {each.id: each.name for each in rows if (each.outputs.get("labels") or {}).get(BUILD_LABEL) == number}


def _preempt(number: str) -> None:
    """Let Google preempt the machines of a build, as `pulumi-sandbox world break preempt` does."""
    machines = _machines(number)
    world = World(Workspace.find().world)
    try:
        for machine in machines:
            world.add_fault(Fault("preempt", machine))
    finally:
        world.close()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _packed(folder: Path) -> bytes:
    """Pack the sources of a build. Like `gcloud builds submit`, leave out what .gcloudignore or .gitignore names."""
    with tempfile.TemporaryDirectory(prefix="build-") as temporary:
        target = Path(temporary) / "source.tar.gz"
        pack(folder, target, _SOURCE_MIB, _say)
        return target.read_bytes()


if __name__ == "__main__":
    Workspace.find()  # a clear error outside a project
    sys.exit(main())
