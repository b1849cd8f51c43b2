"""prctl(2), which Python has no call for. All of it does nothing where the system is not Linux."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36


def signal_when_parent_ends(number: int) -> None:
    """Have the kernel send this process a signal when the thread that started it ends.

    Between fork and exec it allocates nothing but the call's own, so it may be a `preexec_fn`.
    """
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the parent of those below this process whose own has ended, so that none can hide from its parent."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        _LIBC.prctl(option, value, 0, 0, 0)


# Loaded here, because a child between fork and exec should load nothing.
_LIBC: Any = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
