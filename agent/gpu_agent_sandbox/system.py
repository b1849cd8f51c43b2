# ruff: noqa: ARG002 -- the base class defines the arguments
"""Emulation of root's tasks, for a runner on the sandbox user's own computer. It does not change the computer.

The agent loads this file on a sandbox's machine (gpu_agent/__main__.py). It creates no user, mount, unit or
packet filter rule, and runs no program as root. The runner and its job are processes of the sandbox's user, with that
user's access (docs/guides/sandbox-serve.md lists it).
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen
from typing import Any, NamedTuple

from gpu_agent.clock import Clock
from gpu_agent.google.compute_engine import Metadata
from gpu_agent.machine.processes import kill
from gpu_agent.machine.system import ENVIRONMENT, MISSING, RUNNER_USER, Output, System, User
from gpu_agent.mailbox.document import document
from gpu_agent.runner.archive import _ARCHITECTURES, MARKER

LISTENER = Path(__file__).with_name("runner_listener.py")
PROGRAMS = ("choom", "nft", "nvidia-smi", "prlimit", "setpriv")
"""The programs of the emulated image."""
OWNER = "GPU_AGENT_SANDBOX_MACHINE"
"""The environment variable in every process of the runner's user; its value names the machine."""
KERNEL_LOG = "kernel.log"
"""The file in the machine's root that emulates the kernel's log, so that a job can break its GPU."""
# The limit of a socket's path: sockaddr_un.sun_path has 108 bytes (unix(7)). The agent's socket is 13 longer than its
# folder.
LONGEST_FOLDER = 90
REJECT = re.compile(r"^\s*ip6? daddr (\S+) meta l4proto tcp reject", re.MULTILINE)
# Inserted before a program of the agent that opens sockets. The machine's network has only the metadata server, at the
# addresses of a real one, and no container engine.
NETWORK = """
import errno, os, socket
def connect(self, to, real=socket.socket.connect):
    open_at, server = {open_at!r}, {server!r}
    host, port = (str(to), 0) if isinstance(to, str) else to[:2]
    if port == 80 and host in open_at and self.family == socket.AF_INET:
        return real(self, server)
    number = errno.ENOENT if isinstance(to, str) else errno.ECONNREFUSED
    raise OSError(number, os.strerror(number))
socket.socket.connect = connect
"""
METADATA_ADDRESS = "169.254.169.254"
# The program ends with the process that starts it, and gains no permissions (prctl(2)).
LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if sys.argv[1] == "limited":
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
os.execvp(sys.argv[2], sys.argv[2:])
"""
GPU = "GPU-5a4db0c0-0000-4000-8000-{:012d}"
USE = "41, 9120, 61.50"
"""The use of each GPU while a job runs: percent, MiB and watts."""
# The agent ignores the first state. The second one follows at once, so that short jobs have one too.
NVIDIA_SMI = """
import sys, time
sys.stdout.write(sys.argv[1])
while True:
    sys.stdout.write(sys.argv[1])
    sys.stdout.flush()
    time.sleep(float(sys.argv[2]) / 1000)
"""


class Image(NamedTuple):
    """The image and hardware in the machine's configuration."""

    gpus: int
    version: str = ""
    """The version of the runner."""
    sha256: str = ""


