"""Prepares and starts GitHub's runner: combines its archive, isolation, hooks, GPU checks and process.

The agent calls RunnerSetup before the registration, and StartedRunner after it.
"""

from __future__ import annotations

import base64
import collections
import io
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..clock import Clock
from ..config import RunnerConfig
from ..github.registration import Registration
from ..host import BlockedAddresses, Notice
from ..machine import gpu_health, gpu_use
from ..machine.gpu_health import Gpus, Problem
from ..machine.gpu_use import GpuUse, Sampler
from ..machine.system import ENVIRONMENT, System
from ..outcomes import AgentExit
from ..redact import Lines
from . import archive as runner_archive
from . import network_isolation
from .hooks import Hooks
from .network_isolation import NetworkIsolation
from .notices import NoticeFile

# The time for the runner to end its job after a stop. The rest of supervisor.GRACE_SEC is for the removal of the runner
# at GitHub and for the report of the end.
_INTERRUPT_SEC = 8.0
# The time for the job's processes to end after the runner has ended.
_CLEAR_SEC = 15.0
# The interval at which `finish` checks if the job's hook has named the job.
_NAME_SEC = 0.1


class RunnerSetup:
    """Implements the functions of agent.Dependencies for the runner.

    The agent calls them in this order: block_identity, obtain, isolate, try_runner, gpu_problem, start.
    """

    def __init__(self, blocked: BlockedAddresses, system: System, clock: Clock, say: Callable[[str], None]) -> None:
        self._blocked, self._system, self._clock, self._say = blocked, system, clock, say
        self._isolation: NetworkIsolation | None = None
        self._gpus: Gpus | None = None
        self._root: Path | None = None
        self._grace_sec = 0.0

    def block_identity(self) -> None:
        """Block the machine's identity for every user except root."""
        network_isolation.block_identity(self._blocked, self._system)

    def obtain(self, config: RunnerConfig, deadline: float) -> Path:
        """Return the folder of the pinned runner."""
        return runner_archive.obtain(config, self._system, self._clock, deadline, self._say)

    def isolate(self, runner: RunnerConfig, deadline: float) -> None:
        """Isolate the runner's user from the machine's identity, and in a public pool from private addresses."""
        blocked = self._blocked._replace(networks=network_isolation.PRIVATE) if runner.public else self._blocked
        self._isolation = network_isolation.isolate(blocked, runner.docker, self._system, self._clock, deadline)

    def try_runner(self, folder: Path, config: RunnerConfig, deadline: float) -> None:
        """Create the runner's root from this folder, and start its program there."""
        if self._isolation is None:
            raise AgentExit("not-isolated", "a runner was started before its isolation")
        self._root = make_root(folder, config, self._isolation, self._system)
        self._grace_sec = config.notice_grace_sec
        require_version(self._root, config.version, self._isolation, self._system, self._clock, deadline)

    def gpu_problem(self) -> Problem | None:
        """Return why the GPUs must not take a job. Store their state, with which later states are compared."""
        self._gpus = gpu_health.at_boot(self._system)
        return gpu_health.gpu_problem(self._system, self._gpus)

    def start(self, registration: Registration) -> StartedRunner:
        """Start the runner and serve its hooks."""
        if self._isolation is None or self._root is None or self._gpus is None:
            raise AgentExit("not-isolated", "a runner was started before its isolation and the check of its GPUs")
        gpus, sampler = self._gpus, Sampler(self._system, self._gpus.memory_mib, self._clock)

        def check() -> Problem | None:
            """Check the GPUs at the start of a job, and begin to measure their use."""
            problem = gpu_health.gpu_problem(self._system, gpus)
            if not problem:
                sampler.start()
            return problem

        def summary() -> str:
            price = gpu_use.price(self._system.up_sec(), registration.usd_per_hour, registration.market)
            return price + gpu_use.summary(sampler.job_started_sec, sampler.use())

        def fault() -> str:
            """Return the fault in the kernel's log. The job's processes may still use the GPUs, so
            `StartedRunner.gpu_problem` checks them later.
            """
            problem = gpu_health.kernel_problem(self._system)
            return problem.fault if problem else ""

        agent = self._readable_agent()
        hooks = Hooks(self._isolation.user, self._system, agent, check, summary, fault, run=registration.run)
        notices = NoticeFile(self._system, self._root, agent)
        environment = {**hooks.environment, **notices.environment}
        running = Running(
            self._root, registration.jitconfig, self._isolation, environment, self._system, self._clock, self._say
        )
        return StartedRunner(
            running, hooks, self._isolation, gpus, self._system, self._clock, sampler, notices, self._grace_sec
        )

    def _readable_agent(self) -> Path:
        """Return a copy of this program that the runner's user can read, because only root can read the folder of the
        boot.
        """
        self._system.run_folder.mkdir(parents=True, exist_ok=True)
        archive = self._system.run_folder / "agent.pyz"
        # The only file among the parents of this module is the zip from which it was loaded.
        shutil.copyfile(next(path for path in Path(__file__).parents if path.is_file()), archive)
        archive.chmod(0o644)
        return archive


