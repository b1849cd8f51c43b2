"""Writes to the serial port without long waits or errors, even if the port is slow, stuck or closed."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence

# "It's better to write to /dev/ttyS0 directly" (GoogleCloudPlatform/compute-image-tools#373). If a kernel has no such
# port, its console may lead to another one.
_DEVICES = ("/dev/ttyS0", "/dev/console")
_WAIT_SEC = 1.0
_MOST_LINES = 256


class Serial:
    """Writes lines in order, in a thread that each process starts with its first line."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._begin()
        # A thread does not survive a fork, and its locks stay locked in the child.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        # If the port is stuck, the oldest lines are dropped, because the last line matters most.
        self._lines: collections.deque[str] = collections.deque(maxlen=_MOST_LINES)
        self._writing = False
        self._stuck = False
        self._thread = threading.Thread()

    def write(self, text: str) -> None:
        """Write the text, and wait for it up to a second. If the port is stuck, return at once.

        The lines of two processes therefore keep their order, and no step waits for a reader of the port.
        """
        with self._changed:
            if not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, daemon=True)
                self._thread.start()
            self._lines.append(text)
            self._changed.notify_all()
        if not self._stuck:
            self._stuck = not self.flush(_WAIT_SEC)

    def flush(self, within_sec: float) -> bool:
        """Return True if everything is written in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._writing, within_sec)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                if not self._lines:
                    self._stuck = False
                    self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                text, self._writing = self._lines.popleft(), True
            # The port is closed or cannot encode the text. No other place could receive the error.
            with contextlib.suppress(Exception):
                self._write(text)


def console(environ: Mapping[str, str]) -> Callable[[str], None] | None:
    """Return the function that writes to the serial port, or None on a computer with a fake metadata server.

    A sandbox names the device in GPU_AGENT_CONSOLE.
    """
    if named := environ.get("GPU_AGENT_CONSOLE"):
        return Device((named,)).write
    return None if "GCE_METADATA_HOST" in environ else Device(_DEVICES).write


class Device:
    """The first of these paths that is a terminal and accepts the text. Raises OSError without one."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def write(self, text: str) -> None:
        """Write all of the text. The device is opened each time, so that no child inherits it."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                # Without O_NOCTTY the device could become this process's terminal. Without O_NONBLOCK the open waits
                # for a carrier.
                number = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
                try:
                    if not os.isatty(number):
                        continue
                    os.set_blocking(number, True)
                    remaining = text.encode(errors="replace")
                    while remaining:
                        remaining = remaining[os.write(number, remaining) :]
                    return
                finally:
                    os.close(number)
        raise OSError("the machine has no serial port")
