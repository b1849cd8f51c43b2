"""The limits of a job: processes, threads, and its score when the memory is full."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest
from gpu_agent.machine import processes
from gpu_agent.machine.system import PATH, System, User

from tests.agent.fakes import machine
from tests.agent.fakes.machine import NOBODY

SLICE = "sys/fs/cgroup/system.slice/google-startup-scripts.service"


def machine_of(root: Path, **files: str) -> Path:
    """Return the limits of a machine, as the kernel shows them."""
    for name, text in {
        "proc/sys/kernel/threads-max": "100000",
        "proc/sys/kernel/pid_max": "4194304",
        "proc/self/cgroup": "0::/system.slice/google-startup-scripts.service",
        f"{SLICE}/pids.max": "max",
        **files,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("files", "tasks"),
    [
        ({}, 75_000),
        ({"proc/sys/kernel/pid_max": "32768"}, 24_576),
        ({f"{SLICE}/pids.max": "4915"}, 3_686),
        ({"sys/fs/cgroup/system.slice/pids.max": "1000", f"{SLICE}/pids.max": "4915"}, 750),
        # Version 1 of cgroups, and a container that sees its own cgroup as the root.
        ({"proc/self/cgroup": "8:pids:/\n0::/"}, 75_000),
    ],
)
def test_a_job_may_have_three_quarters_of_what_its_machine_lets_the_agent_have(
    files: dict[str, str], tasks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert processes.most_tasks(machine_of(tmp_path, **files)) == tasks


def test_a_job_may_have_no_more_than_the_agents_own_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (400, 400))
    assert processes.most_tasks(machine_of(tmp_path)) == 300


def test_a_job_gets_the_limits_and_cannot_remove_them(monkeypatch: pytest.MonkeyPatch) -> None:
    machine.needs(*processes.NEEDED)
    monkeypatch.setattr(processes, "most_tasks", lambda: 321)
    program = (
        "import pathlib, resource, sys; limit = resource.getrlimit(resource.RLIMIT_NPROC);"
        "score = pathlib.Path('/proc/self/oom_score_adj').read_text().strip();"
        "sys.stdout.write(f'{limit} {score} ')\n"
        "try: resource.setrlimit(resource.RLIMIT_NPROC, (322, 322))\n"
        "except ValueError: sys.stdout.write('held')"
    )
    user = User("nobody", NOBODY, NOBODY, Path("/"))
    python = [machine.open_python(), "-I", "-S", "-c", program]
    process = System(python=sys.executable).start(python, user, environment={"PATH": PATH}, folder=Path("/"))
    assert process.communicate()[0] == "(321, 321) 500 held"
