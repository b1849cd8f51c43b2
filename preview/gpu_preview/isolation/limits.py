"""Runs an untrusted command with limits on time, memory and processes, and ends all its processes with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import psutil
from gpu_common import linux

from . import files

_POLL_SEC = 0.2
_GRACE_SEC = 3.0
_TAIL_BYTES = 65_536
# The limit of a file that is copied from the command.
_MAX_COPIED_MIB = 512
_CHUNK_BYTES = 1024**2


@dataclass(frozen=True)
class Limits:
    """The limits of one command with all its processes."""

    timeout_sec: float = 300.0
    memory_gib: float = 6.0
    """The limit of the resident memory of all its processes together. The same limit applies to the growth of files in
    memory (tmpfs, memfd), and twice the limit to the decrease of the machine's available memory."""
    disk_gib: float = 10.0
    """The maximum decrease of free disk space while the command runs."""
    processes: int = 200
    output_mib: float = 512.0
    """The limit of standard output and of standard error, each."""


@dataclass(frozen=True)
class Finished:
    """The result of the command."""

    code: int
    stdout: Path
    stderr: Path
    seconds: float
    exceeded_limit: str = ""
    """A sentence about the limit that the command exceeded, or an empty text."""


class _FreeSpace(NamedTuple):
    """The free memory and disk space of the machine at one time."""

    disk_bytes: int
    memory_bytes: int
    shared_bytes: int
    """The memory of all files in memory (proc(5), Shmem); 0 if the system does not report it."""

    @classmethod
    def now(cls, folder: Path) -> _FreeSpace:
        memory = psutil.virtual_memory()
        return cls(psutil.disk_usage(str(folder)).free, memory.available, int(getattr(memory, "shared", 0)))


def tail(path: Path, limit: int = _TAIL_BYTES) -> str:
    """Return the end of a file as text."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - limit))
        return file.read().decode(errors="replace")


def run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    scratch: Path,
    name: str,
    limits: Limits,
    writes_to: Path | None = None,
    trusted: bool = False,
) -> Finished:
    """Run a command until it ends or exceeds a limit, then kill all processes that it started.

    Args:
        command: The command with its arguments.
        folder: The working directory.
        environment: All environment variables of the command.
        scratch: A folder for the files NAME.stdout and NAME.stderr with the command's output.
        name: The name of these files.
        limits: The limits of the command.
        writes_to: A folder on the disk whose free space is checked; `scratch` if None.
        trusted: True if the command keeps the caller's keyring, limit of open files and OOM score (the order in which
            the system kills processes without memory).
    """
    linux.adopt_orphans()
    disk = writes_to or scratch
    space_before = _FreeSpace.now(disk)
    children_before = children()
    stdout, stderr = scratch / f"{name}.stdout", scratch / f"{name}.stderr"
    started, exceeded_limit = time.monotonic(), ""
    with stdout.open("wb") as out, stderr.open("wb") as err:
        process = subprocess.Popen(
            list(command),
            cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True, preexec_fn=None if trusted else _limit_child,
        )  # fmt: skip
    try:
        while process.poll() is None:
            seconds = time.monotonic() - started
            exceeded_limit = _exceeded_limit(children_before, limits, seconds, (stdout, stderr))
            exceeded_limit = exceeded_limit or _exceeded_space(space_before, _FreeSpace.now(disk), limits)
            if exceeded_limit:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_SEC)
    finally:
        _end(children_before, process)
        code = process.wait()
    return Finished(code, stdout, stderr, time.monotonic() - started, exceeded_limit)


def copied(finished: Finished, source: Path, target: Path, max_mib: float = _MAX_COPIED_MIB) -> tuple[Finished, Path]:
    """Copy a file that untrusted code wrote, and return the command's result and the copy.

    The copy is empty if the source is no regular file, such as a link, or if it is larger than `max_mib`. A file that
    is too large also counts as an exceeded limit of the command. (It can be sparse, so the disk limit may not apply.)
    """
    remaining_bytes = int(max_mib * 1024**2)
    with target.open("wb") as copy, contextlib.suppress(OSError), files.open_regular(source) as file:
        if os.fstat(file.fileno()).st_size > remaining_bytes:
            message = f"the program left a file of more than {max_mib:g} MiB: {source.name}"
            return replace(finished, exceeded_limit=finished.exceeded_limit or message), target
        # The file can grow while it is read, if a process of the command has outlived the command.
        while remaining_bytes > 0 and (chunk := file.read(min(remaining_bytes, _CHUNK_BYTES))):
            remaining_bytes -= copy.write(chunk)
    return finished, target


def _exceeded_limit(children_before: set[int], limits: Limits, seconds: float, streams: Sequence[Path]) -> str:
    """Return a sentence about a limit that the command's processes exceed, or ""."""
    if seconds > limits.timeout_sec:
        return f"the program took longer than {limits.timeout_sec:g} s (--timeout-sec)"
    running = descendants(children_before)
    if len(running) > limits.processes:
        return f"the program had more than {limits.processes} processes"
    if sum(each.resident_bytes for each in running) > limits.memory_gib * 1024**3:
        return f"the program took more than {limits.memory_gib:g} GiB of memory (--memory-gib)"
    if any(path.stat().st_size > limits.output_mib * 1024**2 for path in streams):
        return f"the program printed more than {limits.output_mib:g} MiB"
    return ""


