"""Machines that are checked at once: none of them ends well before it has seen every one.

A pod that has ended takes no room any more, so a scheduler could put the next one onto the machine that was just
checked: as many passes, and fewer machines. Where all were there at the same time, no two were on the same one.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Sequence

from . import faults
from .checks import ERROR, PASS, Check, failure
from .faults import Meaning

# Between two names that are not there. One at a time, however many are missing: all machines ask the same servers.
LOOK_SEC = 2.0
TICK_SEC = 0.1
NAMED = 3

_ABSENT = Meaning(
    faults.HANG,
    faults.FIX_POOL,
    "the cluster tells why their pods wait: kubectl get events; no machine or quota is left, or others have the GPUs",
)
_UNNAMED = Meaning(
    faults.HANG, faults.NONE, "pods are named by a headless Service and the cluster's DNS: one of them does not answer"
)


class Peers:
    """Every machine's name, and who has been seen. One that was there once counts, wherever it is by now."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.missing = list(names)
        self.complete_at = 0.0
        self._error = ""
        if names:
            # A resolver may not answer for minutes, and a verdict must not wait for one.
            threading.Thread(target=self._look, daemon=True).start()

    def check(self, sec: float, until: float, stopped: Callable[[], str]) -> Check:
        """Wait for all of them, at most until then."""
        while missing := list(self.missing):
            reason = stopped() or (f"after {sec:g} s" if time.monotonic() >= until else "")
            if reason:
                return self._absent(reason, missing)
            time.sleep(TICK_SEC)
        return Check("peers", PASS, f"{len(self.names)} machines at once")

    def linger(self, sec: float, stopped: Callable[[], str]) -> None:
        """Stay until the others have seen this one as well: what ends has no name any more."""
        while time.monotonic() < self.complete_at + sec and not stopped():
            time.sleep(TICK_SEC)

    def _look(self) -> None:
        for name in itertools.cycle(self.names):
            if name in self.missing and not self._resolves(name):
                time.sleep(LOOK_SEC)
            elif name in self.missing:
                # Before the last one is taken off, which is what the other thread waits for.
                self.complete_at = time.monotonic()
                self.missing.remove(name)
            if not self.missing:
                return

    def _resolves(self, name: str) -> bool:
        try:
            socket.getaddrinfo(name, None)
        except (OSError, UnicodeError) as error:
            self._error = getattr(error, "strerror", None) or str(error)
            return False
        return True

    def _absent(self, reason: str, missing: Sequence[str]) -> Check:
        here, all_of_them = len(self.names) - len(missing), len(self.names)
        if not here:
            text = f"none of {all_of_them} machines has a name, not even this one ({self._error})"
            return failure("peers", f"{reason}: {text}", _UNNAMED, status=ERROR)
        names = ", ".join(missing[:NAMED]) + (f" and {len(missing) - NAMED} more" if len(missing) > NAMED else "")
        text = f"{here} of {all_of_them} machines were there, this one right; missing: {names}"
        return failure("peers", f"{reason}: {text}", _ABSENT, status=ERROR)
