"""What the agent's order is made of, so that a test can put something small in the place of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .clock import Clock
from .config import Config, GithubConfig, RunnerConfig
from .host import Host
from .machine.commands import Machine
from .report import Verdict


class Registration(Protocol):
    """A runner that GitHub knows."""

    @property
    def runner_id(self) -> int:
        """GitHub's number for it."""

    @property
    def jitconfig(self) -> str:
        """What the runner starts with; a secret."""


class Registrar(Protocol):
    """Who registers the runner: this machine as a GitHub App, or the runner manager."""

    late_job_sec: float
    """How much longer than its time an idle runner is waited for, where it cannot be taken away."""

    def rehearse(self, deadline: float) -> None:
        """All that registering needs, and register nothing. AgentExit where it would fail."""

    def register(self, name: str, runner: RunnerConfig, deadline: float) -> Registration:
        """A runner of this name for one job. AgentExit where that is refused or there is no answer."""

    def remove(self, runner_id: int, deadline: float) -> bool:
        """Take a runner away that got no job; raises only that the machine is to stop. True when it is gone."""

    def forget(self) -> None:
        """Let go of the key: nothing more is to be asked."""


class Running(Protocol):
    """GitHub's runner, started."""

    @property
    def job(self) -> Mapping[str, str] | None:
        """Which job it took: repository, run_id, job; None as long as it has none."""

    def wait(self, until: float) -> tuple[str, str] | None:
        """How it ended: a reason of OUTCOMES and its detail; None where it still runs at `until`, or has a job."""

    def finish(self, named: Callable[[Mapping[str, str]], None]) -> tuple[str, str]:
        """Wait for its end, however long the job takes; `named` hears which job it is as soon as that is known."""

    def gpu_problem(self) -> str:
        """After its end, with all that the job left ended too: why the GPU is not fit, or nothing."""

    def interrupt(self) -> None:
        """End it and all it started; it tells GitHub that its job was cancelled."""


@dataclass(frozen=True)
class Dependencies:
    """The agent's own."""

    host: Host
    clock: Clock
    machine: Machine
    get_driver: Callable[[Config, Machine, float, Callable[[bool], None]], None]
    check: Callable[[Config, str | None, Machine, float], Verdict]
    github: Callable[[GithubConfig, bytes, Clock], Registrar]
    broker: Callable[[Host, Clock], Registrar]
    close: Callable[[], None]
    """Shut everybody but root out of the machine's identity; before anything else."""
    obtain: Callable[[RunnerConfig, float], Path]
    """The runner's folder, fetched and proven to be the pinned one."""
    isolate: Callable[[str, float], None]
    """Cut jobs off from the machine's identity, for this docker mode, until a deadline."""
    try_runner: Callable[[Path, RunnerConfig, float], None]
    """Start the program in the runner's folder, as its user, and require the pinned version until a deadline."""
    gpu_problem: Callable[[], str]
    """Why the GPU is to take no job; nothing when it may."""
    start: Callable[[str], Running]
    """Start the runner with this JIT configuration."""
