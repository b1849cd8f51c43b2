"""The commands of the machine that the agent runs: each has a deadline, and what it prints goes to the serial port."""

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

# As timeout(1) and shells have them.
TIMED_OUT, NOT_FOUND, BY_SIGNAL = 124, 127, 128
_GRACE_SEC = 10.0
# Google's script runner copies lines of less than 65,536 bytes to the serial port and stops at a longer one (Go's
# bufio.Scanner, MaxScanTokenSize).
_LINE_BYTES = 4_096


class Done(NamedTuple):
    """How a command ended."""

    code: int
    """Its exit code, 128 + n after signal n; TIMED_OUT or NOT_FOUND."""
    last: str
    """The last line it printed that was not blank."""


@dataclass(frozen=True)
class Machine:
    """Where the agent runs."""

    clock: Clock
    say: Callable[[str], None]
    """One line for the serial port."""
    work: Path
    """A folder of this boot's own."""
    state: Path
    """A folder that outlasts a restart; it need not be there yet."""
    is_google: bool = True
    """False where a sandbox plays the cloud on somebody's computer, which is to be left as it is."""
    prefix: tuple[str, ...] = ()
    """In front of a command of the machine's own, where the agent itself runs in a container."""
    is_emulated: bool = False
    """True where the sandbox emulates what root does for a runner: users, mounts, the packet filter."""

    @property
    def takes_runners(self) -> bool:
        """Whether a runner can be started here and leaves somebody's computer as it is."""
        return self.is_google or self.is_emulated

    def run(self, *argv: str, deadline: float, quiet: bool = False) -> Done:
        """Run it on the machine until the deadline; then it ends, and all that it started."""
        left = deadline - self.clock.now()
        if left <= 0:
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
            code = process.wait(left)
        except subprocess.TimeoutExpired:
            code = TIMED_OUT
        finally:
            # Also when a signal ends the agent while it waits: nothing may go on behind its back.
            _end(process)
        # What the command left running may hold its output open; the machine does not wait for that.
        reader.join(2)
        return Done(BY_SIGNAL - code if code < 0 else code, lines[-1] if lines else "")

    def _read(self, stream: IO[bytes], lines: list[str], quiet: bool) -> None:
        with stream:
            while piece := stream.readline(_LINE_BYTES):
                line = piece.decode(errors="replace").rstrip()
                if line:
                    lines[:] = [line]
                if not quiet:
                    # So that nothing it prints reads as a word of the agent's own.
                    self.say(f"| {line}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """TERM to a command that still runs and to its group, then KILL. One that even that does not end is left behind."""
    for number, seconds in ((signal.SIGTERM, _GRACE_SEC), (signal.SIGKILL, 1.0)):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
