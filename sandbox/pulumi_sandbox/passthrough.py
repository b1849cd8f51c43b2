"""Runs the real Pulumi CLI in the place of this process: same arguments, terminal, signals and exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from gpu_common import linux


def run(executable: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code a shell would see.

    On a terminal, Ctrl-C reaches pulumi by itself, since it shares our process group; a second one would make it give
    up at once and leave half-made resources, so nothing is passed on. Elsewhere pulumi gets a group of its own, so that
    a signal reaches it once, whether it was sent to us alone or to our whole group.
    """
    on_terminal = owns_terminal()
    received: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        if process is not None and not (on_terminal and number in (signal.SIGINT, signal.SIGQUIT)):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        process = subprocess.Popen(
            [str(executable), *arguments],
            env=dict(environment),
            process_group=None if on_terminal else 0,
            # Have pulumi stop in good order, its lock given back, when we are killed. This process has one thread.
            preexec_fn=lambda: linux.signal_when_parent_ends(signal.SIGTERM),
        )
        if received and not on_terminal:
            process.send_signal(received[-1])
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def owns_terminal() -> bool:
    """Whether we are in the foreground of a terminal, which then sends Ctrl-C to pulumi too."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
