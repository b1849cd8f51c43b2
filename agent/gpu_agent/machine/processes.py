"""Which processes belong to a user, as /proc tells it, and their end."""

from __future__ import annotations

import os
import pwd
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_WALKS = 50


class Lent(NamedTuple):
    """Ids that a user may use inside its containers: one line of /etc/subuid or /etc/subgid (subuid(5))."""

    owner: str
    """A name or a number."""
    ids: range


def lent_ids(kind: str) -> list[Lent]:
    """All that are lent; `kind` is uid or gid."""
    path = Path(f"/etc/sub{kind}")
    text = path.read_text() if path.exists() else ""
    found = re.findall(r"^([^:\s]+):(\d+):(\d+)\s*$", text, re.MULTILINE)
    return [Lent(owner, range(int(first), int(first) + int(count))) for owner, first, count in found]


def of(name: str, uid: int) -> Iterator[Path]:
    """The folder in /proc of each process that lives and is the user's, or one of its containers'."""
    uids = [range(uid, uid + 1), *(lent.ids for lent in lent_ids("uid") if lent.owner in (name, str(uid)))]
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            lines = (process / "status").read_text(errors="replace").splitlines()
        except OSError:
            continue  # it has just ended
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        # A zombie (Z) has ended; only its parent can clear it away.
        if fields.get("State", "Z")[0] not in "ZX" and any(int(fields["Uid"].split()[0]) in ids for ids in uids):
            yield process


def kill(pid: int) -> None:
    """SIGKILL to a process, or to a process group by its negative number; nothing where it is gone."""
    try:
        if pid < 0:
            os.killpg(-pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_all_of(name: str) -> None:
    """End what the user runs, without starting anything: it may have left no room for another process.

    A walk over /proc may miss what forks and exits all the time; the room that this takes is free again all the same.
    """
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return
    for _ in range(_WALKS):
        left = [int(process.name) for process in of(name, uid)]
        if not left:
            return
        for pid in left:
            kill(pid)
