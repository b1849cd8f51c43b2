"""The two hooks of a job. The runner calls a script before and after the job. The script asks the agent if the GPUs are
usable. After the job, it also prints the agent's summary to the job's log, and writes a fault to the job's summary.

If the answer to the first hook is no, the job fails (actions/runner@258d6c8:src/Runner.Worker/JobExtension.cs runs the
hook as a step of the job). Its other steps may still run, with `if: always()`. A job of another run than the one for
which the runner is registered must not run any step. So it gets no answer until the agent has ended the runner.

The script runs as the runner's user and the agent as root, because the checks need
permissions that the job must not have.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..github.registration import Run
from ..machine.gpu_health import Problem
from ..machine.system import System, User

LIMIT_SEC = 30
"""The longest time of a hook, including the agent's check."""
_LIMIT_BYTES = 8192
# The job's processes may connect as often as they like, but must not exhaust the agent's file descriptors and threads.
_AT_ONCE = 8
# accept() fails for lack of a temporary resource, such as a file descriptor.
_PAUSE_SEC = 0.1
_STAGES = ("started", "completed")


class Job(NamedTuple):
    """The job in GitHub's variables (docs.github.com: variables, GITHUB_*).

    The runner sets them from GitHub's message before any command of the job (src/Runner.Worker/GitHubContext.cs). It
    does not pass `env` of the workflow to the hooks (src/Runner.Worker/JobHookProvider.cs).
    """

    repository: str = ""
    run_id: str = ""
    run_attempt: str = ""
    job: str = ""
    workflow: str = ""


class Hooks:
    """The agent's end of the hooks. `check` returns why the machine must not run the job, or None.

    At the end of the job, `summary` returns the line for its log, and `fault` that of a GPU until then, or "".
    """

    def __init__(
        self,
        user: User,
        system: System,
        agent: Path,
        check: Callable[[], Problem | None],
        summary: Callable[[], str] = lambda: "",
        fault: Callable[[], str] = lambda: "",
        run: Run | None = None,
    ) -> None:
        """Start the server. `agent` is this program's archive, which the user must be able to read. `run` is the only
        run whose jobs are accepted; None accepts every job.
        """
        self._run = run
        self._user, self._check, self._summary, self._fault = user, check, summary, fault
        self._folder, self._lock = system.run_folder, threading.Lock()
        self.job: Job | None = None
        """The job of the first hook, which came before any command of the job."""
        self.started, self.completed = threading.Event(), threading.Event()
        """Set when the hook of the stage came. The job itself may send `completed`, because it has the same user."""
        self.is_of_another_run = False
        """True if the job is not of the accepted run."""
        self.refused: Problem | None = None
        """Why the job was refused."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "hooks.sock"
        path.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        os.chown(path, user.uid, user.gid)
        path.chmod(0o600)
        self._server.listen(8)
        self.environment: Mapping[str, str] = {
            f"ACTIONS_RUNNER_HOOK_JOB_{stage.upper()}": str(_script(stage, path, system, agent)) for stage in _STAGES
        }
        """The environment variables for the runner."""
        self._closed = threading.Event()
        for _ in range(_AT_ONCE):
            threading.Thread(target=self._serve, name="hooks", daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._closed.set()
        # close() alone does not wake a thread that waits in accept().
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._server.accept()
            except OSError:
                self._closed.wait(_PAUSE_SEC)
                continue
            # Invalid input, a closed connection or a failed check gets no answer, which the script takes as a no. Later
            # requests are still answered.
            with contextlib.suppress(Exception):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            if struct.unpack("3i", credentials)[1] != self._user.uid:
                return
            request = json.loads(_line(connection, time.monotonic() + LIMIT_SEC))
            message = self._decide(request)
            if self.is_of_another_run:
                self._closed.wait(LIMIT_SEC)
                return
            answer: dict[str, object] = {"ok": not message, "words": message}
            if self.completed.is_set():
                answer |= {"summary": self._summary(), "fault": self._fault()}
            connection.sendall(json.dumps(answer).encode() + b"\n")

    def _decide(self, request: object) -> str:
        if not isinstance(request, dict) or request.get("stage") not in _STAGES:
            return "the agent received an unknown request"
        with self._lock:
            stage = str(request["stage"])
            if stage == "started":
                if self.job is not None:
                    return "this machine has already run its one job"
                named = Run(*(_plain(request.get(name), 200) for name in Run._fields))
                self.is_of_another_run = self._run is not None and named != self._run
                self.job = Job(*(_plain(request.get(name)) for name in Job._fields))
                if self.is_of_another_run:
                    return ""
            if stage == "completed":
                self.completed.set()
                return ""
            self.refused = self._check()
            self.started.set()
            return self.refused.text if self.refused else ""


def client(argv: list[str]) -> int:
    """Run the hook as the runner's user: `started|completed <socket>`. Return the exit code of the hook.

    If the agent does not answer in time, the first hook fails, because no agent supervises the machine. The second hook
    succeeds, because the job has already run.
    """
    if len(argv) != 2 or argv[0] not in _STAGES:
        sys.stdout.write("::error::expected: hook started|completed <socket>\n")
        return 2
    stage, path = argv
    summary = fault = ""
    deadline = time.monotonic() + LIMIT_SEC
    request = {"stage": stage, **{name: os.environ.get(f"GITHUB_{name.upper()}", "")[:200] for name in Job._fields}}
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LIMIT_SEC)
            connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(_line(connection, deadline))
            is_ok, message = answer["ok"] is True, _plain(answer["words"], 500)
            summary, fault = _plain(answer.get("summary"), 500), _plain(answer.get("fault"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        is_ok, message = stage == "completed", f"the machine's agent does not answer ({type(error).__name__})"
    if message:
        sys.stdout.write(f"::{'warning' if is_ok else 'error'}::gpu-ci: {message}\n")
    if summary:
        sys.stdout.write(f"gpu-ci: {summary}\n")
    if fault:
        text = f"gpu-ci: GPU fault ({fault}) of this machine, not your change"
        sys.stdout.write(f"::error::{text}\n")
        # The runner also reads this file after a hook (src/Runner.Worker/JobHookProvider.cs, RunHook).
        with contextlib.suppress(OSError), Path(os.environ.get("GITHUB_STEP_SUMMARY", "")).open("a") as job_summary:
            job_summary.write(f"{text}\n")
    return 0 if is_ok else 1


def _script(stage: str, path: Path, system: System, agent: Path) -> Path:
    """Write the hook script. The runner accepts only a file that ends in .sh (HostContext.cs,
    GetDefaultShellForScript).
    """
    script = system.run_folder / f"job-{stage}.sh"
    # -I: neither the job's environment nor its folder changes what this Python loads.
    command = shlex.join([system.python, "-I", str(agent), "hook", stage, str(path)])
    script.write_text(f"#!/bin/sh\nexec {command}\n")
    script.chmod(0o755)
    return script


def _line(connection: socket.socket, deadline: float) -> bytes:
    """Return one line, however slowly it arrives. Raises TimeoutError at the deadline, or ValueError if it is
    too long.
    """
    received = b""
    while not received.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        data = connection.recv(4096)
        if not data:
            raise ValueError("the peer closed the connection")
        received += data
        if len(received) > _LIMIT_BYTES:
            raise ValueError("too long")
    return received


def _plain(value: object, limit: int = 100) -> str:
    """Return the text as one printable line, because the peer may send anything."""
    text = value if isinstance(value, str) else ""
    return "".join(letter if letter.isprintable() else " " for letter in text[:limit])
