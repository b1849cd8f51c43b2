"""Listens for the cloud's announcement that it takes the machine, beside whatever the agent does."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable

from .host import Host, Notice

KEY = "gpu-agent/notice"


def listen(host: Host, told: Callable[[Notice], None], poll_sec: float = 60.0) -> None:
    """Start to listen; the first notice goes to `told` and to a guest attribute, and stops the agent's main thread.

    It stops it by the signal that any other end of the machine sends, so that there is one way out of every wait.
    """

    def wait() -> None:
        while (notice := host.notice(poll_sec)) is None:
            pass
        told(notice)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        try:
            host.publish(KEY, json.dumps({"reason": notice.reason, "words": notice.words}))
        except OSError:
            return  # the end names it too, and it has more time

    threading.Thread(target=wait, daemon=True).start()
