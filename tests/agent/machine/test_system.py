"""The tasks of root, carried out for real: processes, users, and the kernel's log."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.machine import processes, system
from gpu_agent.machine.processes import SubordinateIds
from gpu_agent.machine.system import MISSING, TIMED_OUT, Output, System, User
from gpu_agent.outcomes import AgentExit

from tests.agent.fakes import machine
from tests.agent.fakes.machine import NOBODY

HERE = System()
SOMEBODY = User("nobody", NOBODY, NOBODY, Path("/"))


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_a_commands_two_streams_come_as_one_with_its_exit_code() -> None:
    program = "import sys; print('out', flush=True); print('error', file=sys.stderr); sys.exit(3)"
    assert HERE.run(python(program), timeout_sec=30) == Output(3, "out\nerror\n")


def test_a_command_reads_what_it_is_given() -> None:
    assert HERE.run(["cat"], text="rules\n", timeout_sec=30) == Output(0, "rules\n")


def test_a_command_sees_nothing_of_the_agents_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_SECRET", "planted")
    assert "planted" not in HERE.run(["env"], timeout_sec=30).text


def test_a_missing_program_is_an_exit_code() -> None:
    assert HERE.run(["no-such-program"], timeout_sec=30) == Output(
        MISSING, "no-such-program: No such file or directory"
    )


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


def test_the_first_line_with_text_represents_the_output() -> None:
    assert Output(1, "\n  first  \nsecond\n").line == "first"
    assert Output(9, " \n").line == "exit code 9"
    assert len(Output(1, "x" * 999).line) == 200


def test_a_failed_required_command_ends_the_machine_with_its_output() -> None:
    with pytest.raises(AgentExit) as ended:
        HERE.must("no-runner", python("import sys; sys.exit('no room')"))
    assert str(ended.value) == f"no-runner: {sys.executable} failed (1): no room"


def test_a_process_of_a_user_has_the_users_rights_and_ends_with_its_parent() -> None:
    machine.needs("setpriv")
    process = HERE.start(["cat", "/proc/self/status"], SOMEBODY, environment={"PATH": system.PATH}, folder=Path("/"))
    said, _ = process.communicate()
    status = dict(line.split(":\t", 1) for line in said.splitlines())
    rights = [status[name].split()[:4] for name in ("Uid", "Gid", "Groups", "NoNewPrivs", "CapEff")]
    assert rights == [[str(NOBODY)] * 4, [str(NOBODY)] * 4, [], ["1"], ["0" * 16]]


@pytest.mark.parametrize("groups", [(), (44,), (44, 999)])
def test_a_process_has_the_groups_it_is_given_and_no_others(groups: tuple[int, ...]) -> None:
    machine.needs("setpriv")
    user = SOMEBODY._replace(groups=groups)
    process = HERE.start(["id", "-G"], user, environment={"PATH": system.PATH}, folder=Path("/"), may_gain=True)
    said, _ = process.communicate()
    assert said.split() == [str(NOBODY), *map(str, groups)]


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


def test_a_process_that_a_scan_of_proc_misses_is_ended_too() -> None:
    """A scan of /proc finds a process that forks and exits all the time only sometimes."""

    def work() -> list[object]:
        user = HERE.runner_user()
        process = HERE.start(["sleep", "60"], user, environment=system.ENVIRONMENT, folder=Path("/"))
        while HERE.commands_of(user) != [["sleep", "60"]]:
            time.sleep(0.01)
        processes.of = lambda *_: iter(())  # This changes only the child process in which `work` runs.
        return [HERE.kill_all_of(user, Clock(), Clock().now() + 30), process.poll() or process.wait(10)]

    assert machine.inside(work) == [True, -9]


def test_the_processes_of_a_users_containers_are_ended_too() -> None:
    def work() -> list[object]:
        user = HERE.runner_user()
        Path("/etc/subuid").write_text(f"{user.name}:700000:65536\n")
        inner = User("inner", 700_005, 700_005, Path("/"))
        process = HERE.start(["sleep", "60"], inner, environment=system.ENVIRONMENT, folder=Path("/"))
        while HERE.commands_of(user) != [["sleep", "60"]]:
            time.sleep(0.01)
        return [HERE.kill_all_of(user, Clock(), Clock().now() + 30), process.wait()]

    assert machine.inside(work) == [True, -9]


def test_a_users_processes_are_ended_without_starting_another() -> None:
    def work() -> list[object]:
        processes.end_all_of("gpu-runner")  # The user has no process yet.
        user = HERE.runner_user()
        others = [HERE.start(["sleep", "60"], user, environment=system.ENVIRONMENT, folder=Path("/")) for _ in range(3)]
        while [words[0] for words in HERE.commands_of(user)] != ["sleep"] * 3:
            time.sleep(0.01)
        subprocess.Popen = None  # type: ignore[misc,assignment] # only in the child process of `work`
        os.fork = None  # type: ignore[assignment]
        processes.end_all_of("gpu-runner")
        return [HERE.commands_of(user), [other.wait() for other in others]]

    assert machine.inside(work) == [[], [-9, -9, -9]]


def test_a_process_whose_name_is_not_valid_text_is_found() -> None:
    def work() -> list[str]:
        user = HERE.runner_user()
        program = "import ctypes, time; ctypes.CDLL(None).prctl(15, bytes([255, 254])); print(); time.sleep(60)"
        python = [machine.open_python(), "-I", "-S", "-u", "-c", program]
        process = HERE.start(python, user, environment=system.ENVIRONMENT, folder=Path("/"))
        assert process.stdout is not None
        process.stdout.readline()
        return [words[0] for words in HERE.commands_of(user)]

    assert machine.inside(work) == [machine.open_python()]


def test_subordinate_ids_are_read_despite_invalid_lines() -> None:
    def work() -> list[SubordinateIds]:
        Path("/etc/subuid").write_text("# lent\n\nuser:100000:65536\n1000:200000:10\nbroken:1\n")
        return [(each.owner, each.ids.start, each.ids.stop) for each in processes.subordinate_ids("uid")]  # type: ignore[misc]

    assert machine.inside(work) == [["user", 100_000, 165_536], ["1000", 200_000, 200_010]]


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


def test_a_runner_user_of_the_image_gets_a_missing_home() -> None:
    def work() -> list[object]:
        home = Path("/home/of/gpu-runner")
        subprocess.run(["useradd", "--system", "--home-dir", str(home), "--no-create-home", "gpu-runner"], check=True)
        user = HERE.runner_user()
        status = home.stat()
        return [str(user.home), status.st_uid == user.uid, oct(status.st_mode & 0o777)]

    assert machine.inside(work) == ["/home/of/gpu-runner", True, "0o700"]


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


def may_read_kernel_log() -> bool:
    """Return True if the kernel's log can be read. With kernel.dmesg_restrict a user can open it but read nothing."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return bool(os.read(log, 8192))
    except OSError:
        return False
    finally:
        os.close(log)


def test_the_kernels_log_is_read_to_its_end_line_by_line() -> None:
    if not may_read_kernel_log():
        pytest.skip("needs /dev/kmsg to be readable: root, outside of a container")
    lines = HERE.kernel_log()
    assert lines
    assert not any("\n" in line for line in lines)


def test_where_the_kernels_log_cannot_be_read_it_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)
    assert HERE.kernel_log() == []


def _words(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(("program", "there"), [("useradd", False), ("usermod", True)])
def test_the_agent_ends_if_the_runner_user_cannot_be_created(program: str, there: bool) -> None:
    def work() -> str:
        if there:
            with Path("/etc/passwd").open("a") as file:
                file.write("gpu-runner:x:4242:4242::/home/gpu-runner:/bin/sh\n")
        folder = Path("/usr/local/sbin")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", str(folder)], check=True)
        tool = folder / program
        tool.write_text("#!/bin/sh\necho no room\nexit 3\n")
        tool.chmod(0o755)
        try:
            HERE.runner_user()
        except AgentExit as ended:
            return str(ended)
        return ""

    assert machine.inside(work) == f"no-tool: {program} failed (3): no room"
