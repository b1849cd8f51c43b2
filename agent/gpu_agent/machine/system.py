"""The tasks that need root: users, processes, mounts, the kernel log. Tests replace the class System."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..clock import Clock
from ..outcomes import AgentExit
from . import processes

RUNNER_USER = "gpu-runner"
# A user with one of these shells cannot log in, even with a key in its home. The limits of a job (processes.py) do not
# apply to a login.
_NO_LOGIN = ("/usr/sbin/nologin", "/bin/false")
# Programs that could start a command of a job later, without its limits. Each has a file of denied users. A file .allow
# next to it takes precedence (crontab(1), at(1)).
_DENY_FILES = {"crontab": Path("/etc/cron.deny"), "at": Path("/etc/at.deny")}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The whole environment of every child process. A job must not see the agent's own environment.
ENVIRONMENT = {"PATH": PATH, "LANG": "C.UTF-8"}
BOOTED = Path("/run/systemd/system")
"""Exists if systemd boots the machine (sd_booted(3))."""
TIMED_OUT, MISSING = 124, 127
"""Exit codes of `timeout` and the shell: the command did not end in time, or the program does not exist."""


class User(NamedTuple):
    """The user of a process."""

    name: str
    uid: int
    gid: int
    home: Path
    groups: tuple[int, ...] = ()
    """Its supplementary groups. A process gets exactly these, not those in /etc/group."""


class Output(NamedTuple):
    """The result of a command, with the text of both streams."""

    code: int
    text: str

    @property
    def line(self) -> str:
        """The first line that is not blank, for a message."""
        return next((line.strip()[:200] for line in self.text.splitlines() if line.strip()), f"exit code {self.code}")


class System:
    """This machine with root's permissions."""

    def __init__(
        self,
        run_folder: Path = Path("/run/gpu-agent"),
        state_folder: Path = Path("/var/lib/gpu-agent"),
        baked_folder: Path = Path("/opt/actions-runner"),
        python: str = sys.executable,
    ) -> None:
        self.run_folder, self.state_folder, self.baked_folder = run_folder, state_folder, baked_folder
        self.python = python
        """A Python that the runner's user can start too."""
        # github.com/cncf-tags/container-device-interface, "How to configure CDI".
        self.cdi_folders = (Path("/etc/cdi"), Path("/var/run/cdi"))
        """The folders with descriptions of the GPUs for container engines. The first one is for written ones."""

    def has_systemd(self) -> bool:
        """Return True if systemd units can be created and changed."""
        return BOOTED.is_dir()

    def have(self, program: str) -> bool:
        """Return True if the program is installed."""
        return shutil.which(program, path=PATH) is not None

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_sec: float,
        text: str = "",
        user: User | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
        may_gain: bool = False,
    ) -> Output:
        """Run a short command. A missing program and a time-out are exit codes here, not exceptions.

        A user's command gains no permissions without `may_gain`: a process of a job with the same user may trace it.
        """
        try:
            process = subprocess.Popen(
                argv if user is None else [*_setpriv(user, may_gain=may_gain), *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd="/",
                start_new_session=True,
                text=True,
                errors="replace",
            )
        except OSError as error:
            return Output(MISSING, f"{argv[0]}: {error.strerror}")
        try:
            printed, _ = process.communicate(text, timeout_sec)
        except subprocess.TimeoutExpired:
            processes.kill(-process.pid)
            # The wait is short. A process that hangs inside the GPU's driver does not end, and a child in another
            # session may keep the pipe open.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            return Output(TIMED_OUT, f"{argv[0]} did not end within {timeout_sec:g} s")
        return Output(process.returncode, printed)

    def start(
        self, argv: Sequence[str], user: User, *, environment: Mapping[str, str], folder: Path, may_gain: bool = False
    ) -> subprocess.Popen[str]:
        """Start a long-lived process of the user in its own session, with both streams combined.

        The process ends with the thread that calls this function (prctl(2), PR_SET_PDEATHSIG), so call it from the main
        thread. Without `may_gain` no program gains permissions: sudo, newgrp and every other set-user-ID program has no
        effect. processes.py limits the process.
        """
        return subprocess.Popen(
            processes.with_limits([*_setpriv(user, "--pdeathsig=KILL", may_gain=may_gain), *argv]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            text=True,
            errors="replace",
        )

    def stream(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a long-lived program as root, whose standard output the caller reads. Raises OSError if it is missing.

        It stays in the agent's process group, which the supervisor ends after the agent.
        """
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(ENVIRONMENT),
            cwd="/",
        )

    def up_sec(self) -> float:
        """Return the seconds since the machine was switched on, without the time of its firmware."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def runner_user(self) -> User:
        """Return the runner's user, created if it is missing: without a password or login, with a home on the disk.

        Its only supplementary groups are those of the GPU's device files, if these are not open to everyone.
        """
        try:
            entry = pwd.getpwnam(RUNNER_USER)
        except KeyError:
            where = ["--create-home", "--home-dir", f"/home/{RUNNER_USER}"]
            self.must("no-tool", ["useradd", "--system", "--user-group", *where, RUNNER_USER])
            entry = pwd.getpwnam(RUNNER_USER)
        if entry.pw_uid == 0:
            raise AgentExit("not-isolated", f"{RUNNER_USER} is root on this image")
        shell = next((path for path in _NO_LOGIN if Path(path).exists()), _NO_LOGIN[-1])
        if entry.pw_shell != shell:
            self.must("no-tool", ["usermod", "--shell", shell, RUNNER_USER])
        for deny_file in (path for program, path in _DENY_FILES.items() if self.have(program)):
            if RUNNER_USER in _names(deny_file.with_suffix(".allow")):
                raise AgentExit(
                    "not-isolated",
                    f"{deny_file.with_suffix('.allow')} of the image lets {RUNNER_USER} start programs later",
                )
            names = _names(deny_file)
            if RUNNER_USER not in names:
                deny_file.write_text("".join(f"{name}\n" for name in (*names, RUNNER_USER)))
        home = Path(entry.pw_dir)
        if not home.exists():
            home.mkdir(parents=True, mode=0o700)
            os.chown(home, entry.pw_uid, entry.pw_gid)
        groups = tuple(sorted({gid for gid in _device_groups() if gid != entry.pw_gid}))
        return User(entry.pw_name, entry.pw_uid, entry.pw_gid, home, groups)

    def groups_of(self, user: User) -> set[int]:
        """Return the groups of the user in /etc/group, even if no process of the user has them."""
        return set(os.getgrouplist(user.name, user.gid))

    def must(self, reason: str, argv: Sequence[str], *, text: str = "", timeout_sec: float = 30) -> str:
        """Return the output of a command. If it fails, the machine ends with this reason."""
        output = self.run(argv, text=text, timeout_sec=timeout_sec)
        if output.code:
            raise AgentExit(reason, f"{argv[0]} failed ({output.code}): {output.line}")
        return output.text

    def tmpfs(self, path: Path, user: User, size_mib: int) -> None:
        """Mount a folder in memory that only the user can enter."""
        path.mkdir(parents=True, exist_ok=True)
        options = f"size={size_mib}m,mode=0700,uid={user.uid},gid={user.gid},nosuid,nodev,noexec"
        self.must("no-runner", ["mount", "-t", "tmpfs", "-o", options, "gpu-agent", str(path)])

    def bind(self, source: Path, target: Path, *, read_only: bool = False) -> None:
        """Mount a folder at a second place."""
        target.mkdir(parents=True, exist_ok=True)
        self.must("no-runner", ["mount", "--bind", str(source), str(target)])
        if read_only:
            self.must("no-runner", ["mount", "-o", "remount,bind,ro", str(target)])

    def commands_of(self, user: User) -> list[list[str]]:
        """Return the command line of each running process of the user."""
        found = []
        for process in processes.of(user.name, user.uid):
            try:
                command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            except OSError:
                continue
            found += [command] if command else []
        return found

    def kill_all_of(self, user: User, clock: Clock, deadline: float) -> bool:
        """End every process of the user and of its containers' users. Return True if none is left at the deadline."""
        while True:
            # kill(2) of -1 as the user ends all of its processes at once, because the kernel locks the list of tasks
            # (kernel/signal.c). A process that forks and exits all the time would escape a scan of /proc.
            all_signalled = self.run(["sh", "-c", "kill -KILL -1"], user=user, timeout_sec=5).code in (0, 1)
            left = [int(process.name) for process in processes.of(user.name, user.uid)]
            for pid in left:
                processes.kill(pid)
            if all_signalled and not left:
                return True
            if clock.now() >= deadline:
                return False
            clock.sleep(0.05)

    def kernel_log(self) -> list[str]:
        """Return the kernel's messages since the boot that it still has, or an empty list if they cannot be read."""
        lines: list[str] = []
        try:
            log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return lines
        try:
            while True:
                try:
                    record = os.read(log, 8192)  # one whole record a read (Documentation/ABI/testing/dev-kmsg)
                except BrokenPipeError:
                    continue  # the kernel has overwritten the next record
                except OSError:
                    return lines
                lines.append(record.decode(errors="replace").partition(";")[2].partition("\n")[0])
        finally:
            os.close(log)


def _setpriv(user: User, *options: str, may_gain: bool) -> list[str]:
    """Return the start of a command line that runs a program as the user."""
    groups = f"--groups={','.join(str(gid) for gid in user.groups)}" if user.groups else "--clear-groups"
    rights = [] if may_gain else ["--no-new-privs"]
    identity = [f"--reuid={user.uid}", f"--regid={user.gid}", groups, "--inh-caps=-all"]
    return ["setpriv", *identity, *options, *rights, "--"]


def _names(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _device_groups() -> Iterator[int]:
    for device in Path("/dev").glob("nvidia*"):
        status = device.stat()
        if stat.S_ISCHR(status.st_mode) and status.st_mode & 0o006 != 0o006 and status.st_mode & 0o060 == 0o060:
            yield status.st_gid
