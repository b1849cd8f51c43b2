"""Waits in a thread for notices: announcements of the cloud that the machine will end (preemption, maintenance)."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable

from .host import Host, Notice

KEY = "gpu-agent/notice"


_PAUSE_SEC = 1.0


def listen(host: Host, ends_machine: Callable[[Notice], bool], poll_sec: float = 60.0) -> threading.Thread:
    """Start to wait in the returned thread. Each notice goes to `ends_machine` and to a guest attribute.

    If `ends_machine` returns True, the agent's main thread gets SIGTERM, the same signal as for a stop of the machine.
    Every wait of the agent therefore ends in the same way.
    """

    def wait() -> None:
        known: Notice | None = None
        ends = False
        while not ends:
            try:
                notice = host.notice(poll_sec)
            except Exception:
                # A machine that lacks a resource, such as memory for a thread, must still receive the notice later.
                time.sleep(_PAUSE_SEC)
                continue
            if notice is None or notice == known:
                # The same notice is returned again and again. Another notice may follow.
                time.sleep(_PAUSE_SEC if notice else 0)
                continue
            known, ends = notice, ends_machine(notice)
            if ends:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            # If this fails, the report of the end contains the notice too, and has more time.
            with contextlib.suppress(Exception):
                host.publish(KEY, json.dumps({"reason": notice.reason, "words": notice.announcement}))

    listener = threading.Thread(target=wait, daemon=True)
    listener.start()
    return listener
