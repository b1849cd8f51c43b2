"""What a job may take of the machine, so that it can neither fill it nor outlive what ends it."""

from __future__ import annotations

import resource
from pathlib import Path

_BOUNDS = ("proc/sys/kernel/threads-max", "proc/sys/kernel/pid_max")
# Added to a process's share of the memory, in thousandths, where the kernel looks for one to end (proc(5),
# oom_score_adj). GitHub's runner gives its jobs as much (src/Runner.Sdk/ProcessInvoker.cs); the agent has 0.
_OOM_SCORE = 500
NEEDED = ("prlimit", "choom", "setpriv")
"""Programs that hold a job to it, all of them util-linux's."""


def held(argv: list[str]) -> list[str]:
    """The command, held to both; root alone may lift either again (setrlimit(2), proc(5))."""
    return ["prlimit", f"--nproc={most_tasks()}", "choom", "-n", str(_OOM_SCORE), "--", *argv]


def most_tasks(root: Path = Path("/")) -> int:
    """How many processes and threads its user may have: three quarters of what the machine lets this program have.

    Job and agent share a cgroup, in which systemd allows 15 % of the machine's (systemd-system.conf(5),
    DefaultTasksMax). What is left lets the agent start what it ends the machine with.
    """
    files = [root / name for name in _BOUNDS]
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        # Of version 2, as every image with Python 3.11 has it (cgroups(7)).
        if line.startswith("0::/"):
            own = root / "sys/fs/cgroup" / line.removeprefix("0::/")
            files += [folder / "pids.max" for folder in (own, *own.parents)]
    values = [file.read_text().strip() for file in files if file.is_file()]
    own_limit = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    bounds = [int(each) for each in values if each != "max"] + (
        [] if own_limit == resource.RLIM_INFINITY else [own_limit]
    )
    return min(bounds) * 3 // 4
