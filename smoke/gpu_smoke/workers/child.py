"""One child process: it alone touches a device, and tells every step, so that a hang has a place and a name."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from . import tasks

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(argv: Sequence[str]) -> int:
    """Play a role until it is over; `argv` is the pipe to tell on, the parent's id, the role and what it is given."""
    pipe, parent, role, given = argv
    _die_with(int(parent))

    def emit(event: str, **values: Any) -> None:
        os.write(int(pipe), (json.dumps({"event": event, **values}) + "\n").encode())

    try:
        tasks.ROLES[role](emit, **json.loads(given))
    except Exception as error:  # whatever torch raises is a finding; the parent decides which
        emit("fault", type=type(error).__name__, message=str(error))
    emit("done")
    os._exit(0)  # not through torch's own clean-up, which can hang on a sick driver


def _die_with(parent: int) -> None:
    """Be killed when the parent dies, however it dies: a GPU must not stay held by a check that nobody reads."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
