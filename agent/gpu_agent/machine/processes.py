"""Processes of the machine: ends those of a user, limits those of a job, and switches off without a new process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import re
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..clock import Clock

_SCANS = 50
_OFF_TRIES, _OFF_SEC, _OFF_PAUSE_SEC = 3, 20.0, 2.0


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


# A job can neither exhaust the machine nor prevent its end.
_BOUNDS = ("proc/sys/kernel/threads-max", "proc/sys/kernel/pid_max")
# If the memory is full, the kernel ends the process with the highest score. This value is added to the score of a job's
# process, in thousandths of the memory (proc(5), oom_score_adj). GitHub's runner adds the same to its jobs
# (src/Runner.Sdk/ProcessInvoker.cs); the agent has 0.
_OOM_SCORE = 500
NEEDED = ("prlimit", "choom", "setpriv")
"""The programs that set the limits, all from util-linux."""


def with_limits(argv: list[str]) -> list[str]:
    """Return the command with the limit of processes and the score for a full memory. Only root can remove them
    (setrlimit(2), proc(5)).
    """
    return ["prlimit", f"--nproc={most_tasks()}", "choom", "-n", str(_OOM_SCORE), "--", *argv]


def most_tasks(root: Path = Path("/")) -> int:
    """Return the limit of processes and threads for the runner's user: three quarters of this program's own limit.

    Job and agent share a cgroup, in which systemd allows 15 % of the machine's limit (systemd-system.conf(5),
    DefaultTasksMax). The rest lets the agent start the programs that end the machine.
    """
    files = [root / name for name in _BOUNDS]
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        # Version 2 of cgroups, as in every image with Python 3.11 (cgroups(7)).
        if line.startswith("0::/"):
            own = root / "sys/fs/cgroup" / line.removeprefix("0::/")
            files += [folder / "pids.max" for folder in (own, *own.parents)]
    values = [file.read_text().strip() for file in files if file.is_file()]
    own_limit = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    bounds = [int(each) for each in values if each != "max"] + (
        [] if own_limit == resource.RLIM_INFINITY else [own_limit]
    )
    return min(bounds) * 3 // 4


BOOT_DOCUMENT = Path("/run/gpu-ci/boot.json")
"""The boot document of a machine with a mailbox (mailbox/document.py). Only root can create it."""
_PRODUCT = Path("/sys/class/dmi/id/product_name")
_POWER_OFF = 0x4321FEDC  # linux/reboot.h, LINUX_REBOOT_CMD_POWER_OFF


def power_off(prefix: Sequence[str], cut: Callable[[], object], clock: Clock) -> None:
    """Switch the machine off like an administrator, with retries, and then with `cut`.

    Raises OSError if the machine stays on. The boot script has other ways to end it.
    """
    for _ in range(_OFF_TRIES):
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            done = subprocess.run([*prefix, "shutdown", "-h", "now"], check=False, timeout=_OFF_SEC)
            if done.returncode == 0:
                return
        clock.sleep(_OFF_PAUSE_SEC)
    cut()
    raise OSError("the machine cannot be switched off")


def cut_power() -> None:
    """Switch the machine off at once with the kernel (reboot(2)). Do nothing except as root on a machine.

    This function checks that itself, because a mistake elsewhere must not switch a user's computer off.
    """
    is_google = _PRODUCT.is_file() and _PRODUCT.read_text().startswith("Google")
    has_mailbox = BOOT_DOCUMENT.is_file() and BOOT_DOCUMENT.stat().st_uid == 0
    if os.geteuid() == 0 and (is_google or has_mailbox):
        ctypes.CDLL(None).reboot(_POWER_OFF)
