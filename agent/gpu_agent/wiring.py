"""The parts that register and run a runner, as the agent's order takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from .clock import Clock
from .config import GithubConfig, RunnerConfig
from .ends import Ended
from .host import Host
from .parts import Github, Running


def parts(
    host: Host, clock: Clock
) -> tuple[
    Callable[[GithubConfig, bytes, Clock], Github],
    Callable[[RunnerConfig, float], Path],
    Callable[[str], None],
    Callable[[], str],
    Callable[[Path, str, RunnerConfig], Running],
]:
    """For parts.Parts: github, obtain, isolate, unfit, start."""

    def missing(*_: object) -> NoReturn:
        raise Ended("no-runner", "this agent has no runner")

    return missing, missing, missing, missing, missing
