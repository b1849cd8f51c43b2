"""The run of one build command, from the sources to the result object."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..channel import Channel, Ending
from ..clock import Clock
from ..host import Host
from ..machine.system import ENVIRONMENT, System
from ..outcomes import AgentExit
from ..runner import network_isolation
from ..runner.network_isolation import NetworkIsolation
from . import workspace
from .output import Output
from .workspace import FORMAT, BuildRequest

RESULT, ARTIFACTS = "result.json", "artifacts.tar.gz"
_START_SEC = 60.0
# The time for a command to end after SIGTERM at its time limit.
_TERM_SEC = 10.0
_CLEAR_SEC = 15.0
_POLL_SEC = 0.05
# The time for the end of the output and for the result after the command: a network may be cut for a while.
_REPORT_SEC = 240.0
# The time to pack and send the artifacts. With all other limits after the command, it must fit into REPORT_SEC of
# gpu_ci/gcp/gpu_bridge/protocol.py: after that time, Google deletes the machine.
_ARTIFACTS_SEC = 840.0
# The same, after a stop of the machine: within supervisor.GRACE_SEC.
_STOPPED_SEC, _STOPPED_CLEAR_SEC = 10.0, 3.0
# A pipe that a left process keeps open ends the wait for the rest of the output.
_READ_SEC = 5.0


@dataclass
class BuildSession:
    """One build on one machine. `run` returns or raises AgentExit; the result object exists in both cases, if possible.

    `cause` returns the cause of an AgentExit, which is a preemption if the cloud announced one.
    """

    _request: BuildRequest
    _host: Host
    _system: System
    _clock: Clock
    _channel: Channel
    _mark: Callable[[], None]
    _cause: Callable[[AgentExit], AgentExit]
    _isolation: NetworkIsolation | None = None
    _phase: str = ""

    def __post_init__(self) -> None:
        """Open the bucket of the build."""
        self._bucket = self._host.bucket(self._request.bucket)
        self._output = Output(self._bucket, self._request.prefix, self._clock)

    def run(self) -> Ending:
        """Run the command, and report its end to the step of the build."""
        try:
            return self._run()
        except BaseException as error:
            ended = self._cause_of(error)
            is_stopped = isinstance(error, AgentExit) and error.end.reason == "stopped"
            if self._isolation is not None:
                self._system.kill_all_of(self._isolation.user, self._clock, self._clock.now() + _STOPPED_CLEAR_SEC)
            report_sec = _STOPPED_SEC if is_stopped else _REPORT_SEC
            if not is_stopped:
                self._channel.step("report", report_sec + _READ_SEC)
            self._report(self._clock.now() + report_sec, self._phase, ended=ended)
            raise

    def _cause_of(self, error: BaseException) -> AgentExit:
        """Return why the build ended. A stop of the machine may come before its announcement has been read."""
        if not isinstance(error, AgentExit):
            return AgentExit("crashed", f"the agent failed: {type(error).__name__}")
        ended = self._cause(error)
        if ended.end.reason == "stopped" and (notice := self._host.notice(0)):
            return AgentExit(notice.reason, notice.announcement)
        return ended

    def _run(self) -> Ending:
        request, clock, system = self._request, self._clock, self._system
        deadline = clock.now() + request.fetch_sec
        self._begin("fetch", request.fetch_sec)
        docker = "rootless" if request.image else "none"
        self._isolation = network_isolation.isolate(self._host.blocked, docker, system, clock, deadline)
        user = self._isolation.user
        folder = workspace.obtain(request, self._bucket, user, system, clock, deadline)
        if request.image:
            pull(request.image, self._isolation, system, clock, deadline, self._host.registry_token)
        self._begin("start", _START_SEC)
        self._mark()
        code = self._wait(self._start(folder))
        self._system.kill_all_of(user, clock, clock.now() + _CLEAR_SEC)
        self._begin("artifacts", _ARTIFACTS_SEC)
        artifacts = self._send_artifacts(folder, is_required=code == 0)
        self._begin("report", _REPORT_SEC + _READ_SEC)
        self._report(clock.now() + _REPORT_SEC, "command" if code else "", code=code, artifacts=artifacts)
        if self._output.failure:
            raise self._output.failure
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return Ending("build-done", f"the command ended with {how}")

    def _begin(self, phase: str, within_sec: float | None) -> None:
        self._phase = phase
        self._channel.step(phase, within_sec)

    def _start(self, folder: Path) -> subprocess.Popen[str]:
        """Start the command, and begin to copy its output."""
        isolation = self._isolation
        assert isolation is not None  # noqa: S101 - _run sets it first
        try:
            process = self._system.start(
                command_line(self._request, folder),
                isolation.user,
                environment=command_environment(self._request, isolation),
                folder=folder,
            )
        except OSError as error:
            raise AgentExit("no-tool", f"the command could not be started: {error.strerror}") from None
        assert process.stdout is not None  # noqa: S101 - System.start opens the pipe
        self._output.start(process.stdout.fileno())
        return process

    def _wait(self, process: subprocess.Popen[str]) -> int:
        """Wait for the end of the command, and return its exit code. Raises AgentExit at its time limit."""
        limit_sec = self._request.timeout_sec
        self._begin("command", limit_sec + _TERM_SEC + _CLEAR_SEC)
        until = self._clock.now() + limit_sec
        while (code := process.poll()) is None:
            if self._output.failure:
                raise self._output.failure
            if self._clock.now() >= until:
                self._phase = "timeout"
                self._terminate(process)
                raise AgentExit("timed-out", f"the command did not end within {limit_sec} s")
            self._clock.sleep(_POLL_SEC)
        return code

    def _terminate(self, process: subprocess.Popen[str]) -> None:
        """Ask the command and its child processes to end, so that it can print why it hangs."""
        until = self._clock.now() + _TERM_SEC
        try:
            os.killpg(process.pid, signal.SIGTERM)
        except (ProcessLookupError, PermissionError):
            return
        while process.poll() is None and self._clock.now() < until:
            self._clock.sleep(_POLL_SEC)

    def _send_artifacts(self, folder: Path, *, is_required: bool) -> dict[str, Any] | None:
        """Send the artifacts. After a failed command, a missing file is no further failure."""
        if not self._request.artifacts:
            return None
        assert self._isolation is not None  # noqa: S101 - _run sets it first
        deadline = self._clock.now() + _ARTIFACTS_SEC
        try:
            packed = workspace.pack(self._request, folder, self._isolation.user, self._system)
        except AgentExit as ended:
            if is_required or ended.end.reason == "stopped":
                raise
            return None
        try:
            if packed.missing and is_required:
                raise AgentExit("no-artifacts", f"no file matches {', '.join(packed.missing)}")
            if not packed.files:
                return None
            size = packed.path.stat().st_size
            self._bucket.write_file(self._request.prefix + ARTIFACTS, packed.path, packed.sha256, deadline)
        finally:
            packed.path.unlink(missing_ok=True)
        return {"sha256": packed.sha256, "bytes": size, "files": packed.files}

    def _report(
        self,
        deadline: float,
        failed: str,
        *,
        code: int = 0,
        ended: AgentExit | None = None,
        artifacts: dict[str, Any] | None = None,
    ) -> None:
        """Write the rest of the output, and then the result, whose number of log objects is final."""
        self._output.finish(min(_READ_SEC, max(deadline - self._clock.now(), 0)), deadline)
        if self._output.failure and not ended:
            failed, ended = "output", self._output.failure
        result = {
            "format": FORMAT,
            "failed": failed,
            "reason": ended.end.reason if ended else "",
            "detail": ended.detail[:1000] if ended else "",
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "logs": self._output.objects,
            "artifacts": artifacts,
            "seconds": {},  # a step of an older program needs the field
        }
        content = json.dumps(result).encode()
        digest = hashlib.sha256(content).hexdigest()
        try:
            self._bucket.write(self._request.prefix + RESULT, content, digest, deadline)
        except AgentExit as error:
            if error.end.reason == "stopped":
                raise
            # The step sees that the machine is off, and reports a lost machine.
            self._channel.job({"job": f"the result could not be written: {error.detail}"})


CONTAINER_FOLDER = "/workspace"
"""The workspace in a container, as in a step of Cloud Build."""
_CDI_SEC = 60.0
# Registries that accept an access token of Google as the password of this user
# (cloud.google.com/artifact-registry/docs/docker/authentication#token).
_GOOGLE_REGISTRIES, _TOKEN_USER = ("-docker.pkg.dev", "gcr.io"), "oauth2accesstoken"


def command_environment(request: BuildRequest, isolation: NetworkIsolation) -> dict[str, str]:
    """Return the whole environment of the command on the machine."""
    return {
        **ENVIRONMENT,
        "HOME": str(isolation.user.home),
        "USER": isolation.user.name,
        "LOGNAME": isolation.user.name,
        "SHELL": "/bin/bash",
        **isolation.environment,
        **request.environment,
    }


def command_line(request: BuildRequest, folder: Path) -> list[str]:
    """Return the process to start: the command, or Docker with the command."""
    if not request.image:
        return request.command
    program, *arguments = request.command
    # --env without a value takes the value from Docker's own environment, so no value is visible in the process list.
    variables = [part for name in request.environment for part in ("--env", name)]
    return [
        *("docker", "run", "--rm", "--init", "--pull", "never", "--device", "nvidia.com/gpu=all"),
        *("--volume", f"{folder}:{CONTAINER_FOLDER}", "--workdir", CONTAINER_FOLDER, "--shm-size", "8g"),
        # In rootless Docker, root of the container is the user of the workspace. Another user could not write it.
        *("--user", "0:0"),
        *variables,
        *("--entrypoint", program, request.image, *arguments),
    ]


def pull(
    image: str,
    isolation: NetworkIsolation,
    system: System,
    clock: Clock,
    deadline: float,
    token: Callable[[float], str],
) -> None:
    """Describe the GPUs to Docker, and pull the image. Raises AgentExit: no-tool or no-image.

    A private image of Google needs a password. It is in a file for this one command, which runs before the build's
    command. Afterwards the file is deleted.
    """
    if not any(folder.glob("*") for folder in system.cdi_folders if folder.is_dir()):
        if not system.have("nvidia-ctk"):
            raise AgentExit("no-tool", "--image needs nvidia-container-toolkit, which the machine's image lacks")
        target = system.cdi_folders[0] / "nvidia.yaml"
        target.parent.mkdir(parents=True, exist_ok=True)
        system.must("no-tool", ["nvidia-ctk", "cdi", "generate", f"--output={target}"], timeout_sec=_CDI_SEC)
    settings = system.run_folder / "docker-settings"
    settings.mkdir(parents=True, mode=0o700, exist_ok=True)
    try:
        registry = image.partition("/")[0]
        if registry.endswith(_GOOGLE_REGISTRIES):
            _write_login(settings / "config.json", registry, token(deadline))
            os.chown(settings / "config.json", isolation.user.uid, isolation.user.gid)
        os.chown(settings, isolation.user.uid, isolation.user.gid)
        done = system.run(
            ["docker", "--config", str(settings), "pull", "--quiet", image],
            timeout_sec=max(deadline - clock.now(), 1),
            user=isolation.user,
            environment={**ENVIRONMENT, "HOME": str(isolation.user.home), **isolation.environment},
        )
    finally:
        shutil.rmtree(settings, ignore_errors=True)
    if done.code:
        last = (done.text.strip().splitlines() or [done.line])[-1][:300]
        raise AgentExit("no-image", f"{image}: {last}")


def _write_login(path: Path, registry: str, token: str) -> None:
    login = base64.b64encode(f"{_TOKEN_USER}:{token}".encode()).decode()
    settings: Mapping[str, object] = {"auths": {registry: {"auth": login}}}
    number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(number, "w") as file:
        json.dump(settings, file)