def _exceeded_space(before: _FreeSpace, now: _FreeSpace, limits: Limits) -> str:
    """Return a sentence about disk space or memory of the whole machine that the command has used up, or "".

    The whole machine is measured, because a program can hide what it uses. Files without a name use disk space. The
    buffers of sockets use memory, which is not the resident memory of a process.
    """
    most = limits.memory_gib * 1024**3
    if before.disk_bytes - now.disk_bytes > limits.disk_gib * 1024**3:
        return f"the disk lost more than {limits.disk_gib:g} GiB of free space while the program ran (--disk-gib)"
    if now.shared_bytes - before.shared_bytes > most:
        return f"files in memory grew by more than {limits.memory_gib:g} GiB while the program ran (--memory-gib)"
    if before.memory_bytes - now.memory_bytes > 2 * most:
        return (
            f"the machine lost more than {2 * limits.memory_gib:g} GiB of memory while the program ran "
            "(twice --memory-gib)"
        )
    return ""


def _end(children_before: set[int], process: subprocess.Popen[bytes]) -> None:
    """Terminate the command, so that the engine writes its state and ends its plugins, then kill all that is left."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SEC)
    kill_descendants(children_before, process.pid)


def environment(scratch: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables of a revision's processes, with only the listed ones of this process."""
    source = os.environ if variables is None else variables
    kept = {name: source[name] for name in _VARIABLES if name in source}
    home, temporary = scratch / "home", scratch / "tmp"
    for folder in (home, temporary):
        folder.mkdir(parents=True, exist_ok=True)
    return {**kept, "HOME": str(home), "TMPDIR": str(temporary), "NO_COLOR": "1", "CI": "true"}


_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH")


# If memory runs out, the system kills processes with a high score first (proc(5), oom_score_adj). A program that runs
# as a user other than root can undo this.
_OOM_SCORE = b"800"
# Each open socket can use some 200 KiB of the system's memory.
_OPEN_FILES = 4096
# The limit counts all processes and threads of this user. It does not apply to root (getrlimit(2), RLIMIT_NPROC).
_TASKS = 8192
# The numbers of the system call keyctl(2) in the kernel's tables, because the C library has no function for it.
_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(platform.machine())
_JOIN_SESSION_KEYRING = 1
_LIBRARY = ctypes.CDLL(None)


def _limit_child() -> None:
    """Raise the process's OOM score, limit its open files and processes, and drop the caller's kernel keys.

    A limit that the system refuses is left out.
    """
    with contextlib.suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, _OOM_SCORE)
        os.close(score)
    for kind, limit in ((resource.RLIMIT_NOFILE, _OPEN_FILES), (resource.RLIMIT_NPROC, _TASKS)):
        with contextlib.suppress(OSError, ValueError):
            soft, hard = resource.getrlimit(kind)
            resource.setrlimit(kind, (_lower(soft, limit), _lower(hard, limit)))
    if _KEYCTL is not None:
        _LIBRARY.syscall(_KEYCTL, _JOIN_SESSION_KEYRING, None)


def _lower(current: int, limit: int) -> int:
    return limit if current == resource.RLIM_INFINITY else min(current, limit)


_NEXT_PASS_SEC = 0.01
_KILL_SEC = 10.0


class Process(NamedTuple):
    """One process."""

    pid: int
    parent: int
    resident_bytes: int


def children() -> set[int]:
    """Return the PIDs of the children of this process."""
    return {each.pid for each in _all() if each.parent == os.getpid()}


def descendants(children_before: set[int]) -> list[Process]:
    """Return all descendants of this process, except these children and their descendants."""
    by_parent: dict[int, list[Process]] = {}
    for each in _all():
        by_parent.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    parents = [os.getpid()]
    while parents:
        listed = [each for each in by_parent.pop(parents.pop(), ()) if each.pid not in children_before]
        found += listed
        parents += [each.pid for each in listed]
    return found


def kill_descendants(children_before: set[int], command_pid: int) -> None:
    """Kill all descendants, except these children, until none is left or 10 s have passed.

    The kill is repeated, because a process can start others in the meantime. Orphans are reaped. The process of the
    command is not reaped, so that its caller can read its exit code.
    """
    deadline = time.monotonic() + _KILL_SEC
    while time.monotonic() < deadline:
        running = [
            each for each in descendants(children_before) if each.pid != command_pid or not _has_ended(command_pid)
        ]
        if not running:
            return
        for each in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
        for each in running:
            if each.parent == os.getpid() and each.pid != command_pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(each.pid, os.WNOHANG)
        time.sleep(_NEXT_PASS_SEC)


def _has_ended(pid: int) -> bool:
    """Return True if a child has ended, also if its exit code has not been read yet (a zombie)."""
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return True


def _all() -> Iterator[Process]:
    """Yield every process of this machine."""
    if not sys.platform.startswith("linux"):
        for each in psutil.process_iter(["ppid", "memory_info"]):
            memory = each.info["memory_info"]
            yield Process(each.pid, each.info["ppid"], memory.rss if memory else 0)
        return
    page = os.sysconf("SC_PAGE_SIZE")
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # proc(5): the name in parentheses can have any characters. The fields after it begin with the state
                # and the parent, and the 22nd is the number of resident pages.
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                yield Process(int(folder.name), int(fields[1]), int(fields[21]) * page)
