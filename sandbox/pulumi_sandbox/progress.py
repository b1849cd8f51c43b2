"""Shows progress of a long step: one live line on a terminal, else one line every 15 seconds."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

PLAIN_EVERY = 15.0
LIVE_EVERY = 0.5


class Progress:
    """Return the line with the step, its progress and its duration so far."""

    def __init__(self, title: str, say: Callable[[str], None], stream: TextIO | None = None) -> None:
        self.total: int | None = None
        self._title, self._say = title, say
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._done, self._what = 0, ""
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def at(self, what: str) -> None:
        self._what = what

    def step(self, what: str) -> None:
        self._done += 1
        self._what = what

    def line(self) -> str:
        elapsed = int(time.monotonic() - self._began)
        parts = [f"{self._title}: {elapsed // 60}:{elapsed % 60:02d}"]
        if self.total:
            parts.append(f"{min(self._done, self.total)} of {self.total} packages")
        if self.total is not None and self._done >= self.total:
            parts.append("linking")
        elif self._what:
            parts.append(self._what)
        return ", ".join(parts)

    def _tick(self) -> None:
        while not self._ended.wait(LIVE_EVERY if self._live else PLAIN_EVERY):
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
        self._ended.set()
        self._thread.join()
        if self._live:
            self._stream.write("\r\033[K")
            self._stream.flush()
        if kind is None:
            self._say(f"{self._title}: done after {time.monotonic() - self._began:.0f} s")
