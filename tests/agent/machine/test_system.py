"""The tasks of root, carried out for real: processes, users, and the kernel's log."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.machine import processes, system
from gpu_agent.machine.system import PATH, TIMED_OUT, Output, System, User
from gpu_agent.outcomes import AgentExit

from tests.agent.fakes import machine
from tests.agent.fakes.machine import NOBODY

HERE = System()
SOMEBODY = User("nobody", NOBODY, NOBODY, Path("/"))


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_a_command_sees_nothing_of_the_agents_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_SECRET", "planted")
    assert "planted" not in HERE.run(["env"], timeout_sec=30).text


def test_a_command_that_hangs_is_killed_with_its_children() -> None:
    seconds = f"61.{os.getpid()}"
    program = f"import subprocess, time; subprocess.Popen(['sleep', '{seconds}']); time.sleep(60)"

    def running() -> bool:
        return f"sleep\0{seconds}\0".encode() in [_words(path) for path in Path("/proc").glob("[0-9]*")]

    done = HERE.run(python(program), timeout_sec=1)
    assert done == Output(TIMED_OUT, f"{sys.executable} did not end within 1 s")
    deadline = time.monotonic() + 20  # A killed process disappears a moment later.
    while running() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running()


def test_a_process_of_a_user_has_the_users_rights_and_ends_with_its_parent() -> None:
    machine.needs("setpriv")
    process = HERE.start(["cat", "/proc/self/status"], SOMEBODY, environment={"PATH": system.PATH}, folder=Path("/"))
    said, _ = process.communicate()
    status = dict(line.split(":\t", 1) for line in said.splitlines())
    rights = [status[name].split()[:4] for name in ("Uid", "Gid", "Groups", "NoNewPrivs", "CapEff")]
    assert rights == [[str(NOBODY)] * 4, [str(NOBODY)] * 4, [], ["1"], ["0" * 16]]


@pytest.mark.parametrize(("may_gain", "value"), [(False, "1"), (True, "0")])
def test_a_short_command_of_a_user_gains_permissions_only_if_it_may(may_gain: bool, value: str) -> None:
    machine.needs("setpriv")
    said = HERE.run(["cat", "/proc/self/status"], timeout_sec=30, user=SOMEBODY, may_gain=may_gain).text
    status = dict(line.split(":\t", 1) for line in said.splitlines())
    rights = [status[name].split()[:4] for name in ("Uid", "Gid", "Groups", "NoNewPrivs", "CapEff")]
    assert rights == [[str(NOBODY)] * 4, [str(NOBODY)] * 4, [], [value], ["0" * 16]]


def test_all_processes_of_a_user_end_and_no_others() -> None:
    def work() -> list[object]:
        user = HERE.runner_user()
        mine = subprocess.Popen(["sleep", "60"])
        machine.STARTED.append(mine)  # type: ignore[arg-type]
        others = [HERE.start(["sleep", "60"], user, environment=system.ENVIRONMENT, folder=Path("/")) for _ in range(3)]
        while [words[0] for words in HERE.commands_of(user)] != ["sleep"] * 3:
            time.sleep(0.01)
        ended = HERE.kill_all_of(user, Clock(), Clock().now() + 30)
        return [ended, HERE.commands_of(user), mine.poll(), [other.wait() for other in others]]

    assert machine.inside(work) == [True, [], None, [-9, -9, -9]]


def test_a_runner_user_that_is_root_is_refused() -> None:
    def work() -> str:
        with Path("/etc/passwd").open("a") as file:
            file.write("gpu-runner:x:0:0::/root:/bin/sh\n")
        try:
            HERE.runner_user()
        except AgentExit as ended:
            return str(ended)
        return ""

    assert machine.inside(work) == "not-isolated: gpu-runner is root on this image"


@pytest.mark.parametrize("baked", ["/bin/bash", ""])
@pytest.mark.parametrize(("missing", "shell"), [("", "/usr/sbin/nologin"), ("/usr/sbin/nologin", "/bin/false")])
def test_the_runner_user_cannot_log_in_also_where_the_image_gave_it_a_shell(
    baked: str, missing: str, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path, **more: str(path) != missing and real(path, **more))

    def work() -> list[str]:
        if baked:
            subprocess.run(["useradd", "--system", "--user-group", "--shell", baked, "gpu-runner"], check=True)
        HERE.runner_user()
        HERE.runner_user()
        return [line.split(":")[-1] for line in Path("/etc/passwd").read_text().splitlines() if "gpu-runner" in line]

    assert machine.inside(work) == [shell]


class Scheduled(System):
    """An image with cron and at, or with one of them."""

    programs: tuple[str, ...] = ("crontab", "at")

    def have(self, program: str) -> bool:
        return program in self.programs if program in ("crontab", "at") else super().have(program)


def turned_away() -> dict[str, str]:
    return {
        path.name: path.read_text() for path in sorted(Path("/etc").glob("*.deny")) if path.name[:2] in ("at", "cr")
    }


def test_cron_and_at_deny_the_runner_user_and_all_users_denied_before() -> None:
    def work() -> list[dict[str, str]]:
        for path in [*Path("/etc").glob("cron.*y"), *Path("/etc").glob("at.*")]:
            path.unlink() if path.is_file() else None
        system, found = Scheduled(), []
        system.programs = ()
        system.runner_user()
        found.append(turned_away())
        system.programs = ("crontab",)
        system.runner_user()
        found.append(turned_away())
        system.programs = ("crontab", "at")
        Path("/etc/at.deny").write_text("daemon\nbin")
        for _ in range(2):
            system.runner_user()
            found.append(turned_away())
        return found

    both = {"at.deny": "daemon\nbin\ngpu-runner\n", "cron.deny": "gpu-runner\n"}
    assert machine.inside(work) == [{}, {"cron.deny": "gpu-runner\n"}, both, both]


@pytest.mark.parametrize("name", ["cron.allow", "at.allow"])
def test_an_image_whose_cron_or_at_lets_the_runner_user_in_is_refused(name: str) -> None:
    def work() -> str:
        Path("/etc", name).write_text("root\ngpu-runner\n")
        try:
            Scheduled().runner_user()
        except AgentExit as ended:
            return str(ended)
        return ""

    assert machine.inside(work) == f"not-isolated: /etc/{name} of the image lets gpu-runner start programs later"


def test_the_gpus_device_files_give_their_group_only_where_others_may_not_use_them() -> None:
    def work() -> list[list[int]]:
        subprocess.run(["mount", "-t", "tmpfs", "own", "/dev"], check=True)
        found = []
        for mode in (0o666, 0o660, 0o600):
            os.mknod("/dev/nvidia0", 0o020000, os.makedev(195, 0))
            os.chown("/dev/nvidia0", 0, 44)
            Path("/dev/nvidia0").chmod(mode)
            found.append(list(HERE.runner_user().groups))
            Path("/dev/nvidia0").unlink()
        return found

    assert machine.inside(work) == [[], [44], []]


def _words(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


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


class Kernel:
    """A kernel that records the call and stays on."""

    asked: list[int]

    def reboot(self, how: int) -> int:
        self.asked.append(how)
        return 0


@pytest.mark.parametrize(
    ("maker", "user", "asked"),
    [("Google Compute Engine", 0, [0x4321FEDC]), ("Google Compute Engine", 1000, []), ("KVM", 0, []), (None, 0, [])],
)
def test_only_root_on_a_compute_engine_vm_switches_it_off_with_the_kernel(
    maker: str | None, user: int, asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel()
    kernel.asked = []
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: kernel)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(processes, "_PRODUCT", tmp_path / "product_name")
    if maker:
        (tmp_path / "product_name").write_text(f"{maker}\n")
    processes.cut_power()
    assert kernel.asked == asked
