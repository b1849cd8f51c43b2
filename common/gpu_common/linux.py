"""Calls of prctl(2), which Python does not have. On other systems than Linux, they do nothing.

    python -I -S linux.py NUMBER COMMAND [ARGUMENT...]

runs a command that gets the signal of this number when its parent ends. A process with threads of gRPC starts commands
in this way: `preexec_fn` would fork it, and the fork can crash.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36


def signal_when_parent_ends(number: int) -> None:
    """Request a signal from the kernel for the end of the thread that started this process.

    The function can be a `preexec_fn`: between fork and exec, it allocates only the memory of the call itself.
    """
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the new parent of descendants whose own parent has ended, so that this process can end all of them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        _LIBC.prctl(option, value, 0, 0, 0)


# Loaded here, because a process should load nothing between fork and exec.
_LIBC: Any = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


if __name__ == "__main__":
    signal_when_parent_ends(int(sys.argv[1]))
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - the command comes as a list, no shell is wanted
    except OSError as error:
        os.write(2, f"{sys.argv[2]}: {error.strerror}\n".encode())
        os._exit(127)
