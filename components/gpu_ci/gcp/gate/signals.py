"""Turns the signals with which Cloud Build and a user end a program into an event."""

from __future__ import annotations

import signal
from threading import Event


def cancellation() -> Event:
    """Return an event that SIGTERM and SIGINT set from now on, so that the program can delete its machine."""
    cancel = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: cancel.set())
    return cancel