class StartedRunner:
    """The runner after its start, with its hooks and its notice file."""

    def __init__(
        self,
        running: Running,
        hooks: Hooks,
        isolation: NetworkIsolation,
        gpus: Gpus,
        system: System,
        clock: Clock,
        sampler: Sampler,
        notices: NoticeFile,
        grace_sec: float,
    ) -> None:
        self._running, self._hooks, self._isolation, self._gpus = running, hooks, isolation, gpus
        self._system, self._clock, self._sampler = system, clock, sampler
        self._notices, self._grace_sec = notices, grace_sec

    @property
    def job(self) -> Mapping[str, str] | None:
        """The job that the runner took: None without a job, and empty if the hook has not named the job yet."""
        if self._hooks.job:
            return self._hooks.job._asdict()
        return {} if self._running.job_seen.is_set() else None

    def wait(self, until: float) -> tuple[str, str] | None:
        """Wait for the runner's end and return it. Return None if the runner still runs at `until`, or has a job."""
        ended = self._running.wait(until, or_job=True)
        return self._end_of(ended) if ended else None

    def finish(self, named: Callable[[Mapping[str, str]], None]) -> tuple[str, str]:
        """Wait for the runner's end, however long the job takes. `named` receives the job when the hook names it."""
        ended = None
        while ended is None and self._hooks.job is None:
            ended = self._running.wait(self._clock.now() + _NAME_SEC)
        named(self.job or {})
        if self._hooks.is_of_another_run:
            self.interrupt()
        ended = ended or self._running.wait(float("inf")) or Exit("runner-failed", "it did not end")
        self._sampler.stop()
        # This also ends containers of rootful Docker, which are not processes of the runner's user.
        self._running.clear(self._clock.now() + _CLEAR_SEC)
        return self._end_of(ended)

    def gpu_use(self) -> GpuUse | None:
        """Stop to measure the GPUs. Return their use while the job ran, or None if nothing was measured."""
        self._sampler.stop()
        return self._sampler.use()

    @property
    def job_failed(self) -> bool:
        """True if the runner said that the job failed. The job can forge this line."""
        return self._running.job_result == "Failed"

    def gpu_problem(self) -> Problem | None:
        """Return why the GPUs are not usable after all processes of the job have ended."""
        return gpu_health.problem_after_job(self._system, self._gpus, self._isolation.user, self._clock)

    @property
    def grace_sec(self) -> float:
        """The seconds for which the job may continue after a notice that ends the machine: 0 if it is not armed."""
        return self._grace_sec if self._notices.is_armed else 0.0

    def announce(self, notice: Notice, *, ends: bool) -> None:
        """Write the notice for the job, before the job gets a signal. `ends` is False if the job may finish."""
        self._notices.write(notice, self.grace_sec if ends else None)

    def wait_for_save(self, grace_sec: float) -> None:
        """Return when the runner has ended with its job, or after `grace_sec`."""
        self._running.wait(self._clock.now() + grace_sec)

    def interrupt(self, most_sec: float = _INTERRUPT_SEC) -> None:
        """End the runner with all its processes. The runner gets at most `most_sec` to end its job."""
        self._running.interrupt(min(_INTERRUPT_SEC, most_sec))
        self._hooks.close()

    def _end_of(self, ended: Exit) -> tuple[str, str]:
        """Return the reason and the detail of the machine's end, from the end of the runner."""
        if self._hooks.is_of_another_run and self._hooks.job:
            job = self._hooks.job
            return "job-refused", f"{job.repository} run {job.run_id} attempt {job.run_attempt} is not the approved run"
        if refused := self._hooks.refused:
            # Whatever the problem is, another process than the job's causes it.
            return refused._replace(fault=refused.fault or "in use", text=f"the job was refused: {refused.text}").end
        if self.job is None:
            # The runner also exits with 0 if it "no longer exists on the server". GitHub sometimes removes a runner
            # without a job after minutes (actions/runner#4726).
            detail = f"it ended without a job{self._running.last_output}"
            return ("runner-failed", detail) if ended.reason == "ended" else ended
        # The job runs as the runner's user, so it may end the runner with any exit code. The code must not stop the
        # pool.
        return "job-done" if ended.reason == "ended" else "runner-failed", ended.detail


