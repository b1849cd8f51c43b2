"""The sequence of the agent's steps: driver, check, key, runner, registration, one job.

The agent runs in its own process, and reports each step to the supervisor through a channel. `gpu_agent/__init__.py`
defines the terms.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Protocol

from . import config as settings
from .broker.registration import SEALED
from .build.workspace import BuildRequest, read_request
from .channel import Channel, Ending
from .check import GPU, HANG
from .clock import Clock
from .config import Config, GithubConfig, RunnerConfig
from .github.registration import Registration
from .host import Host, Notice
from .machine import driver
from .machine.commands import Machine
from .machine.gpu_health import Problem
from .outcomes import AgentExit
from .report import Verdict
from .runner.session import StartedRunner
from .supervisor import GRACE_SEC

# The metadata key that the gate sets to `check`. Such a check machine tests what the pool's machines would do. A build
# step sets the key to `build`. Such a machine runs one command after its check.
ROLE, CHECK, BUILD = "gpu-ci-role", "check", "build"
CONFIG_SEC = 180.0
# How long a refused secret is requested again, because an IAM grant takes effect "typically in 2 minutes, potentially 7
# minutes or longer" (cloud.google.com/iam/docs/access-change-propagation). A check machine may boot right after the
# grant, so it waits for 7 minutes. Other machines boot later, so they wait for 2 minutes.
_CHECK_GRANT_SEC = 420.0
_GRANT_SEC = 120.0
# The time for Secret Manager to answer after the grant has taken effect.
_KEY_SEC = 60.0
# A check machine reserves 120 s of its time for the rehearsal, but at most a fourth. The rehearsal needs a key, an
# archive of 227 MB and two answers from GitHub, with a few retries each.
_REHEARSAL_SEC, _REHEARSAL_SHARE = 120, 4
# The time for the checks before and after the job, and for the smoke check after a failed one.
_AROUND_JOB_SEC = 60.0
_RECHECK_SEC = 60.0
# The search for an earlier job's files reads each folder of the disk.
_CLEAN_SEC = 300.0
_REMOVE_SEC = 5.0
# The time for a notice to reach its guest attribute before the machine reports its end.
_NOTICE_SEC = 1.0
NOTICE_KEY = "gpu-agent/notice"
"""The guest attribute with the cloud's notice."""
_PAUSE_SEC = 1.0


