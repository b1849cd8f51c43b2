"""A fake runner for an emulated machine: one registration and one job, whose `run` steps run in bash.

`runner_listener.py VERSION --version` prints the version; `runner_listener.py VERSION run` runs one job. It uses the
protocol of the sandbox's GitHub, below `/_runner` of its address, which differs from the protocol of GitHub's own
runner. Its input, output and exit codes follow actions/runner@258d6c8. It uses only the standard library and is run by
its path.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
"""The runner's own folder: the parent of its bin (src/Runner.Common/HostContext.cs)."""
JIT_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"
POLL_SEC, CALL_SEC, CONNECT_SEC = 1.0, 10.0, 60.0
# Seconds from SIGINT to SIGTERM, and from that to SIGKILL (src/Runner.Sdk/ProcessInvoker.cs).
SIGINT_SEC, SIGTERM_SEC = 7.5, 2.5
LOG_LINES = 500
SUCCESS, TERMINATED = 0, 1
# Constants.cs, ReturnCode.RunnerVersionDeprecated.
DEPRECATED = 7
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def write(line: str) -> None:
    """Write one line to standard output in one call."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Write one line of the Listener with its time prefix (src/Runner.Listener/Runner.cs)."""
    write(f"{time.strftime('%Y-%m-%d %H:%M:%SZ', time.gmtime())}: {text}")


class GoneError(Exception):
    """GitHub no longer has the registration."""


class DeprecatedError(Exception):
    """GitHub no longer accepts the version of the runner."""


