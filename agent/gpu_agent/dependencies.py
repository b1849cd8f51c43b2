"""The interfaces of the agent's dependencies, so that tests can replace each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .build.request import BuildRequest
from .channel import Channel, Ending
from .clock import Clock
from .config import Config, GithubConfig, RunnerConfig
from .github.registration import Registration
from .host import Host
from .machine.commands import Machine
from .outcomes import AgentExit
from .report import Verdict
from .runner.session import StartedRunner


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
    isolate: Callable[[str, float], None]
    """Isolates jobs from the machine's identity in this Docker mode, until a deadline."""
    try_runner: Callable[[Path, RunnerConfig, float], None]
    """Starts the program in the runner's folder as its user, and requires the pinned version, until a deadline."""
    gpu_problem: Callable[[], str]
    """Returns why the GPU must not take a job, or ""."""
    start: Callable[[str], StartedRunner]
    """Starts the runner with this JIT configuration."""
    build: Callable[[BuildRequest, Channel, Callable[[], None], Callable[[AgentExit], AgentExit]], Ending]
    """Runs the command of a build. The two functions write the mark of a used machine, and return an end's cause."""
