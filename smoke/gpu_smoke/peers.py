"""Peers: the pods that check the machines of a pool at the same time. Each run waits until it has seen all of them.

A pod has a name in DNS while it runs, so a run sees a peer when the peer's name resolves. All pods must run at the same
time. Otherwise a scheduler could put a pod onto the machine of a pod that has ended, and one machine
would be checked twice.
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

# The pause after a name that does not resolve. Names are resolved one at a time, because all machines use the same DNS
# servers.
LOOK_SEC = 2.0
TICK_SEC = 0.1
NAMED = 3

_ABSENT = Meaning(
    faults.HANG,
    faults.FIX_POOL,
    "see why the pods wait: kubectl get events; machines or quota may be used up, or other pods have the GPUs",
)
_UNNAMED = Meaning(
    faults.HANG, faults.NONE, "pods are named by a headless Service and the cluster's DNS: one of them does not answer"
)


class Peers:
    """The names of all peers, and of those not seen yet. A peer that was seen once counts, even if it has ended."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.missing = list(names)
        self.complete_at = 0.0
        self._error = ""
        if names:
            # A resolver may not answer for minutes, and a verdict must not wait for that.
            threading.Thread(target=self._look, daemon=True).start()

    def check(self, sec: float, until: float, stopped: Callable[[], str]) -> Check:
        """Wait for all machines, at most until the given time."""
        while missing := list(self.missing):
            reason = stopped() or (f"after {sec:g} s" if time.monotonic() >= until else "")
            if reason:
                return self._absent(reason, missing)
            time.sleep(TICK_SEC)
        return Check("peers", PASS, f"{len(self.names)} machines at once")

    def linger(self, sec: float, stopped: Callable[[], str]) -> None:
        """Stay so that the other machines can see this one: a pod that has ended has no name."""
        while time.monotonic() < self.complete_at + sec and not stopped():
            time.sleep(TICK_SEC)

    def _look(self) -> None:
        for name in itertools.cycle(self.names):
            if name in self.missing and not self._resolves(name):
                time.sleep(LOOK_SEC)
            elif name in self.missing:
                # Set before the last name is removed, because the other thread waits for the last removal.
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
        seen, total = len(self.names) - len(missing), len(self.names)
        if not seen:
            text = f"none of {total} machines has a name, not even this one ({self._error})"
            return failure("peers", f"{reason}: {text}", _UNNAMED, status=ERROR)
        names = ", ".join(missing[:NAMED]) + (f" and {len(missing) - NAMED} more" if len(missing) > NAMED else "")
        text = f"{seen} of {total} machines were seen, this one passed so far; missing: {names}"
        return failure("peers", f"{reason}: {text}", _ABSENT, status=ERROR)