class Github:
    """The sandbox's GitHub, accessed with this registration."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self.token = address.rstrip("/"), token

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of the answer, or None if it is empty. Raises GoneError for a deleted registration, and
        OSError.
        """
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/_runner/{path}", data, headers, method=method)  # noqa: S310 -- as GitHub named it
        try:
            with OPENER.open(request, timeout=CALL_SEC) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 403:
                    raise DeprecatedError(json.loads(error.read())["message"]) from None
                if error.code in (401, 404):
                    raise GoneError(f"{error.code} {error.reason}") from None
                raise OSError(f"{error.code} {error.reason}") from None
        return json.loads(text) if text else None

    def ask_with_retries(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, and repeat it for a minute while GitHub fails."""
        until = time.monotonic() + CONNECT_SEC
        while True:
            try:
                return self.ask(method, path, body)
            except OSError:
                if time.monotonic() >= until:
                    raise
                time.sleep(POLL_SEC)


class Log:
    """The output of the job: each line goes to standard output, and the last lines go to GitHub."""

    def __init__(self) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """Write one line."""
        with self._lock:
            write(line)
            self._lines.append(line)

    def text(self) -> str:
        """Return the end of the output."""
        return "".join(f"{line}\n" for line in self._lines)


class Job:
    """The job of the runner."""

    def __init__(self, github: Github, message: dict[str, Any]) -> None:
        self.github, self.number, self.name = github, message["job_id"], str(message["name"])
        self.steps: list[dict[str, Any]] = list(message["steps"])
        given = {str(key): str(value) for key, value in (message.get("env") or {}).items()}
        name = given.get("GITHUB_REPOSITORY", "").rpartition("/")[2] or "work"
        settings = json.loads((ROOT / ".runner").read_text())
        self.folder = ROOT / settings.get("workFolder", "_work") / name / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, "CI": "true", "GITHUB_ACTIONS": "true", **given}
        self.environment |= {"GITHUB_WORKSPACE": str(self.folder), "RUNNER_NAME": str(settings.get("agentName", ""))}
        self.log = Log()
        self.cancelled, self.over = threading.Event(), threading.Event()
        self._running: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Run the steps and report the end."""
        say(f"Running job: {self.name}")
        threading.Thread(target=self._watch, daemon=True).start()
        conclusion, steps = "success", []
        if not self._hook("STARTED"):
            conclusion = "failure"
        for number, step in enumerate(self.steps, 1):
            # A step without a condition runs as with `if: success()`.
            reached = conclusion == "success" and not self.cancelled.is_set()
            ended = self._step(step) if reached else "cancelled" if self.cancelled.is_set() else "skipped"
            steps.append({"name": step.get("name") or step.get("run", ""), "conclusion": ended, "number": number})
            conclusion = ended if reached else conclusion
        if self.cancelled.is_set():
            conclusion = "cancelled"
        if not self._hook("COMPLETED") and conclusion == "success":
            conclusion = "failure"
        self.over.set()
        # From src/Runner.Listener/JobDispatcher.cs, with the names of TaskResult.
        result = {"success": "Succeeded", "failure": "Failed", "cancelled": "Canceled"}[conclusion]
        say(f"Job {self.name} completed with result: {result}")
        report = {"conclusion": conclusion, "steps": steps, "log": self.log.text()}
        with contextlib.suppress(GoneError):  # GitHub has already ended the job
            self.github.ask_with_retries("POST", f"job/{self.number}", report)

    def _watch(self) -> None:
        """Ask each second if the job is cancelled. The request also shows that this runner is alive."""
        while not self.over.wait(POLL_SEC):
            try:
                if self.github.ask("GET", f"job/{self.number}")["cancelled"]:
                    self.cancel()
            except GoneError:
                self.cancel()
            except (OSError, ValueError, KeyError, TypeError):
                continue

    def cancel(self) -> None:
        """End the current step, and start no other one."""
        if not self.cancelled.is_set():
            self.cancelled.set()
            threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        self.log.write("##[error]The operation was canceled.")
        for number, seconds in ((signal.SIGINT, SIGINT_SEC), (signal.SIGTERM, SIGTERM_SEC), (signal.SIGKILL, 0.0)):
            process = self._running
            if process is None or process.poll() is not None:
                return
            # Only the first process of the step gets the signals, and its whole tree is killed (ProcessInvoker.cs).
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)

    def _step(self, step: dict[str, Any]) -> str:
        text = str(step.get("run", ""))
        self.log.write(f"##[group]Run {text.strip().splitlines()[0] if text.strip() else ''}")
        script = ROOT / "_diag" / "step.sh"
        script.write_text(text)
        # The default shell of a step (docs.github.com: workflow syntax, jobs.<job_id>.steps[*].shell).
        code = self._execute(["bash", "-e", str(script)])
        self.log.write("##[endgroup]")
        if self.cancelled.is_set():
            return "cancelled"
        if code:
            self.log.write(f"##[error]Process completed with exit code {code}.")
        return "failure" if code else "success"

    def _hook(self, stage: str) -> bool:
        """Run a hook of the machine with the job's variables. Return True if it succeeded."""
        script = os.environ.get(f"ACTIONS_RUNNER_HOOK_JOB_{stage}")
        if not script:
            return True
        self.log.write(f"A job {stage.lower()} hook has been configured by the self-hosted runner administrator")
        return self._execute(["bash", "-e", script]) == 0

    def _execute(self, command: list[str]) -> int:
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._running = process
        assert process.stdout is not None  # noqa: S101 -- it was opened as a pipe
        reader = threading.Thread(target=self._copy, args=(process,), daemon=True)
        reader.start()
        code = process.wait()
        # A process that the step left running may keep its output open. The job does not wait for it.
        reader.join(2.0)
        self._running = None
        return code

    def _copy(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 -- it was opened as a pipe
        with process.stdout:
            for line in process.stdout:
                self.log.write(line.decode(errors="replace").rstrip("\r\n"))


def configure() -> Github:
    """Write the files of the JIT configuration into the runner's folder (src/Runner.Listener/Runner.cs).

    Returns the sandbox's GitHub with the registration in these files.
    """
    blob = os.environ.pop(JIT_VARIABLE, "")
    for name, content in (json.loads(base64.b64decode(blob)) if blob else {}).items():
        (ROOT / name).write_bytes(base64.b64decode(content))
    settings = json.loads((ROOT / ".runner").read_text())
    credentials = json.loads((ROOT / ".credentials").read_text())
    return Github(settings["serverUrl"], credentials["token"])


def run(version: str) -> int:
    """Run the runner from its start to its end."""
    stop = threading.Event()
    jobs: list[Job] = []

    def stop_job(*_: object) -> None:
        stop.set()
        for job in jobs:
            job.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_job)
    try:
        github = configure()
    except (OSError, ValueError, KeyError) as error:
        say(f"An error occurred: Not configured ({type(error).__name__}).")
        return TERMINATED
    try:
        github.ask_with_retries("POST", "session", {"version": version})
        write("\n\u221a Connected to GitHub\n")
        write(f"Current runner version: '{version}'")
        say("Listening for Jobs")
        while not stop.is_set():
            message = github.ask_with_retries("GET", "job")
            if message:
                jobs.append(Job(github, message))
                jobs[0].run()
                return SUCCESS
            stop.wait(POLL_SEC)
    except GoneError:
        say("An error occurred: The runner registration has been deleted from the server.")
        return TERMINATED
    except DeprecatedError as error:
        say(f"An error occurred: {error}")
        return DEPRECATED
    except OSError as error:
        say(f"An error occurred: {error}")
        return TERMINATED
    write("Exiting...")
    return SUCCESS


def main(version: str, command: str) -> int:
    """Run one of the two supported commands."""
    if command == "--version":
        write(version)
        return SUCCESS
    return run(version)


if __name__ == "__main__":
    code = main(*sys.argv[1:3])
    sys.stdout.flush()
    os._exit(code)  # a thread may still wait for GitHub
