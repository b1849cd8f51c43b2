"""Shows progress of a long step: one live line on a terminal, else one line every 15 seconds."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

PLAIN_INTERVAL_SEC = 15.0
LIVE_INTERVAL_SEC = 0.5


class Progress:
    """Shows the progress of one step while the `with` block runs."""

    def __init__(self, title: str, say: Callable[[str], None], stream: TextIO | None = None) -> None:
        self.total: int | None = None
        self._title, self._say = title, say
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._done, self._item = 0, ""
        self._started_at = time.monotonic()
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._print_lines, daemon=True)

    def at(self, item: str) -> None:
        """Show an item that is not counted."""
        self._item = item

    def step(self, item: str) -> None:
        """Count an item, and show it."""
        self._done += 1
        self._item = item

    def line(self) -> str:
        elapsed = int(time.monotonic() - self._started_at)
        parts = [f"{self._title}: {elapsed // 60}:{elapsed % 60:02d}"]
        if self.total:
            parts.append(f"{min(self._done, self.total)} of {self.total} packages")
        if self.total is not None and self._done >= self.total:
            parts.append("linking")
        elif self._item:
            parts.append(self._item)
        return ", ".join(parts)

    def _print_lines(self) -> None:
        while not self._finished.wait(LIVE_INTERVAL_SEC if self._live else PLAIN_INTERVAL_SEC):
            if self._live:
                width = shutil.get_terminal_size().columns - 1
                self._stream.write(f"\r\033[K{self.line()[:width]}")
                self._stream.flush()
            else:
                self._say(self.line())

    def __enter__(self) -> Progress:
        self._say(self._title)
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._finished.set()
        self._thread.join()
        if self._live:
            self._stream.write("\r\033[K")
            self._stream.flush()
        if kind is None:
            self._say(f"{self._title}: done after {time.monotonic() - self._started_at:.0f} s")
