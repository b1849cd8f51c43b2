"""Writes to the serial port, which may be slow, stuck or closed, without waiting for long and without an error."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence

# "It's better to write to /dev/ttyS0 directly" (GoogleCloudPlatform/compute-image-tools#373). Where a kernel has no
# such port, its console may lead to another one.
_DEVICES = ("/dev/ttyS0", "/dev/console")
_WAIT_SEC = 1.0
_MOST_LINES = 256


class Serial:
    """Writes in order, in a thread of its own that each process starts with its first line."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._begin()
        # A thread does not survive a fork, and what it held stays held in the child.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        # Where nobody reads, the oldest lines are dropped: the one that counts is the last.
        self._lines: collections.deque[str] = collections.deque(maxlen=_MOST_LINES)
        self._writing = False
        self._stuck = False
        self._thread = threading.Thread()

    def write(self, text: str) -> None:
        """Return when it is written, or is not within a moment; as long as the port is stuck, return at once.

        So the lines of two processes come in the order in which they were said, and no step waits for a reader.
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
        """Whether all is written in time."""
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
            # Closed, or a text that it cannot say: there is nobody to tell.
            with contextlib.suppress(Exception):
                self._write(text)


def console(environ: Mapping[str, str]) -> Callable[[str], None] | None:
    """Return what writes to the serial port's device; None on a computer that only has a metadata server of its own.

    A sandbox names the device in GPU_AGENT_CONSOLE.
    """
    if named := environ.get("GPU_AGENT_CONSOLE"):
        return Device((named,)).write
    return None if "GCE_METADATA_HOST" in environ else Device(_DEVICES).write


class Device:
    """The first of these paths that is a terminal and takes the text. OSError where none does."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def write(self, text: str) -> None:
        """Write all of it. It opens the device each time, so that no child inherits it."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                # Without O_NOCTTY the device could become this process's terminal; without O_NONBLOCK the open waits
                # for a carrier.
                number = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
                try:
                    if not os.isatty(number):
                        continue
                    os.set_blocking(number, True)
                    left = text.encode(errors="replace")
                    while left:
                        left = left[os.write(number, left) :]
                    return
                finally:
                    os.close(number)
        raise OSError("there is no serial port")