# The meaning of the runner's exit codes for us (actions/runner@258d6c8:src/Runner.Common/Constants.cs, ReturnCode).
_CODES = {
    0: ("ended", "it ended normally"),
    1: ("runner-failed", "it ended with an error that a restart does not fix"),
    2: ("runner-failed", "it ended with an error repeatedly"),
    3: ("runner-deprecated", "GitHub requested an update, but the runner's files are read-only here"),
    4: ("runner-deprecated", "GitHub requested an update, but the runner's files are read-only here"),
    5: ("runner-failed", "another runner is online with the same registration"),
    6: ("runner-failed", "its configuration was refreshed repeatedly"),
    7: ("runner-deprecated", "GitHub no longer accepts this version"),
}
# The runner is restarted after these codes, as its own service does after 5 s (same repository,
# src/Misc/layoutbin/RunnerService.js).
_RESTART_CODES = (2, 6)
_STARTS = 4
_PAUSE_SEC = 5
_POLL_SEC = 0.1
# The time for the kernel to end processes of the runner after its interruption.
INTERRUPT_CLEAR_SEC = 3.0
JIT_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"
# .NET starts within a second; loading assemblies from a cold disk may take longer.
_VERSION_SEC = 60.0
# The limit of one variable with its name and the final zero byte (execve(2), MAX_ARG_STRLEN: 32 pages, here of 4 KiB).
_VARIABLE_BYTES = 131_072
# From src/Runner.Listener/JobDispatcher.cs. The result is a name of TaskResult; the job's name may contain any text.
_RESULT = re.compile(r".*: Job .* completed with result: (\w+)$")
# The number of characters that is read of a line; the rest is ignored.
_LINE_CHARACTERS = 65_536


class Exit(NamedTuple):
    """The end of the runner. The reason is `ended`, or the reason of the machine's end.

    The detail is a sentence, with the runner's last lines if it failed.
    """

    reason: str
    detail: str


