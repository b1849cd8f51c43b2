"""Limits a process between fork and exec, before it runs an untrusted program."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource

# proc(5): where memory runs out, the system ends these first. A program that runs as another user than root may take
# it back.
_OOM_SCORE = b"800"
# Each open socket may hold some 200 KiB of the system's memory.
_OPEN_FILES = 4096
# Of all that this user runs, threads too; root has no such limit (getrlimit(2), RLIMIT_NPROC).
_TASKS = 8192
# keyctl(2); the numbers of the system call, which the C library has no name for, are those of the kernel's tables.
_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(platform.machine())
_JOIN_SESSION_KEYRING = 1
_LIBRARY = ctypes.CDLL(None)


def apply() -> None:
    """Mark the process as the first to end without memory, limit its files, and drop the caller's keys.

    Limits that the system refuses are left out.
    """
    with contextlib.suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, _OOM_SCORE)
        os.close(score)
    for kind, most in ((resource.RLIMIT_NOFILE, _OPEN_FILES), (resource.RLIMIT_NPROC, _TASKS)):
        with contextlib.suppress(OSError, ValueError):
            soft, hard = resource.getrlimit(kind)
            resource.setrlimit(kind, (_lower(soft, most), _lower(hard, most)))
    if _KEYCTL is not None:
        _LIBRARY.syscall(_KEYCTL, _JOIN_SESSION_KEYRING, None)


def _lower(given: int, most: int) -> int:
    return most if given == resource.RLIM_INFINITY else min(given, most)
