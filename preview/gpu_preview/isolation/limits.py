"""Runs an untrusted command with limits on time, memory and processes, and ends all its processes with it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from gpu_common import linux

from . import child_limits, processes, safe_open

_LOOK_EVERY_SEC = 0.2
_GRACE_SEC = 3.0
_TAIL_BYTES = 65_536
# The limit of each stream.
_MOST_TAKEN_MIB = 512
_CHUNK_BYTES = 1024**2


@dataclass(frozen=True)
class Limits:
    """The limits of one command with all its processes."""

    timeout_sec: float = 300.0
    memory_gib: float = 6.0
    """Resident memory of all its processes together; and as much again in files that lie in memory (tmpfs, memfd). Of
    the whole machine's memory twice as much may be gone meanwhile."""
    disk_gib: float = 10.0
    """The maximum decrease of free disk space while the command runs."""
    processes: int = 200
    output_mib: float = 512.0
    """The limit of each of its two streams."""


@dataclass(frozen=True)
class Finished:
    """The result of the command."""

    code: int
    stdout: Path
    stderr: Path
    seconds: float
    broke: str = ""
    """The limit that it exceeded, as text; empty for none."""

    def error_tail(self) -> str:
        """The end of its error stream."""
        return tail(self.stderr)


@dataclass(frozen=True)
class _Memory:
    """Return the current memory of the machine."""

    available_bytes: int
    shared_bytes: int
    """What all files that lie in memory take of it (proc(5), Shmem); 0 where the system does not tell."""


@dataclass(frozen=True)
class _Room:
    """The free memory and disk space before a command."""

    free_bytes: int
    memory: _Memory


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
    """Run it to its end, or to a limit; its streams go to files in `scratch`. Nothing that it started is left.

    `writes_to` is a folder on the disk whose free room is looked at; none for `scratch`. A `trusted` command keeps the
    caller's keyring, open files and place among those that the system ends where memory runs out.
    """
    linux.adopt_orphans()
    disk = writes_to or scratch
    room = _Room(_free_bytes(disk), _memory())
    before = processes.children()
    stdout, stderr = scratch / f"{name}.stdout", scratch / f"{name}.stderr"
    started, broke = time.monotonic(), ""
    with stdout.open("wb") as out, stderr.open("wb") as err:
        process = subprocess.Popen(
            list(command),
            cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True, preexec_fn=None if trusted else child_limits.apply,
        )  # fmt: skip
    try:
        while process.poll() is None:
            broke = _over(before, limits, time.monotonic() - started, (stdout, stderr)) or _too_full(disk, room, limits)
            if broke:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY_SEC)
    finally:
        _end(before, process)
        code = process.wait()
    return Finished(code, stdout, stderr, time.monotonic() - started, broke)


def copied(finished: Finished, source: Path, target: Path, most_mib: float = _MOST_TAKEN_MIB) -> tuple[Finished, Path]:
    """A copy of a file that untrusted code wrote; empty where it is no plain file, such as a link to another's.

    One that is larger than anybody's is empty too, and a limit that the command broke: its size may be a hole's.
    """
    left = int(most_mib * 1024**2)
    with target.open("wb") as copy, contextlib.suppress(OSError), safe_open.open_regular(source) as file:
        if os.fstat(file.fileno()).st_size > left:
            message = f"the program left a file of more than {most_mib:g} MiB: {source.name}"
            return replace(finished, broke=finished.broke or message), target
        # It may grow while it is read, where a process of the command's has outlived it.
        while left > 0 and (chunk := file.read(min(left, _CHUNK_BYTES))):
            left -= copy.write(chunk)
    return finished, target


def _over(before: set[int], limits: Limits, seconds: float, streams: Sequence[Path]) -> str:
    """Return the exceeded limit."""
    if seconds > limits.timeout_sec:
        return f"the program took longer than {limits.timeout_sec:g} s (--timeout-sec)"
    ours = processes.below(before)
    if len(ours) > limits.processes:
        return f"the program had more than {limits.processes} processes"
    if sum(each.resident_bytes for each in ours) > limits.memory_gib * 1024**3:
        return f"the program took more than {limits.memory_gib:g} GiB of memory (--memory-gib)"
    if any(path.stat().st_size > limits.output_mib * 1024**2 for path in streams):
        return f"the program printed more than {limits.output_mib:g} MiB"
    return ""


def _too_full(disk: Path, before: _Room, limits: Limits) -> str:
    """The room that is used up. Only the whole machine's is known for certain: a program can hide what it wrote in
    files without a name, and in memory that is nobody's resident memory, such as that of sockets."""
    if before.free_bytes - _free_bytes(disk) > limits.disk_gib * 1024**3:
        return f"the disk lost more than {limits.disk_gib:g} GiB of room while the program ran (--disk-gib)"
    now, most = _memory(), limits.memory_gib * 1024**3
    if now.shared_bytes - before.memory.shared_bytes > most:
        return f"files in memory grew by more than {limits.memory_gib:g} GiB while the program ran (--memory-gib)"
    if before.memory.available_bytes - now.available_bytes > 2 * most:
        return (
            f"the machine lost more than {2 * limits.memory_gib:g} GiB of memory while the program ran "
            "(twice --memory-gib)"
        )
    return ""


def _free_bytes(folder: Path) -> int:
    return psutil.disk_usage(str(folder)).free


def _memory() -> _Memory:
    found = psutil.virtual_memory()
    return _Memory(found.available, int(getattr(found, "shared", 0)))


def _end(before: set[int], process: subprocess.Popen[bytes]) -> None:
    """In good order first, as the engine then writes its state and ends its plugins; then whatever is left."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SEC)
    processes.end(before, process.pid)


def environment(scratch: Path, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables of a revision's processes. They are listed by name, so that no others leak."""
    source = os.environ if given is None else given
    kept = {name: source[name] for name in _KEPT if name in source}
    home, temporary = scratch / "home", scratch / "tmp"
    for folder in (home, temporary):
        folder.mkdir(parents=True, exist_ok=True)
    return {**kept, "HOME": str(home), "TMPDIR": str(temporary), "NO_COLOR": "1", "CI": "true"}


_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH")
