"""Reports the progress of a long step every 15 seconds."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

INTERVAL_SEC = 15.0


@contextlib.contextmanager
def progress(title: str, say: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Report a step while the block runs. The function that is yielded sets the item to report."""
    started_at, ended, items = time.monotonic(), threading.Event(), [""]

    def report() -> None:
        while not ended.wait(INTERVAL_SEC):
            minutes, seconds = divmod(int(time.monotonic() - started_at), 60)
            say(f"{title}: {minutes}:{seconds:02d} {items[-1]}".rstrip())

    thread = threading.Thread(target=report, daemon=True)
    say(title)
    thread.start()
    try:
        yield items.append
    finally:
        ended.set()
        thread.join()
    say(f"{title}: done after {time.monotonic() - started_at:.0f} s")