class Agent:
    """The agent of one machine. `run` runs all steps; it returns or raises AgentExit."""

    def __init__(self, deps: Dependencies, channel: Channel) -> None:
        self._dependencies = deps
        self._channel = channel
        self._notice: Notice | None = None
        self._running: StartedRunner | None = None

    def run(self) -> Ending:
        """Run all steps from the configuration to the end of the job."""
        listener = listen(self._dependencies.host, self._ends_machine)
        try:
            return self._run_steps()
        except Exception as error:
            ended = _causing_exit(error)
            if ended is None:
                raise
            if self._notice:
                listener.join(_NOTICE_SEC)
            raise self._with_notice(ended) from None

    def _ends_machine(self, notice: Notice) -> bool:
        """Return True if the notice ends the machine now. Maintenance is announced early, so a job may still finish."""
        self._notice = notice
        ends = notice.reason != "maintenance" or self._running is None or self._running.job is None
        if self._running:
            self._running.announce(notice, ends=ends)
        return ends

    def _let_job_save(self, running: StartedRunner, error: BaseException) -> float:
        """Give an armed job its time after a notice that ends the machine. Return the seconds that it had at most."""
        is_stopped = isinstance(error, AgentExit) and error.end.reason == "stopped"
        if not is_stopped or not (grace_sec := running.grace_sec):
            return 0.0
        # A stop of the machine may come before its announcement has been read. Other stops are no notice.
        notice = self._notice or self._dependencies.host.notice(0)
        if not notice:
            return 0.0
        self._notice = notice
        running.announce(notice, ends=True)
        self._channel.grace(grace_sec)
        running.wait_for_save(grace_sec)
        return grace_sec

    def _with_notice(self, ended: AgentExit) -> AgentExit:
        """Return the end with the cloud's announcement as its reason, if the machine was stopped after a notice."""
        if ended.end.reason != "stopped" or not self._notice:
            return ended
        return AgentExit(self._notice.reason, self._notice.announcement)

    def _run_steps(self) -> Ending:
        """Check the machine, and then rehearse the registration (check machine) or run one job (any other machine)."""
        deps, channel = self._dependencies, self._channel
        channel.step("config", CONFIG_SEC)
        config = settings.parse(deps.host.attribute(settings.KEY))
        if config.runner:
            # This comes first, because processes of an earlier job may run until the machine is off.
            self._protect_identity(config)
        is_used = self._mark.exists()
        if is_used and not config.reuse:
            # Google starts a standard machine again after a fault, and processes of its job would start too.
            raise AgentExit("used", "a runner was started on this disk before")
        if config.registered_by == "manager" and deps.host.attribute(SEALED):
            # The registration was encrypted for a key of an earlier boot, and no machine gets a second one.
            raise AgentExit("used", "a runner was registered for this machine before")
        if is_used:
            deps.clean(self._begin("clean", _CLEAN_SEC, inf))
            self._mark.unlink()
        role = deps.host.attribute(ROLE)
        is_check, request = role == CHECK, None
        if role == BUILD:
            self._protect_identity(config)
            request = read_request(deps.host, deps.clock.now() + CONFIG_SEC)
        until = driver.deadline(config, deps.machine)
        rehearses = is_check and config.runner
        reserved_sec = min(_REHEARSAL_SEC, config.check_sec // _REHEARSAL_SHARE) if rehearses else 0
        verdict = self._check(replace(config, check_sec=config.check_sec - reserved_sec))
        if verdict.verdict != "pass":
            channel.verdict(verdict)
            raise AgentExit(verdict.reason, verdict.summary)
        if is_check and config.runner:
            self._rehearse(config, config.runner, until)
        if is_check:
            reason = "rehearsed" if config.runner else "proven"
            channel.verdict(verdict._replace(reason=reason))
            return Ending(reason, verdict.summary)
        channel.verdict(verdict)
        if request:
            return self._run_build(request)
        if not config.runner:
            return Ending("proven", verdict.summary, stays=True)
        return self._run_job(config, config.runner)

    def _protect_identity(self, config: Config) -> None:
        """Block the machine's identity for every user except root, before a job or a command of a build."""
        if config.driver.source == "cos":
            # On Container-Optimized OS the agent runs in a container, and the system blocks the programs of a job.
            raise AgentExit("no-config", "driver: cos is for checks without a runner; a runner needs another image")
        if self._dependencies.machine.takes_runners:
            self._dependencies.block_identity()

    def _run_build(self, request: BuildRequest) -> Ending:
        """Run the command of a build step."""
        deps = self._dependencies
        if not deps.machine.takes_runners:
            raise AgentExit("not-isolated", "builds run only on Compute Engine VMs, and this is not one")
        _require_healthy(deps.gpu_problem())
        return deps.build(request, self._channel, lambda: _write_mark(self._mark), self._with_notice)

    def _check(self, config: Config) -> Verdict:
        deps, channel = self._dependencies, self._channel
        deadline = driver.deadline(config, deps.machine)
        channel.step("driver", deadline - deps.clock.now())
        deps.get_driver(config, deps.machine, deadline, channel.restarting)
        channel.step("check", deadline - deps.clock.now())
        return deps.check(config, deps.host.attribute("gpu-smoke-pyz"), deps.machine, deadline)

    def _begin(self, step: str, within_sec: float, until: float) -> float:
        """Begin a step with this duration, limited by `until`, and return its deadline."""
        now = self._dependencies.clock.now()
        deadline = min(now + within_sec, until)
        self._channel.step(step, max(deadline - now, 0))
        return deadline

    def _registrar(self, config: Config, grant_sec: float, until: float = inf) -> Registrar:
        deps = self._dependencies
        if config.github is None:
            return deps.broker(deps.host, deps.clock)
        deadline = self._begin("key", grant_sec + _KEY_SEC, until)
        key = deps.host.secret(config.github.private_key, deadline, grant_sec)
        return deps.github(config.github, key, deps.clock)

    def _rehearse(self, config: Config, runner: RunnerConfig, until: float) -> None:
        """Rehearse the registration, within the time that the gate waits for the result."""
        try:
            registrar = self._registrar(config, _CHECK_GRANT_SEC, until)
            if self._dependencies.machine.takes_runners:
                self._prepare(runner, until)
            registrar.rehearse(self._begin("register", runner.register_sec, until))
        except AgentExit as ended:
            late = until - self._dependencies.clock.now() < runner.register_sec
            if ended.end.stops_pool or ended.end.reason == "stopped" or not late:
                raise
            why = f"{ended.detail}; smoke.deadlineSec left the check machine less time than runner.registerSec"
            raise AgentExit(ended.end.reason, why) from None

    def _prepare(self, runner: RunnerConfig, until: float = inf) -> float:
        """Check that the machine can run a runner. Return the deadline of the registration."""
        deps = self._dependencies
        deadline = self._begin("runner", runner.register_sec, until)
        folder = deps.obtain(runner, deadline)
        deps.isolate(runner, deadline)
        deps.try_runner(folder, runner, deadline)
        _require_healthy(deps.gpu_problem())
        return deadline

    def _run_job(self, config: Config, runner: RunnerConfig) -> Ending:
        """Register a runner, wait for its job, and return the end of the machine after the job."""
        deps, channel = self._dependencies, self._channel
        if not deps.machine.takes_runners:
            raise AgentExit("not-isolated", "runners start only on Compute Engine VMs, and this is not one")
        registrar = self._registrar(config, _GRANT_SEC)
        # Everything that may fail comes before the registration, because GitHub would keep an unused runner.
        deadline = self._prepare(runner)
        if config.registered_by == "manager":
            # The manager reads new keys periodically. This time does not count as time for the runner's download.
            deadline = deps.clock.now() + runner.register_sec + runner.warm_sec
        channel.step("register", deadline - deps.clock.now())
        registration = registrar.register(deps.host.name(), runner, deadline)
        try:
            if runner.warm_sec:
                # It may have waited for hours since its check.
                channel.step("before-job", _AROUND_JOB_SEC)
                _require_healthy(deps.gpu_problem())
            _write_mark(self._mark)
            running = deps.start(registration)
        except BaseException:
            self._remove(registrar, registration)
            raise
        self._running = running
        try:
            self._wait_for_job(running, registrar, registration, runner.idle_sec)
            channel.job(running.job or {})
            # No key may remain in memory while an untrusted job runs on the machine.
            registrar.forget()
            # max_run_duration of the machine limits the job's duration.
            channel.step("job", None)
            # The runner reports that it has a job; its hook reports which job later.
            reason, detail = running.finish(channel.job)
        except BaseException as error:
            # The error may be a stop of the machine or a failure of the agent itself. In each case GitHub must learn
            # that the job is over and that the runner is gone.
            grace_sec = 0.0
            # Whatever fails here, the job must still be interrupted.
            with contextlib.suppress(Exception):
                grace_sec = self._let_job_save(running, error)
            running.interrupt(GRACE_SEC - grace_sec)
            if running.job is None:
                self._remove(registrar, registration)
                raise
            channel.job(running.job)
            channel.gpu_use(running.gpu_use())
            if not isinstance(error, AgentExit):
                raise
            why = self._with_notice(error)
            raise AgentExit(why.end.reason, f"{why.detail}; {_lost_job_text(running.job)}") from None
        channel.gpu_use(running.gpu_use())
        channel.step("after-job", _AROUND_JOB_SEC)
        _require_healthy(running.gpu_problem())
        if running.job_failed:
            detail += f"; {self._recheck(config)}"
        if config.reuse:
            deps.leave()
        return Ending(reason, detail)

    def _recheck(self, config: Config) -> str:
        """Return the result of the smoke check after a failed job. Raises AgentExit("gpu-fault")."""
        deps = self._dependencies
        deadline = self._begin("recheck", _RECHECK_SEC, inf)
        quick = replace(config, check_args=[*config.check_args, "--profile", "quick"], installs=False)
        verdict = deps.check(quick, deps.host.attribute("gpu-smoke-pyz"), deps.machine, deadline)
        if verdict.verdict == "pass":
            return "the GPU passed its check after the failed job"
        if verdict.exit_code in (GPU, HANG) and deps.clock.now() < deadline:
            raise AgentExit("gpu-fault", f"failed its check after the job: {verdict.summary}")
        # The job may have filled the disk, for example.
        return f"the check of the GPU after the failed job has no result: {verdict.summary}"

    def _wait_for_job(
        self, running: StartedRunner, registrar: Registrar, registration: Registration, idle_sec: int
    ) -> None:
        """Return when a job has started. Raises AgentExit if none starts, or if the runner ends without one."""
        late_sec = registrar.late_job_sec
        self._channel.step("waiting", idle_sec + late_sec)
        ended = running.wait(self._dependencies.clock.now() + idle_sec)
        # GitHub refuses to remove a runner that has just got a job, so the removal decides.
        if running.job is None and ended is None and not self._remove(registrar, registration):
            ended = running.wait(self._dependencies.clock.now() + late_sec)
        if running.job is None:
            raise AgentExit(*(ended or ("idle", f"no job came within {idle_sec} s")))

    def _remove(self, registrar: Registrar, registration: Registration) -> bool:
        if not registrar.remove(registration.runner_id, self._dependencies.clock.now() + _REMOVE_SEC):
            return False
        # The runner took no job. Without the mark, the machine can take one after a stop and a start.
        self._mark.unlink(missing_ok=True)
        return True

    @property
    def _mark(self) -> Path:
        return self._dependencies.machine.state / "runner-started"


def _causing_exit(error: BaseException) -> AgentExit | None:
    """Return the AgentExit that ended the agent: the error itself, or a stop that caused the error.

    A signal may stop the agent anywhere, also inside Python's own code. That code may then fail with another error. For
    example, threading.Thread.start can turn an exception between two of its lines into a KeyError.
    """
    if isinstance(error, AgentExit):
        return error
    context = error.__context__
    while context:
        if isinstance(context, AgentExit) and context.end.reason == "stopped":
            return context
        context = context.__context__
    return None


def _write_mark(mark: Path) -> None:
    """Write the mark before the runner starts, and sync it to the disk, because the power may fail at any time."""
    mark.parent.mkdir(parents=True, exist_ok=True)
    for path, how in ((mark, os.O_CREAT | os.O_WRONLY), (mark.parent, os.O_RDONLY)):
        number = os.open(path, how, 0o600)
        os.fsync(number)
        os.close(number)


def _require_healthy(problem: Problem | None) -> None:
    if problem:
        raise AgentExit(*problem.end)


def _lost_job_text(job: Mapping[str, str]) -> str:
    facts = (job.get("repository", "a repository"), f"run {job.get('run_id', '?')}", f"job {job.get('job', '?')}")
    return f"lost: {', '.join(facts)}"


def listen(host: Host, ends_machine: Callable[[Notice], bool], poll_sec: float = 60.0) -> threading.Thread:
    """Start to wait in the returned thread. Each notice goes to `ends_machine` and to a guest attribute.

    If `ends_machine` returns True, the agent's main thread gets SIGTERM, the same signal as for a stop of the machine.
    Every wait of the agent therefore ends in the same way.
    """

    def wait() -> None:
        known: Notice | None = None
        ends = False
        while not ends:
            try:
                notice = host.notice(poll_sec)
            except Exception:
                # A machine that lacks a resource, such as memory for a thread, must still receive the notice later.
                time.sleep(_PAUSE_SEC)
                continue
            if notice is None or notice == known:
                # The same notice is returned again and again. Another notice may follow.
                time.sleep(_PAUSE_SEC if notice else 0)
                continue
            known, ends = notice, ends_machine(notice)
            if ends:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            # If this fails, the report of the end contains the notice too, and has more time.
            with contextlib.suppress(Exception):
                host.publish(NOTICE_KEY, json.dumps({"reason": notice.reason, "words": notice.announcement}))

    listener = threading.Thread(target=wait, daemon=True)
    listener.start()
    return listener


class Registrar(Protocol):
    """Registers the runner: as a GitHub App on this machine (github/), or through the runner manager (broker/)."""

    late_job_sec: float
    """Seconds to wait for a job if an idle runner cannot be removed, because GitHub may have just assigned one."""

    def rehearse(self, deadline: float) -> None:
        """Do every step of a registration except the registration itself. Raises AgentExit if a step would fail."""

    def register(self, name: str, runner: RunnerConfig, deadline: float) -> Registration:
        """Register a runner of this name for one job. Raises AgentExit if GitHub refuses it or does not answer."""

    def remove(self, runner_id: int, deadline: float) -> bool:
        """Remove a runner without a job. Return True if it is gone. Raises only if the machine must stop."""

    def forget(self) -> None:
        """Drop the key, because no further request follows."""


@dataclass(frozen=True)
class Dependencies:
    """The dependencies of the agent."""

    host: Host
    clock: Clock
    machine: Machine
    get_driver: Callable[[Config, Machine, float, Callable[[bool], None]], None]
    check: Callable[[Config, str | None, Machine, float], Verdict]
    github: Callable[[GithubConfig, bytes, Clock], Registrar]
    broker: Callable[[Host, Clock], Registrar]
    block_identity: Callable[[], None]
    """Blocks the machine's identity for every user except root. It runs before any other step."""
    obtain: Callable[[RunnerConfig, float], Path]
    """Downloads the runner, verifies that it is the pinned one, and returns its folder."""
    isolate: Callable[[RunnerConfig, float], None]
    """Isolates jobs from the machine's identity in this Docker mode, until a deadline."""
    try_runner: Callable[[Path, RunnerConfig, float], None]
    """Starts the program in the runner's folder as its user, and requires the pinned version, until a deadline."""
    gpu_problem: Callable[[], Problem | None]
    """Returns why the GPU must not take a job."""
    start: Callable[[Registration], StartedRunner]
    """Starts the registered runner."""
    clean: Callable[[float], None]
    """Removes what an earlier job has left on the host, until a deadline."""
    leave: Callable[[], None]
    """Lets the host wait for its next machine, after a job."""
    build: Callable[[BuildRequest, Channel, Callable[[], None], Callable[[AgentExit], AgentExit]], Ending]
    """Runs the command of a build. The two functions write the mark of a used machine, and return an end's cause."""
