"""`make build`: one build of the sandbox's Cloud Build, whose last step runs a command on a GPU machine of a pool.

The sandbox serves Cloud Build, Compute Engine and Cloud Storage on this computer. The program of the step, the boot
agent and the smoke check (on the CPU) are the real ones.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import FrameType
from typing import Any

import yaml
from pulumi_sandbox.providers.machines.metadata import operator, token_of
from pulumi_sandbox.workspace import ENDPOINT, Workspace

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
KIND = "cloud-build-gpu"
# The sandbox's machines have torch, and no GPU.
_OPTIONS = ["--env", "GPU_SMOKE_DEVICE=cpu"]
_COMMAND = ["python3", "-m", "gpu_smoke", "--pool", "build", "--expect-gpus", "1"]
_POLL_SEC = 0.5
_RUNNING = ("QUEUED", "PENDING", "WORKING")
_CANCELLED, _FAILED = 130, 1


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
    parser.add_argument("--pool", help=f"the pool of kind {KIND} (default: the first one)")
    parser.add_argument("--folder", default=str(ROOT / "smoke"), help="the source of the build (default: %(default)s)")
    parser.add_argument(
        "--option", action="append", default=[], help="an option of the step: --option=--retry-preempted; repeatable"
    )
    parser.add_argument("--cancel-at", metavar="TEXT", help="cancel the build when its log contains this text")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="the command, after --; default: gpu_smoke")
    options = parser.parse_args()
    if ENDPOINT not in os.environ or "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT" not in os.environ:
        again = [
            str(BIN / "pulumi-sandbox"),
            "serve",
            "--exec",
            "--",
            sys.executable,
            "-m",
            "tools.build",
            *sys.argv[1:],
        ]
        return subprocess.run(again, check=False).returncode
    pools = {name: each for name, each in _pools(options.stack).items() if each.get("kind") == KIND}
    name = options.pool or next(iter(pools), "")
    if name not in pools:
        got = ", ".join(pools) or "none"
        problem = f"build: no such pool of kind {KIND}: {name or 'any'}\n  got: {got}"
        expected = f"the name of a deployed pool of kind {KIND}"
        hint = "add one to the stack file (docs/guides/cloud-build-gpu.md), and run make up"
        sys.stderr.write(f"{problem}\n  expected: {expected}\n  hint: {hint}\n")
        return 2
    if not Path(options.folder).is_dir():
        expected, hint = "a folder with the sources of the build", "correct --folder"
        problem = f"build: --folder is not a folder\n  got: {options.folder}\n  expected: {expected}"
        sys.stderr.write(f"{problem}\n  hint: {hint}\n")
        return 2
    step_options = [*_OPTIONS, *options.option]
    return _run(pools[name], Path(options.folder), step_options, options.command or _COMMAND, options.cancel_at)


def _pools(stack: str) -> dict[str, dict[str, Any]]:
    command = [str(BIN / "pulumi-sandbox"), "stack", "output", "pools", "--json", "--stack", stack]
    environment = {name: each for name, each in os.environ.items() if not name.startswith("GOOGLE_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found: dict[str, dict[str, Any]] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found


def _run(pool: dict[str, Any], folder: Path, options: list[str], command: list[str], cancel_at: str | None) -> int:
    build, bucket = yaml.safe_load(pool["cloudbuild"]), str(pool["bucket"])
    step = build["steps"][-1]
    end = step["args"].index("--")
    step["args"] = [*step["args"][:end], *options, "--", *command]
    project = Project(build["serviceAccount"].split("/")[1], str(pool["zones"][0]).rpartition("-")[0])
    source = f"submitted/{time.time_ns()}.tar.gz"
    project.upload(bucket, source, _packed(folder))
    build |= {
        "source": {"storageSource": {"bucket": bucket, "object": source}},
        "logsBucket": f"gs://{bucket}/logs",
        "options": {"logging": "GCS_ONLY"},
    }
    number = project.submit(build)

    def cancel(_: int, __: FrameType | None) -> None:
        project.cancel(number)

    signal.signal(signal.SIGINT, cancel)
    signal.signal(signal.SIGTERM, cancel)
    printed, status = 0, "WORKING"
    while True:
        # The status first: after the end of the build, its log is complete.
        status = project.build(number)["status"]
        log = project.read(bucket, f"logs/log-{number}.txt")
        sys.stdout.buffer.write(log[printed:])
        sys.stdout.flush()
        printed = len(log)
        if cancel_at and cancel_at.encode() in log and status in _RUNNING:
            cancel_at = None
            project.cancel(number)
        if status not in _RUNNING:
            break
        time.sleep(_POLL_SEC)
    return 0 if status == "SUCCESS" else _CANCELLED if status == "CANCELLED" else _FAILED


def _packed(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(folder, arcname=".", filter=lambda each: None if "__pycache__" in each.name else each)
    return buffer.getvalue()


if __name__ == "__main__":
    Workspace.find()  # a clear error outside a project
    sys.exit(main())
