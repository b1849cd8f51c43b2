"""The processes of a machine of the test's, by number."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path


def numbers() -> set[int]:
    """All that there are."""
    return {int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()}


def children() -> dict[int, list[int]]:
    """By parent; those that have ended are left out."""
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
    """Its command line; nothing where it has ended."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return b""


def child_of(parent: int) -> int:
    """The one that runs the agent; LookupError where there is none."""
    for child in children().get(parent, []):
        if b"gpu_agent.pyz\0run" in command(child):
            return child
    raise LookupError(parent)


def kill_all_but(apart: set[int]) -> None:
    """The machine is off: all of it at one moment, so that no script goes on because a command of it was killed."""
    for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGKILL):
        for pid in numbers() - apart:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(0.01)
