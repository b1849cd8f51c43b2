"""Finds the processes of a user in /proc, and ends them."""

from __future__ import annotations

import os
import pwd
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SCANS = 50


class SubordinateIds(NamedTuple):
    """Subordinate ids of a user for its containers: one line of /etc/subuid or /etc/subgid (subuid(5))."""

    owner: str
    """The name or the id of the user."""
    ids: range


def subordinate_ids(kind: str) -> list[SubordinateIds]:
    """Return all subordinate ids. `kind` is uid or gid."""
    path = Path(f"/etc/sub{kind}")
    text = path.read_text() if path.exists() else ""
    found = re.findall(r"^([^:\s]+):(\d+):(\d+)\s*$", text, re.MULTILINE)
    return [SubordinateIds(owner, range(int(first), int(first) + int(count))) for owner, first, count in found]


def of(name: str, uid: int) -> Iterator[Path]:
    """Return the folder in /proc of each live process of the user or of its containers."""
    uids = [range(uid, uid + 1), *(each.ids for each in subordinate_ids("uid") if each.owner in (name, str(uid)))]
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            lines = (process / "status").read_text(errors="replace").splitlines()
        except OSError:
            continue  # it has just ended
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        # A zombie (Z) has ended; only its parent can remove it.
        if fields.get("State", "Z")[0] not in "ZX" and any(int(fields["Uid"].split()[0]) in ids for ids in uids):
            yield process


def kill(pid: int) -> None:
    """Send SIGKILL to a process, or to a process group by its negative id. Ignore a missing one."""
    try:
        if pid < 0:
            os.killpg(-pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_all_of(name: str) -> None:
    """End the user's processes without starting a new process, because the limit of processes may be reached.

    A scan of /proc may miss processes that fork and exit all the time, but ending the others makes room for new ones.
    """
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return
    for _ in range(_SCANS):
        pids = [int(process.name) for process in of(name, uid)]
        if not pids:
            return
        for pid in pids:
            kill(pid)