class Running:
    """One runner process. Create it in the main thread, because it ends with the thread that starts it."""

    def __init__(
        self,
        root: Path,
        jitconfig: str,
        isolation: NetworkIsolation,
        environment: Mapping[str, str],
        system: System,
        clock: Clock,
        log: Callable[[str], None],
    ) -> None:
        """Start the runner. `root` is the result of make_root(), `environment` is that of Hooks and NoticeFile, and
        `log` receives each line.

        Raises AgentExit("runner-failed") if the registration is too large for an environment variable.
        """
        blob = without_updates(jitconfig)
        if (size := len(f"{JIT_VARIABLE}={blob}".encode()) + 1) > _VARIABLE_BYTES:
            raise AgentExit(
                "runner-failed",
                f"GitHub's JIT configuration needs a variable of {size} bytes; expected at most {_VARIABLE_BYTES}",
            )
        self._isolation, self._system, self._clock, self._log = isolation, system, clock, log
        self.job_seen = threading.Event()
        """Set when the runner has taken a job, also if the job's hook never runs."""
        self.job_result = ""
        """The result of the job, in the runner's word."""
        self._lines: collections.deque[str] = collections.deque(maxlen=5)
        self._stopped = False
        self._starts = 0
        self._ended: Exit | None = None
        self._environment = {**_environment(isolation), **environment}
        self._root = root
        # The runner removes this variable from the job's environment (src/Runner.Listener/CommandSettings.cs). The job
        # runs as the same user and can still read /proc/<listener>/environ and the runner's .credentials. Both contain
        # only this one registration, which GitHub deletes with the job.
        self._start({JIT_VARIABLE: blob})

    def wait(self, until: float, *, or_job: bool = False) -> Exit | None:
        """Wait for the end of the runner. Return None at `until`, or with `or_job` as soon as it has a job."""
        while self._ended is None:
            if self._process.poll() is not None:
                self._end_or_start_again(until)
            elif self._clock.now() >= until or (or_job and self.job_seen.is_set()):
                return None
            else:
                self._clock.sleep(_POLL_SEC)
        return self._ended

    @property
    def last_output(self) -> str:
        """The last output lines of the runner, as the end of a sentence; empty without output."""
        last_lines = " / ".join(line for line in self._lines if line)
        return f"; its last output: {last_lines}" if last_lines else ""

    def interrupt(self, grace_sec: float) -> None:
        """Ask the runner to end. After `grace_sec`, end all processes of its user.

        Only the Listener gets SIGINT, as from its own service (RunnerService.js). It stops its worker, and reports to
        GitHub.
        """
        self._stopped = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        deadline = self._clock.now() + grace_sec
        while self._process.poll() is None and self._clock.now() < deadline:
            self._clock.sleep(_POLL_SEC)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self.clear(self._clock.now() + INTERRUPT_CLEAR_SEC)

    def clear(self, deadline: float) -> bool:
        """End all processes of the user, including those that the job left. Return True if all have ended in time."""
        if self._isolation.docker == "rootful":
            # Containers of rootful Docker are not processes of the user.
            left = self._system.run(["docker", "ps", "--quiet"], timeout_sec=10).text.split()
            if left:
                self._system.run(["docker", "kill", *left], timeout_sec=20)
        return self._system.kill_all_of(self._isolation.user, self._clock, deadline)

    def _start(self, secret: Mapping[str, str]) -> None:
        self._starts += 1
        # The Listener is started directly. run.sh would keep the variable in its own environment.
        environment = {**self._environment, **secret}
        self._process = _start_listener("run", self._root, self._isolation, self._system, environment)
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        lines, is_line_start = Lines(), True
        with process.stdout or io.StringIO() as last_lines:
            while piece := last_lines.readline(_LINE_CHARACTERS):
                if is_line_start:
                    self._handle_line(piece, lines.redact(piece.rstrip()))
                is_line_start = piece.endswith("\n")

    def _handle_line(self, line: str, redacted: str) -> None:
        self._lines.append(redacted.strip()[:300])
        # JobDispatcher.cs writes this line when a job begins. The job's own output does not appear here.
        if "Running job: " in line:
            self.job_seen.set()
        if result := _RESULT.fullmatch(line.rstrip()):
            self.job_result = result[1]
        # The job may write here too. The prefix prevents that its text looks like a line of the agent.
        self._log(f"| {redacted[:1000]}")

    def _end_or_start_again(self, until: float) -> None:
        code = self._process.returncode
        # A process that the job left may keep the pipe open, so the wait for the last lines is short.
        self._reader.join(2)
        may_restart = self._starts < _STARTS and not self._stopped and not self.job_seen.is_set()
        if code in _RESTART_CODES and may_restart and self._clock.now() + _PAUSE_SEC < until:
            self._clock.sleep(_PAUSE_SEC)
            # The runner has stored its configuration in its root, so it does not need the blob again. After a refresh
            # (6) the blob would even undo the change.
            self._start({})
            return
        known = ("runner-failed", f"it was killed by signal {-code}" if code < 0 else f"it ended with code {code}")
        reason, detail = _CODES.get(code, known)
        self._ended = Exit(reason, detail if reason == "ended" else f"{detail}{self.last_output}")


