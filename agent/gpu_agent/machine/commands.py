"""Runs commands on the machine. Each command has a deadline, and its output goes to the serial port."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from ..clock import Clock

# The exit codes of timeout(1) and of shells.
TIMED_OUT, NOT_FOUND, BY_SIGNAL = 124, 127, 128
_GRACE_SEC = 10.0
# Google's script runner copies lines of less than 65,536 bytes to the serial port and stops at a longer one (Go's
# bufio.Scanner, MaxScanTokenSize).
_LINE_BYTES = 4_096


class Done(NamedTuple):
    """The result of a command."""

    code: int
    """The exit code; 128 + n after signal n; TIMED_OUT or NOT_FOUND."""
    last: str
    """The last printed line that was not blank."""


@dataclass(frozen=True)
class Machine:
    """The machine on which the agent runs."""

    clock: Clock
    say: Callable[[str], None]
    """Writes one line to the serial port."""
    work: Path
    """A folder for this boot only."""
    state: Path
    """A folder that survives a restart; it may not exist yet."""
    is_google: bool = True
    """False in a sandbox on a user's computer, which must not be changed."""
    prefix: tuple[str, ...] = ()
    """A prefix for commands that run on the host, if the agent itself runs in a container."""
    is_emulated: bool = False
    """True if the sandbox emulates root's tasks for a runner: users, mounts, the packet filter."""

    @property
    def takes_runners(self) -> bool:
        """True if a runner can start here without a change of a user's computer."""
        return self.is_google or self.is_emulated

    def run(self, *argv: str, deadline: float, quiet: bool = False) -> Done:
        """Run a command on the machine. At the deadline it ends with all its child processes."""
        remaining_sec = deadline - self.clock.now()
        if remaining_sec <= 0:
            return Done(TIMED_OUT, "")
        lines: list[str] = []
        try:
            process = subprocess.Popen(
                [*self.prefix, *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        except OSError as error:
            return Done(NOT_FOUND, f"{argv[0]}: {error.strerror}")
        reader = threading.Thread(target=self._read, args=(process.stdout, lines, quiet), daemon=True)
        reader.start()
        try:
            code = process.wait(remaining_sec)
        except subprocess.TimeoutExpired:
            code = TIMED_OUT
        finally:
            # This also runs if a signal ends the agent during the wait, so that no process continues unnoticed.
            _end(process)
        # A process that the command left running may keep the output open. The machine does not wait for it.
        reader.join(2)
        return Done(BY_SIGNAL - code if code < 0 else code, lines[-1] if lines else "")

    def _read(self, stream: IO[bytes], lines: list[str], quiet: bool) -> None:
        with stream:
            while data := stream.readline(_LINE_BYTES):
                line = data.decode(errors="replace").rstrip()
                if line:
                    lines[:] = [line]
                if not quiet:
                    # The prefix prevents that output looks like a line of the agent.
                    self.say(f"| {line}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send TERM to a running command and its group, then KILL. A process that survives KILL is left behind.

    KILL follows also if the command itself has ended, because its children may ignore TERM.
    """
    if process.poll() is not None:
        return
    for number, seconds in ((signal.SIGTERM, _GRACE_SEC), (signal.SIGKILL, 1.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
