"""The cleaning of a host after a job, carried out for real as root in namespaces of the test."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.machine import cleaning, system
from gpu_agent.machine.system import Output, System
from gpu_agent.outcomes import AgentExit

from tests.agent.fakes import machine

DISK = Path("/mnt")
JOB = """
ipcmk -M 64 && ipcmk -S 1 && ipcmk -Q
mkdir -p ~/deep/.hidden /mnt/open/cache && echo planted >/mnt/open/cache/wheel && ln -s /etc/passwd /mnt/open/link
python3 -c 'import ctypes; libc = ctypes.CDLL(None); value = (ctypes.c_uint * 64)(); libc.shmctl(0, 2, value)
value[1] = 0; exit(libc.shmctl(0, 1, value))'
cp /bin/true ~/deep/.hidden/tool; echo planted >/dev/shm/planted; touch "/mnt/open/a b" /tmp/planted /var/tmp/planted
"""


def namespaces() -> None:
    """Give the child its own temporary folders, disk and IPC objects. Nothing else may be cleaned on this computer."""
    import ctypes

    assert ctypes.CDLL(None).unshare(0x08000000) == 0  # CLONE_NEWIPC (linux/sched.h)
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/mnt", "/var/lib/systemd", "/var/spool"):  # noqa: S108
        Path(folder).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "own", folder], check=True)


OWN = ["/tmp", "/var/tmp", "/dev/shm", "/mnt", "/home", "/run"]  # noqa: S108


def ipc() -> int:
    return sum(len(Path("/proc/sysvipc", name).read_text().splitlines()) - 1 for name in ("shm", "msg", "sem"))


def test_after_a_cleaning_nothing_of_the_jobs_user_is_left_and_all_else_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    machine.needs("ipcrm", "ipcmk", "find", "userdel")
    monkeypatch.setattr(cleaning, "filesystems", lambda: OWN)

    def work() -> list[object]:
        namespaces()
        here = System()
        user = here.runner_user()
        subprocess.run(["usermod", "--add-subuids", "300000-365535", user.name], check=True)
        for folder in ("open", "roots"):
            (DISK / folder).mkdir()
        (DISK / "open").chmod(0o777)
        for file in (DISK / "roots" / "kept", user.home / "of-root"):
            file.touch()
        (DISK / "open" / "of-a-container").touch()
        subprocess.run(["chown", "300005:300005", str(DISK / "open" / "of-a-container")], check=True)
        linger = Path("/var/lib/systemd/linger", user.name)
        linger.parent.mkdir()
        linger.touch()
        environment = {**system.ENVIRONMENT, "HOME": str(user.home)}
        done = here.run(["sh", "-ec", JOB], user=user, environment=environment, timeout_sec=30)
        process = here.start(["sleep", "60"], user, environment=environment, folder=Path("/"))
        while not here.commands_of(user):
            time.sleep(0.01)
        before = [done.code, ipc(), len(list((DISK / "open").iterdir()))]
        cleaning.clean(here, Clock(), Clock().now() + 30)
        again = here.runner_user()
        left = [str(each) for folder in (*OWN[:4], user.home) for each in Path(folder).rglob("*")]
        new_home = [each for each in left if not each.startswith("/home/gpu-runner/.")]
        return [before, ipc(), process.wait(), linger.exists(), sorted(new_home), again.name, again.home.exists()]

    kept = ["/mnt/open", "/mnt/roots", "/mnt/roots/kept"]
    assert machine.inside(work) == [[0, 3, 4], 0, -9, False, kept, "gpu-runner", True]


class Broken(System):
    """A machine on which one program fails."""

    program = ""

    def run(self, argv: object, **more: object) -> Output:  # type: ignore[override]
        failed = self.program in argv  # type: ignore[operator]
        return Output(1, f"{self.program}: cannot") if failed else super().run(argv, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("program", ["find", "userdel"])
def test_a_cleaning_that_fails_ends_the_machine(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    machine.needs("userdel")
    monkeypatch.setattr(cleaning, "filesystems", lambda: OWN)
    monkeypatch.setattr(Broken, "program", program)

    def work() -> str:
        namespaces()
        try:
            cleaning.clean(Broken(), Clock(), Clock().now() + 30)
        except AgentExit as ended:
            return str(ended)
        return ""

    assert machine.inside(work) == f"not-clean: {program} failed (1): {program}: cannot"


def test_the_unit_of_a_machine_does_not_start_when_its_host_gets_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[object] = []
    monkeypatch.setattr(System, "has_systemd", lambda _: True)
    monkeypatch.setattr(System, "must", lambda _, reason, argv: commands.append((reason, argv)))
    cleaning.leave(System())
    assert commands == [("not-clean", ["systemctl", "disable", "gpu-agent.service"])]


def test_the_search_is_in_writable_file_systems_on_disks_and_in_memory(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "proc /proc proc rw,nosuid 0 0\n/dev/vda1 / ext4 rw,relatime 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"
        "/dev/loop1 /snap/core squashfs ro 0 0\n/dev/vdb /mnt/a\\040b xfs rw 0 0\nmqueue /dev/mqueue mqueue rw 0 0\n"
    )
    assert cleaning.filesystems(mounts) == ["/", "/dev/shm", "/mnt/a b", "/dev/mqueue"]  # noqa: S108
