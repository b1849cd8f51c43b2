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
_PATIENCE_SEC = 10.0


class Seen(NamedTuple):
    """One process."""

    pid: int
    parent: int
    resident_bytes: int


def children() -> set[int]:
    """Return the PIDs of the children of this process."""
    return {each.pid for each in _all() if each.parent == os.getpid()}


def below(before: set[int]) -> list[Seen]:
    """Return all descendants of this process, except `before` and their descendants."""
    found: dict[int, list[Seen]] = {}
    for each in _all():
        found.setdefault(each.parent, []).append(each)
    listed: list[Seen] = []
    left = [os.getpid()]
    while left:
        ours = [each for each in found.pop(left.pop(), ()) if each.pid not in before]
        listed += ours
        left += [each.pid for each in ours]
    return listed


def end(before: set[int], but: int) -> None:
    """Kill the processes repeatedly until none is left, because a process can start others in the meantime.

    `but` is not reaped, so that its starter can read its exit code. Orphans are reaped.
    """
    until = time.monotonic() + _PATIENCE_SEC
    while (left := [each for each in below(before) if each.pid != but or _runs(but)]) and time.monotonic() < until:
        for each in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
        for each in left:
            if each.parent == os.getpid() and each.pid != but:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(each.pid, os.WNOHANG)
        time.sleep(_NEXT_PASS_SEC)


def _runs(pid: int) -> bool:
    """Whether it has not ended yet, as somebody who has not been asked for its exit code has."""
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    return False


def _all() -> Iterator[Seen]:
    """Return every process of this machine."""
    if not sys.platform.startswith("linux"):
        for each in psutil.process_iter(["ppid", "memory_info"]):
            memory = each.info["memory_info"]
            yield Seen(each.pid, each.info["ppid"], memory.rss if memory else 0)
        return
    page = os.sysconf("SC_PAGE_SIZE")
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # proc(5): behind the name, which may hold any sign, stand the state, the parent and, as the 22nd of
                # all that follows, the resident pages.
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                yield Seen(int(folder.name), int(fields[1]), int(fields[21]) * page)