def without_updates(jitconfig: str) -> str:
    """Return the blob with updates disabled, as with `config.sh --disableupdate`, or unchanged if it cannot be read.

    The runner sends this setting to GitHub with each request for a job (src/Runner.Listener/BrokerMessageListener.cs).
    Its files are pinned and read-only, so an update would cost the job minutes and then fail.
    """
    try:
        files = json.loads(base64.b64decode(jitconfig, validate=True))
        settings = json.loads(base64.b64decode(files[".runner"], validate=True).decode("utf-8-sig"))
        own_settings = {key: value for key, value in settings.items() if key.lower() != "disableupdate"}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return jitconfig
    files[".runner"] = base64.b64encode(json.dumps({**own_settings, "DisableUpdate": True}).encode()).decode()
    return base64.b64encode(json.dumps(files).encode()).decode()


def require_version(
    root: Path, version: str, isolation: NetworkIsolation, system: System, clock: Clock, deadline: float
) -> None:
    """Run the runner's program to print its version, as its user and in the folder in which it will run a job.

    The .NET program crashes at its start if the image lacks libicu or another library. `run.sh` and `config.sh`, which
    would report that, are not used here.

    Raises:
        AgentExit: no-tool (it does not start), wrong-checksum (another version), or timed-out.
    """
    process = _start_listener("--version", root, isolation, system, _environment(isolation))
    within_sec = max(min(_VERSION_SEC, deadline - clock.now()), 0)
    try:
        text, _ = process.communicate(timeout=within_sec)
    except subprocess.TimeoutExpired:
        raise AgentExit("timed-out", f"Runner.Listener --version did not end within {within_sec:.0f} s") from None
    finally:
        if process.poll() is None:
            process.kill()
    lines = [line.strip()[:300] for line in text.splitlines() if line.strip()]
    if code := process.returncode:
        how = f"it was killed by signal {-code}" if code < 0 else f"it ended with code {code}"
        output = f"; its output: {lines[0]}" if lines else ""
        raise AgentExit("no-tool", f"GitHub's runner does not start on this image: {how}{output}")
    if version not in lines:
        reported = lines[-1] if lines else "nothing"
        raise AgentExit("wrong-checksum", f"GitHub's runner reports version {reported}, expected {version}")


def _start_listener(
    command: str, root: Path, isolation: NetworkIsolation, system: System, environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    return system.start(
        [str(root / "bin" / "Runner.Listener"), command],
        isolation.user,
        environment=environment,
        folder=root,
        # If root's Docker is available to the job, no_new_privs protects nothing more.
        may_gain=isolation.docker == "rootful",
    )


def _environment(isolation: NetworkIsolation) -> dict[str, str]:
    return {
        **ENVIRONMENT,
        "HOME": str(isolation.user.home),
        "USER": isolation.user.name,
        "LOGNAME": isolation.user.name,
        "SHELL": "/bin/bash",
        # Without this variable, an unsupported version has the exit code of any other failure (Constants.cs).
        "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE": "1",
        **isolation.environment,
    }


def make_root(tree: Path, config: RunnerConfig, isolation: NetworkIsolation, system: System) -> Path:
    """Return the root folder of the runner: the parent of its bin (src/Runner.Common/HostContext.cs).

    The runner writes .credentials and .credentials_rsaparams there (Runner.cs, where it reads the blob), so the folder
    is in memory. Its programs are mounted read-only. The jobs' files and the logs, which grow, are on the disk.
    """
    root = system.run_folder / "runner"
    # The runner refuses a folder with a parent that it cannot list (src/Runner.Sdk/Util/IOUtil.cs).
    system.run_folder.mkdir(parents=True, exist_ok=True)
    system.run_folder.chmod(0o755)
    system.tmpfs(root, isolation.user, size_mib=16)
    for name in ("bin", "externals"):
        system.bind(tree / name, root / name, read_only=True)
    for name, folder_name in ((config.work_folder, "work"), ("_diag", "diag")):
        folder = isolation.user.home / folder_name
        folder.mkdir(exist_ok=True)
        os.chown(folder, isolation.user.uid, isolation.user.gid)
        system.bind(folder, root / name)
    return root
