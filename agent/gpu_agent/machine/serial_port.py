"""The serial port, which may be slow, stuck or closed: nobody who writes to it waits for long, or hears of it."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from collections.abc import Callable

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
