"""The parent process. It uses no GPU and no torch, so it reports a verdict in time even if a worker hangs."""

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
READS = 64  # reads of 64 KiB: a grandchild may keep the pipe of a dead worker open and write without end
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_SEC = 3.0  # the time for killed processes to end; one that waits inside the driver may never end


def run(options: Options, receipt: Receipt, known: Known) -> int:
    """Check the machine and every device, decide the verdict, and only then wait for hanging processes."""
    with stops() as stopped:
        peers = Peers(options.peers)
        watch = Watch(lambda started: WorkerGroup(options, receipt, known, started))
        try:
            if not look(options, receipt):
                watch.workers.begin()
                watch.listen(stopped)
            watch.workers.conclude()
            if options.peers and not receipt.wrong():
                output.say(f"gpu-smoke: passed so far; waiting for {len(options.peers)} machines at once")
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
        # An ordinary exit could wait for the process.
        os._exit(code)
    return code


def look(options: Options, receipt: Receipt) -> bool:
    """Run the checks that need no driver call. Returns True if they make the others pointless."""
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
    """Record the signals that stop a run, so that it ends with a verdict."""
    seen: list[int] = []
    before = {number: signal.signal(number, lambda n, _: seen.append(n)) for number in STOPS}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal(stopped: list[int]) -> str:
    """Return the signal that stopped the run; empty if there was none."""
    return f"stopped by {signal.Signals(stopped[0]).name}" if stopped else ""


class Team(Protocol):
    """The workers of a run, as the event loop uses them."""

    children: list[Child]
    deadline: float  # the end of all waiting, by time.monotonic()

    @property
    def within(self) -> str:
        """The time limit, for a sentence."""

    def going(self) -> bool:
        """Return True if the run is not over."""

    def late(self, now: float) -> list[Child]:
        """Return the workers that exceeded their time limit."""

    def lose(self, child: Child, reason: str) -> None:
        """Stop waiting for a worker."""

    def give_up(self, reason: str) -> None:
        """Stop waiting for all workers."""

    def hear(self, child: Child, event: dict[str, Any]) -> None:
        """Handle one event of a worker."""

    def ended(self, child: Child) -> None:
        """Handle the end of a process."""

    def close(self) -> None:
        """Release all resources."""


T = TypeVar("T", bound=Team)


class Watch(Generic[T]):
    """The event loop: it reads the pipes of all workers and checks their time limits."""

    def __init__(self, team: Callable[[Callable[[Child], None]], T]) -> None:
        self.selector = selectors.DefaultSelector()
        self.workers = team(self._started)

    def listen(self, stopped: list[int]) -> None:
        """Read events until all workers are done, the run is stopped, or the deadline is over."""
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
        """Kill the remaining processes and wait up to GRACE_SEC. Returns those that cannot be killed."""
        left = [child for child in self.workers.children if not child.ended]
        for child in left:
            child.kill()
        patience = time.monotonic() + GRACE_SEC
        while left and time.monotonic() < patience:
            left = [child for child in left if child.process.poll() is None]
            time.sleep(TICK_SEC if left else 0)
        return left

    def close(self) -> None:
        """Release all resources, also after an error of this program."""
        self.selector.close()
        self.workers.close()

    def _started(self, child: Child) -> None:
        for pipe in (child.events, child.output):
            self.selector.register(pipe, selectors.EVENT_READ, child)

    def _read(self, child: Child, pipe: int) -> bool:
        """Read what a pipe holds. Returns False if it is empty for now."""
        data = child.read(pipe)
        if data == b"":
            self.selector.unregister(pipe)
        elif data and pipe == child.events:
            for event in child.heard(data):
                self.workers.hear(child, event)
        return bool(data)

    def _last_output(self, child: Child) -> None:
        """Read the rest of a worker's pipes, and handle its end."""
        for pipe in (child.events, child.output):
            for _ in range(READS):
                if pipe not in self.selector.get_map() or not self._read(child, pipe):
                    break
        self.workers.ended(child)
