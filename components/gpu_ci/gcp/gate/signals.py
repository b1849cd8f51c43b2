"""Turns the signals with which Cloud Build and a user end a program into an event."""

from __future__ import annotations

import signal
from queue import SimpleQueue
from threading import Event, Thread


def cancellation() -> Event:
    """Return an event that SIGTERM and SIGINT set from now on, so that the program can delete its machine.

    A handler must not set the event itself. It interrupts the main thread, which may hold the event's lock in `wait`,
    and would then wait for itself. `SimpleQueue.put` can interrupt any code.
    """
    cancel = Event()
    received: SimpleQueue[int] = SimpleQueue()

    def pass_on() -> None:
        received.get()
        cancel.set()

    Thread(target=pass_on, name="cancellation", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sent, _: received.put(sent))
    return cancel
