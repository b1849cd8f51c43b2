"""Lists and ends the descendants of this process.

Each listing is one pass over /proc. A query for each process would take so long that a program with thousands of
processes could exceed its limits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

_NEXT_PASS_SEC = 0.01
_TIMEOUT_SEC = 10.0


class Process(NamedTuple):
    """One process."""

    pid: int
    parent: int
    resident_bytes: int


def children() -> set[int]:
    """Return the PIDs of the children of this process."""
    return {each.pid for each in _all() if each.parent == os.getpid()}


def descendants(children_before: set[int]) -> list[Process]:
    """Return all descendants of this process, except these children and their descendants."""
    by_parent: dict[int, list[Process]] = {}
    for each in _all():
        by_parent.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    parents = [os.getpid()]
    while parents:
        listed = [each for each in by_parent.pop(parents.pop(), ()) if each.pid not in children_before]
        found += listed
        parents += [each.pid for each in listed]
    return found


def kill_descendants(children_before: set[int], command_pid: int) -> None:
    """Kill all descendants, except these children, until none is left or 10 s have passed.

    The kill is repeated, because a process can start others in the meantime. Orphans are reaped. The process of the
    command is not reaped, so that its caller can read its exit code.
    """
    deadline = time.monotonic() + _TIMEOUT_SEC
    while time.monotonic() < deadline:
        running = [
            each for each in descendants(children_before) if each.pid != command_pid or not _has_ended(command_pid)
        ]
        if not running:
            return
        for each in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
        for each in running:
            if each.parent == os.getpid() and each.pid != command_pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(each.pid, os.WNOHANG)
        time.sleep(_NEXT_PASS_SEC)


def _has_ended(pid: int) -> bool:
    """Return True if a child has ended, also if its exit code has not been read yet (a zombie)."""
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return True


def _all() -> Iterator[Process]:
    """Yield every process of this machine."""
    if not sys.platform.startswith("linux"):
        for each in psutil.process_iter(["ppid", "memory_info"]):
            memory = each.info["memory_info"]
            yield Process(each.pid, each.info["ppid"], memory.rss if memory else 0)
        return
    page = os.sysconf("SC_PAGE_SIZE")
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # proc(5): the name in parentheses can have any characters. The fields after it begin with the state
                # and the parent, and the 22nd is the number of resident pages.
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                yield Process(int(folder.name), int(fields[1]), int(fields[21]) * page)
