"""A worker process. Only workers use a device, and they report every step, so a hang can be located."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from . import roles

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(argv: Sequence[str]) -> int:
    """Run a role to its end. `argv` is the pipe for events, the parent's id, the role and the arguments of the role."""
    pipe, parent, role, given = argv
    _die_with(int(parent))

    def emit(event: str, **values: Any) -> None:
        os.write(int(pipe), (json.dumps({"event": event, **values}) + "\n").encode())

    try:
        roles.ROLES[role](emit, **json.loads(given))
    except Exception as error:  # every error of torch is a result, and the parent judges it
        emit("fault", type=type(error).__name__, message=str(error))
    emit("done")
    os._exit(0)  # skips the clean-up of torch, which can hang on a broken driver


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when the parent dies: a GPU must not stay in use by an abandoned check."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the line above
        os._exit(1)
