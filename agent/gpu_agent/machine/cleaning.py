"""Removes what an earlier job has left on a host that runs several jobs (`reuse` of a pool).

A job is not root and gains no permissions, so the files, processes and IPC objects of its user, and of the users of its
containers, are all that it can leave. What a job that became root has left cannot be found this way.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..clock import Clock
from ..outcomes import AgentExit
from . import processes
from .system import RUNNER_USER, System, User

UNIT = "gpu-agent.service"
"""The unit of the boot script (components/gpu_ci/mailbox/boot.sh)."""
_IPC = {"shm": "-m", "msg": "-q", "sem": "-s"}
"""The options of ipcrm(1) by the files of /proc/sysvipc (proc(5))."""
# Files that name the user, which root or systemd creates for it (crontab(1), loginctl(1)).
_NAMED = ("/var/spool/cron/crontabs", "/var/spool/cron", "/var/lib/systemd/linger")
_IN_MEMORY = ("tmpfs", "mqueue")


def clean(system: System, clock: Clock, deadline: float) -> None:
    """Remove the runner's user with all that it owns, and create it again. Raises AgentExit("not-clean")."""
    user = system.runner_user()
    if not system.kill_all_of(user, clock, deadline):
        raise AgentExit("not-clean", "processes of an earlier job do not end")
    # The agent has created files of root in the user's home.
    shutil.rmtree(user.home)
    for folder in _NAMED:
        Path(folder, RUNNER_USER).unlink(missing_ok=True)
    ranges = _ids(user)
    for option, number in _ipc_objects(ranges):
        system.must("not-clean", ["ipcrm", option, number])
    owned = " -o ".join(f"-uid +{each.start - 1} -uid -{each.stop}" for each in ranges).split()
    search = ["find", *filesystems(), "-ignore_readdir_race", "-xdev", "(", *owned, ")", "-delete"]
    system.must("not-clean", search, timeout_sec=max(deadline - clock.now(), 1))
    system.must("not-clean", ["userdel", RUNNER_USER])
    system.runner_user()


def leave(system: System) -> None:
    """Let the host wait for the boot script of its next machine. The script of this machine must not run again."""
    if system.has_systemd():
        system.must("not-clean", ["systemctl", "disable", UNIT])


def filesystems(mounts: Path = Path("/proc/self/mounts")) -> list[str]:
    """Return the folders where writable file systems on disks and in memory are mounted."""
    found = []
    for line in mounts.read_text().splitlines():
        device, folder, kind, options = line.split()[:4]
        if (device.startswith("/") or kind in _IN_MEMORY) and "rw" in options.split(","):
            # The kernel writes a space as \\040 (proc(5)).
            found.append(re.sub(r"\\([0-7]{3})", lambda each: chr(int(each[1], 8)), folder))
    return found


def _ids(user: User) -> list[range]:
    others = (each.ids for each in processes.subordinate_ids("uid") if each.owner in (user.name, str(user.uid)))
    return [range(user.uid, user.uid + 1), *others]


def _ipc_objects(ranges: list[range]) -> Iterator[tuple[str, str]]:
    """Yield the option of ipcrm and the id of each IPC object of these users."""
    for name, option in _IPC.items():
        with contextlib.suppress(FileNotFoundError):  # a kernel without them
            head, *rows = Path("/proc/sysvipc", name).read_text().splitlines()
            for row in rows:
                value = dict(zip(head.split(), row.split(), strict=True))
                if any(int(value[key]) in each for key in ("uid", "cuid") for each in ranges):
                    yield option, row.split()[1]
