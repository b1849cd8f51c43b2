"""Runs the programs that `gpu-ci doctor` and `gpu-ci explain` need: kubectl, pulumi and gh."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TIMEOUT_SEC = 60


class NotAskedError(Exception):
    """A question got no answer: a program or a permission is missing, or a service is disabled."""

    def __init__(self, text: str, fix: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.fix = fix


class NotInstalledError(NotAskedError):
    """The program is not installed."""


@dataclass(frozen=True)
class Output:
    """The output of a program and its exit code."""

    code: int
    out: str
    err: str


def run(
    command: Sequence[str], timeout_sec: float = _TIMEOUT_SEC, environment: Mapping[str, str] | None = None
) -> Output:
    """Run a program, with these additional environment variables.

    Raises:
        NotAskedError: The program is not installed, cannot be started, or does not end in time.
    """
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=timeout_sec,
            check=False, env={**os.environ, **(environment or {})},
        )  # fmt: skip
    except FileNotFoundError:
        raise NotInstalledError(f"{command[0]} is not installed") from None
    except OSError as error:
        raise NotAskedError(f"{command[0]} cannot be started: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise NotAskedError(f"{command[0]} did not answer within {timeout_sec:g} s") from None
    return Output(completed.returncode, completed.stdout, completed.stderr)


def run_json(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Any:
    """Return the JSON that a program prints. Raise NotAskedError if it fails or prints other text."""
    output = run(command, environment=environment)
    if output.code:
        lines = output.err.strip().splitlines() or [f"exit code {output.code}"]
        raise NotAskedError(f"{command[0]}: {lines[-1]}")
    try:
        return json.loads(output.out)
    except ValueError:
        raise NotAskedError(f"{command[0]} printed no JSON") from None
