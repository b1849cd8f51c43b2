"""The parent: it touches no GPU and imports no torch, so whatever hangs, the verdict is out in time."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from .. import machine, output
from ..history.reference_data import Known
from ..judge import static
from ..options import Options
from ..peers import Peers
from ..receipt import Receipt
from .coordinator import WorkerGroup
from .process import Child

TICK_SEC = 0.05
READS = 64  # of 64 KiB: a grandchild may hold the pipe of a dead child and write for ever
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_SEC = 3.0  # for what was killed to be gone; a process in the driver's hands may never be


def run(options: Options, receipt: Receipt, known: Known) -> int:
    """Look at the machine, check every device, decide, and only then deal with what hangs."""
    with stops() as stopped:
        peers = Peers(options.peers)
        watch = Watch(lambda started: WorkerGroup(options, receipt, known, started))
        try:
            if not look(options, receipt):
                watch.workers.begin()
                watch.listen(stopped)
            watch.workers.conclude()
            if options.peers and not receipt.wrong():
                output.say(
                    f"gpu-smoke: right so far; waits until {len(options.peers)} machines have been there at once"
                )
                receipt.add(peers.check(options.peers_sec, receipt.clock + options.peers_sec, lambda: _signal(stopped)))
            code = receipt.finish()
            left = watch.end()
            if options.peers and code == 0:
                peers.linger(options.linger_sec, lambda: _signal(stopped))
        finally:
            watch.close()
    if left:
        pids = ", ".join(str(child.process.pid) for child in left)
        text = f"process {pids} outlived SIGKILL: it waits inside the driver, and only a reboot ends it"
        receipt.host["unkillable"] = [child.process.pid for child in left]
        receipt.save()
        output.say(f"gpu-smoke: {text}")
        # An ordinary exit could wait for it.
        os._exit(code)
    return code


def look(options: Options, receipt: Receipt) -> bool:
    """What can be seen without a driver call; True where it is wrong, so that nothing has to be computed."""
    receipt.add(static.shm(machine.shared_memory()))
    if options.on_cpu:
        return False
    receipt.host["driver"] = driver = machine.driver()
    if not driver and not machine.windows() and not machine.nodes():
        receipt.add(static.nodes([], False, started=False))
    receipt.add(static.wheel(driver, machine.torch(), machine.compatible()))
    return receipt.wrong()


@contextlib.contextmanager
def stops() -> Iterator[list[int]]:
    """Signals that end the run; they are noted, so that it ends with a verdict."""
    seen: list[int] = []
    before = {number: signal.signal(number, lambda n, _: seen.append(n)) for number in STOPS}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal(stopped: list[int]) -> str:
    """What ended the run from outside; empty where nothing did."""
    return f"stopped by {signal.Signals(stopped[0]).name}" if stopped else ""


class Team(Protocol):
    """The children of a run, and who decides about them."""

    children: list[Child]
    deadline: float  # when to wait for nobody any longer, by time.monotonic()

    @property
    def within(self) -> str:
        """How long that is, for a sentence."""

    def going(self) -> bool:
        """Whether anything is still to come."""

    def late(self, now: float) -> list[Child]:
        """The children that have taken too long."""

    def lose(self, child: Child, reason: str) -> None:
        """Wait for it no longer."""

    def give_up(self, reason: str) -> None:
        """Wait for nobody any longer."""

    def hear(self, child: Child, event: dict[str, Any]) -> None:
        """Take one thing that a child tells."""

    def ended(self, child: Child) -> None:
        """Note how a process ended."""

    def close(self) -> None:
        """Leave nothing behind."""


T = TypeVar("T", bound=Team)


class Watch(Generic[T]):
    """Listens to every child, and to the clock."""

    def __init__(self, team: Callable[[Callable[[Child], None]], T]) -> None:
        self.selector = selectors.DefaultSelector()
        self.workers = team(self._started)

    def listen(self, stopped: list[int]) -> None:
        """Listen until no child has anything more to say, or the time is over."""
        while self.workers.going():
            now = time.monotonic()
            if stopped:
                self.workers.give_up(_signal(stopped))
                return
            if now >= self.workers.deadline:
                self.workers.give_up(f"no answer within {self.workers.within}")
                return
            for child in self.workers.late(now):
                self.workers.lose(child, f"no answer within {child.limit_sec:g} s")
            for key, _ in self.selector.select(min(TICK_SEC, self.workers.deadline - now)):
                self._read(key.data, key.fd)
            for child in [
                child for child in self.workers.children if not child.ended and child.process.poll() is not None
            ]:
                self._last_output(child)

    def end(self) -> list[Child]:
        """Kill what still runs and wait a little; returns what cannot be killed."""
        left = [child for child in self.workers.children if not child.ended]
        for child in left:
            child.kill()
        patience = time.monotonic() + GRACE_SEC
        while left and time.monotonic() < patience:
            left = [child for child in left if child.process.poll() is None]
            time.sleep(TICK_SEC if left else 0)
        return left

    def close(self) -> None:
        """Leave nothing behind, also after an error of our own."""
        self.selector.close()
        self.workers.close()

    def _started(self, child: Child) -> None:
        for pipe in (child.events, child.output):
            self.selector.register(pipe, selectors.EVENT_READ, child)

    def _read(self, child: Child, pipe: int) -> bool:
        """Take what the pipe holds; False when there is nothing more now."""
        data = child.read(pipe)
        if data == b"":
            self.selector.unregister(pipe)
        elif data and pipe == child.events:
            for event in child.heard(data):
                self.workers.hear(child, event)
        return bool(data)

    def _last_output(self, child: Child) -> None:
        """What a child left in its pipes, and how it ended."""
        for pipe in (child.events, child.output):
            for _ in range(READS):
                if pipe not in self.selector.get_map() or not self._read(child, pipe):
                    break
        self.workers.ended(child)