class EmulatedSystem(System):
    """The emulated system of one machine."""

    def __init__(self, root: Path, image: Image, server: tuple[str, int], run: Path | None = None) -> None:
        """Create the system. `root` is the machine's disk, and `run` a folder that is new at each boot."""
        run = run or root / "run"
        if len(str(run)) > LONGEST_FOLDER:
            raise OSError(f"{run}: the path is too long for a socket; set TMPDIR to a shorter folder")
        super().__init__(run, root / "var", root / "opt" / "actions-runner")
        self.root, self.image, self.server = root, image, server
        self._on_at = time.monotonic()
        self.rules = ""
        """The rules of the packet filter."""
        if image.version:
            self._install_runner()

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> EmulatedSystem:
        """Return the system of the machine. Its home is on its disk, and its temporary files are removed at
        power-off.
        """
        text: str | None
        if boot := document(environ):
            server, text = environ["GPU_AGENT_IMDS"].removeprefix("http://"), json.dumps(boot.config)
        else:
            server = environ["GCE_METADATA_HOST"]
            text = Metadata(server, Clock()).read("instance/attributes/gpu-agent-config")
        host, _, port = server.partition(":")
        disk, run = Path(environ["HOME"]).parent, Path(environ["TMPDIR"]) / "run"
        return cls(disk / "m", image_of(text), (host, int(port)), run)

    def _install_runner(self) -> None:
        """Put a fake runner into the image: unpacked, with the pinned checksum of the real runner."""
        folder = self.baked_folder / self.image.version
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "externals").mkdir(exist_ok=True)
        program = folder / "bin" / "Runner.Listener"
        shutil.copyfile(LISTENER, folder / "bin" / LISTENER.name)
        command = shlex.join([self.python, "-I", str(LISTENER.name)])
        program.write_text(f'#!/bin/sh\ncd "${{0%/*}}" && exec {command} {self.image.version} "$@"\n')
        (folder / MARKER).write_text(f"{self.image.sha256}\n")
        for path in (folder, folder / "bin", program):
            path.chmod(0o755)
        (folder / MARKER).chmod(0o644)

    def has_systemd(self) -> bool:
        """Return False, so that no systemd unit of the computer is changed."""
        return False

    def have(self, program: str) -> bool:
        """Return True if the emulated image has the program."""
        return program in PROGRAMS

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
        """Run a program of the emulated image. Every other program is missing there, even if the computer has it."""
        match list(argv):
            case ["nft", "-f", "-"]:
                self.rules = text
                return Output(0, "")
            case ["nvidia-smi", *words]:
                return Output(0, self._nvidia_smi(words))
            case [self.python, "-I", "-S", "-c", program, *words]:
                closed = set(REJECT.findall(self.rules)) if user else set()
                network = NETWORK.format(open_at={METADATA_ADDRESS} - closed, server=self.server)
                command = [self.python, "-I", "-S", "-c", network + program, *words]
                return super().run(command, timeout_sec=timeout_sec, text=text, environment=environment)
        return Output(MISSING, f"{argv[0]}: No such file or directory")

    def _nvidia_smi(self, words: list[str]) -> str:
        """Return as many idle GPUs as the check expects."""
        if not any(word.startswith("--query-gpu") for word in words):
            return ""
        return "".join(f"{GPU.format(number)}, 0, [N/A]\n" for number in range(self.image.gpus))

    def start(
        self, argv: Sequence[str], user: User, *, environment: Mapping[str, str], folder: Path, may_gain: bool = False
    ) -> Popen[str]:
        """Start a process of the sandbox's user, marked as a process of this machine's runner."""
        # Programs of the image, such as torch, and the emulated GPU are used instead of those of the computer.
        image = {name: os.environ[name] for name in ("PATH", "GPU_SMOKE_DEVICE") if name in os.environ}
        return Popen(
            [self.python, "-I", "-S", "-c", LAUNCH, "free" if may_gain else "limited", *argv],
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            env={**environment, **image, OWNER: str(self.root)},
            cwd=folder,
            start_new_session=True,
            text=True,
            errors="replace",
        )

    def stream(self, argv: Sequence[str]) -> Popen[bytes]:
        """Start an nvidia-smi that prints the same use of each emulated GPU again and again."""
        lines = "".join(f"{GPU.format(number)}, {USE}\n" for number in range(self.image.gpus))
        return super().stream([self.python, "-I", "-S", "-c", NVIDIA_SMI, lines, argv[-1].partition("=")[2]])

    def up_sec(self) -> float:
        """Return the seconds since the agent of this machine started."""
        return time.monotonic() - self._on_at

    def runner_user(self) -> User:
        """Return the sandbox's user under the runner's name, with a home in the machine's folder."""
        home = self.root / "home" / RUNNER_USER
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        return User(RUNNER_USER, os.getuid(), os.getgid(), home)

    def groups_of(self, user: User) -> set[int]:
        """Return an empty set, because the groups of the sandbox's user are not those of the machine."""
        return set()

    def tmpfs(self, path: Path, user: User, size_mib: int) -> None:
        """Create a folder on the disk that only the user can enter."""
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def bind(self, source: Path, target: Path, *, read_only: bool = False) -> None:
        """Copy a read-only folder, or create a link to any other."""
        if read_only:
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            target.symlink_to(source, target_is_directory=True)

    def commands_of(self, user: User) -> list[list[str]]:
        """Return the command line of each process of the runner's user."""
        found = []
        for pid in self._processes():
            try:
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1])
            except OSError:
                continue
        return [command for command in found if command]

    def kill_all_of(self, user: User, clock: Clock, deadline: float) -> bool:
        """End every process that is marked as one of this machine's runner, with its children."""
        while left := self._processes():
            for pid in left:
                kill(pid)
            if clock.now() >= deadline:
                return False
            clock.sleep(0.05)
        return True

    def _processes(self) -> list[int]:
        """Return the processes with the mark in their initial environment, and all their descendants."""
        mark = f"{OWNER}={self.root}".encode()
        parents: dict[int, int] = {}
        found: set[int] = set()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
                environment = (process / "environ").read_bytes()
            except (OSError, ValueError):
                continue
            if state in "ZX":
                continue
            pid = int(process.name)
            parents[pid] = int(parent)
            if mark in environment.split(b"\0"):
                found.add(pid)
        while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
            found |= more
        return sorted(found)

    def kernel_log(self) -> list[str]:
        """Return the lines that the job has written to this file, because the computer's GPU is not the machine's."""
        file = self.root / KERNEL_LOG
        return file.read_text(errors="replace").splitlines() if file.exists() else []


def image_of(config: str | None) -> Image:
    """Return the image in the machine's metadata. The agent itself reports mistakes there."""
    try:
        given: dict[str, Any] = json.loads(config or "{}")
        arguments = given.get("check_args") or []
        gpus = int(arguments[arguments.index("--expect-gpus") + 1])
        runner = given.get("runner") or {}
        machine = platform.machine()
        return Image(
            gpus, runner.get("version", ""), runner.get("sha256", {}).get(_ARCHITECTURES.get(machine, machine), "")
        )
    except (ValueError, AttributeError, IndexError, TypeError):
        return Image(0)
