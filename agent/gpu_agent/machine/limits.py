"""Limits of a job's processes and memory, so that a job can neither exhaust the machine nor prevent its end."""

from __future__ import annotations

import resource
from pathlib import Path

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
