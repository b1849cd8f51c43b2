"""The processes of the test's machine, by process id."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path


def numbers() -> set[int]:
    """Return the ids of all processes."""
    return {int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()}


def children() -> dict[int, list[int]]:
    """Return the processes by their parent, without those that have ended."""
    found: dict[int, list[int]] = {}
    for number in numbers():
        try:
            status = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if status[0] not in "ZX":
            found.setdefault(int(status[1]), []).append(number)
    return found


def command(number: int) -> bytes:
    """Return the command line of a process, or an empty list if it has ended."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return b""


def child_of(parent: int) -> int:
    """Return the child process that runs the agent. Raises LookupError if it does not run."""
    for child in children().get(parent, []):
        if b"gpu_agent.pyz\0run" in command(child):
            return child
    raise LookupError(parent)


def kill_all_but(apart: set[int]) -> None:
    """Kill all other processes at once, as a power-off does. A script must not continue after its command is killed."""
    for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGKILL):
        for pid in numbers() - apart:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(0.01)
