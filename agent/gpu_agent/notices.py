"""Listens for the cloud's announcement that it takes the machine, beside whatever the agent does."""

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
    """Start to listen, in the thread that this gives; each notice goes to `ends_machine` and to a guest attribute.

    Where `ends_machine` says that the machine is to end for it, that stops the agent's main thread, by the signal that
    any other end of the machine sends, so that there is one way out of every wait.
    """

    def wait() -> None:
        known: Notice | None = None
        ends = False
        while not ends:
            try:
                notice = host.notice(poll_sec)
            except Exception:
                # A machine that is short of something, such as room for a thread, is still to hear of its end.
                time.sleep(_PAUSE_SEC)
                continue
            if notice is None or notice == known:
                # One that ends nothing yet stands, and the next one may follow it.
                time.sleep(_PAUSE_SEC if notice else 0)
                continue
            known, ends = notice, ends_machine(notice)
            if ends:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            # Where it fails, the end names it too, and that has more time.
            with contextlib.suppress(Exception):
                host.publish(KEY, json.dumps({"reason": notice.reason, "words": notice.announcement}))

    listener = threading.Thread(target=wait, daemon=True)
    listener.start()
    return listener
