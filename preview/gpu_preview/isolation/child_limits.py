"""Limits a process between fork and exec, before it runs an untrusted program."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource

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


def apply() -> None:
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
