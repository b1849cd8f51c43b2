"""Prepares and starts GitHub's runner: combines its archive, isolation, hooks, GPU checks and process.

The agent calls RunnerSetup before the registration, and StartedRunner after it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from ..clock import Clock
from ..config import RunnerConfig
from ..host import BlockedAddresses
from ..machine import gpu_health
from ..machine.gpu_health import Gpus
from ..machine.system import System
from ..outcomes import AgentExit
from . import archive as runner_archive
from . import network_isolation
from .hooks import Hooks
from .network_isolation import NetworkIsolation
from .process import Exit, Running, make_root, require_version

# The time for the runner to end its job after a stop. The rest of supervisor.GRACE_SEC is for the removal of the runner
# at GitHub and for the report of the end.
_INTERRUPT_SEC = 8.0
# The time for the job's processes to end after the runner has ended.
_CLEAR_SEC = 15.0
# The interval at which `finish` checks if the job's hook has named the job.
_NAME_SEC = 0.1


class RunnerSetup:
    """Implements the functions of dependencies.Dependencies for the runner.

    The agent calls them in this order: block_identity, obtain, isolate, try_runner, gpu_problem, start.
    """

    def __init__(self, blocked: BlockedAddresses, system: System, clock: Clock, say: Callable[[str], None]) -> None:
        self._blocked, self._system, self._clock, self._say = blocked, system, clock, say
        self._isolation: NetworkIsolation | None = None
        self._gpus: Gpus | None = None
        self._root: Path | None = None

    def block_identity(self) -> None:
        """Block the machine's identity for every user except root."""
        network_isolation.block_identity(self._blocked, self._system)

    def obtain(self, config: RunnerConfig, deadline: float) -> Path:
        """Return the folder of the pinned runner."""
        return runner_archive.obtain(config, self._system, self._clock, deadline, self._say)

    def isolate(self, docker: str, deadline: float) -> None:
        """Isolate the runner's user from the machine's identity."""
        self._isolation = network_isolation.isolate(self._blocked, docker, self._system, self._clock, deadline)

    def try_runner(self, folder: Path, config: RunnerConfig, deadline: float) -> None:
        """Create the runner's root from this folder, and start its program there."""
        if self._isolation is None:
            raise AgentExit("not-isolated", "a runner was started before its isolation")
        self._root = make_root(folder, config, self._isolation, self._system)
        require_version(self._root, config.version, self._isolation, self._system, self._clock, deadline)

    def gpu_problem(self) -> str:
        """Return why the GPUs must not take a job, or "". Store their state, with which later states are compared."""
        self._gpus = gpu_health.at_boot(self._system)
        return gpu_health.gpu_problem(self._system, self._gpus)

    def start(self, jitconfig: str) -> StartedRunner:
        """Start the runner and serve its hooks."""
        if self._isolation is None or self._root is None or self._gpus is None:
            raise AgentExit("not-isolated", "a runner was started before its isolation and the check of its GPUs")
        hooks = Hooks(self._isolation.user, self._system, self._readable_agent(), self._hook)
        running = Running(
            self._root, jitconfig, self._isolation, hooks.environment, self._system, self._clock, self._say
        )
        return StartedRunner(running, hooks, self._isolation, self._gpus, self._system, self._clock)

    def _hook(self, stage: str) -> str:
        """Answer a hook: check the GPUs at the start of a job.

        At the end of a job its processes may still use the GPUs. Therefore `StartedRunner.gpu_problem` checks them
        later, after these processes have ended.
        """
        return gpu_health.gpu_problem(self._system, self._gpus) if stage == "started" and self._gpus else ""

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
    """The runner after its start, with its hooks."""

    def __init__(
        self, running: Running, hooks: Hooks, isolation: NetworkIsolation, gpus: Gpus, system: System, clock: Clock
    ) -> None:
        self._running, self._hooks, self._isolation, self._gpus = running, hooks, isolation, gpus
        self._system, self._clock = system, clock

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
        ended = ended or self._running.wait(float("inf")) or Exit("runner-failed", "it did not end")
        # This also ends containers of rootful Docker, which are not processes of the runner's user.
        self._running.clear(self._clock.now() + _CLEAR_SEC)
        return self._end_of(ended)

    def gpu_problem(self) -> str:
        """Return why the GPUs are not usable after all processes of the job have ended, or ""."""
        return gpu_health.problem_after_job(self._system, self._gpus, self._isolation.user, self._clock)

    def interrupt(self) -> None:
        """End the runner with all its processes."""
        self._running.interrupt(_INTERRUPT_SEC)
        self._hooks.close()

    def _end_of(self, ended: Exit) -> tuple[str, str]:
        """Return the reason and the detail of the machine's end, from the end of the runner."""
        if self._hooks.refused:
            return "gpu-unhealthy", f"the job was refused: {self._hooks.refused}"
        if self.job is None:
            # The runner also exits with 0 if it "no longer exists on the server". GitHub sometimes removes a runner
            # without a job after minutes (actions/runner#4726).
            detail = f"it ended without a job{self._running.last_output}"
            return ("runner-failed", detail) if ended.reason == "ended" else ended
        # The job runs as the runner's user, so it may end the runner with any exit code. The code must not stop the
        # pool.
        return "job-done" if ended.reason == "ended" else "runner-failed", ended.detail
