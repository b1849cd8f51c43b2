"""Runs the real Pulumi CLI with the arguments, terminal and signals of this process, and returns its exit code."""

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
    """Run the command and return the exit code that a shell would see.

    On a terminal, Ctrl-C reaches pulumi directly, because pulumi is in our process group. A second Ctrl-C would make it
    stop at once and leave incomplete resources, so we forward no signal. Without a terminal, pulumi has its own process
    group, and we forward each signal. So pulumi gets it exactly once, even if it was sent to our whole group.
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
            # Let pulumi stop cleanly and release its lock when we are killed. This process has one thread.
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
    """Return True in the foreground of a terminal, which sends Ctrl-C to pulumi too."""
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
