"""Starts the agent's Running with the fake runner, on an emulated machine of the test."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

from gpu_agent.clock import Clock
from gpu_agent.config import RunnerConfig
from gpu_agent.machine import processes
from gpu_agent.machine.system import RUNNER_USER, System
from gpu_agent.runner.network_isolation import NetworkIsolation
from gpu_agent.runner.process import Running, make_root

from tests.agent.fakes import machine, runner
from tests.agent.fakes.runner import VERSION

CONFIG = RunnerConfig(VERSION, {})
BLOB = runner.jitconfig(AgentName="gpu-1", Ephemeral=True)
HOOKS = {"ACTIONS_RUNNER_HOOK_JOB_STARTED": "/run/gpu-agent/job-started.sh"}
FOREVER = "while True: time.sleep(0.05)"
RUN = Path("/run/gpu-agent")


def start_runner(
    does: str, log: Callable[[str], None] = lambda _: None, docker: str = "none", blob: str = BLOB
) -> Running:
    """Start a runner that runs this code. Call it on an emulated machine."""
    tree = Path("/run/tree")
    with tarfile.open(fileobj=io.BytesIO(runner.archive(runner.listener(machine.open_python(), does)))) as tar:
        tar.extractall(tree)  # noqa: S202 - the test's own
    system = System(run_folder=RUN)
    isolation = NetworkIsolation(system.runner_user(), docker, {"DOCKER_HOST": "unix:///run/docker.sock"})
    root = make_root(tree, CONFIG, isolation, system)
    return Running(root, blob, isolation, HOOKS, system, Clock(), log)


def long_enough() -> float:
    """Wait long enough for any expected event."""
    return Clock().now() + 60


def wait_for_line(lines: list[str], line: str) -> None:
    """Return when the runner has written the line. If it never does, raise AssertionError with what it has written."""
    until = long_enough()
    while line not in lines:
        assert Clock().now() < until, lines
        time.sleep(0.01)


def processes_of_the_user() -> int:
    """Return the number of processes of the user: the most of several scans, because one scan may miss processes that
    fork.
    """
    [line] = [line for line in Path("/etc/passwd").read_text().splitlines() if line.startswith(RUNNER_USER + ":")]
    return max(len(list(processes.of(RUNNER_USER, int(line.split(":")[2])))) for _ in range(20))


def diag(name: str) -> str:
    return (RUN / "runner" / "_diag" / name).read_text()
