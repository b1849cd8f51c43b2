"""The parent process of a run, and the event loop that reads the events of its workers.

A worker is a process that calls the driver or torch, so a worker may hang. The parent calls neither, so it reports a
verdict in time even then. A worker sends events to the parent, and the parent sends tasks to the worker (plan.Task).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from .. import machine, output
from ..judge import static
from ..options import Options
from ..peers import Peers
from ..receipt import Receipt
from .coordinator import WorkerGroup
from .process import Group, WorkerProcess

TICK_SEC = 0.05
# The maximum reads of 64 KiB after the end of a worker. A process that the worker started may keep its pipe open, and
# write without end.
READS = 64
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_SEC = 3.0  # the time for killed processes to end; a process that waits inside the driver may never end


def run(options: Options, receipt: Receipt) -> int:
    """Check the machine and every device, decide the verdict, and only then wait for hanging processes."""
    with stop_signals() as stopped:
        peers = Peers(options.peers)
        loop = EventLoop(lambda on_start: WorkerGroup(options, receipt, on_start))
        try:
            if not check_before_driver_calls(options, receipt):
                loop.group.begin()
                loop.run(stopped)
            loop.group.add_final_checks()
            if options.peers and not receipt.has_failed():
                output.say(f"gpu-smoke: passed so far; waiting for {len(options.peers)} machines at once")
                receipt.add(
                    peers.check(options.peers_sec, receipt.clock + options.peers_sec, lambda: _stop_reason(stopped))
                )
            code = receipt.finish()
            unkillable = loop.kill_remaining()
            if options.peers and code == 0:
                peers.linger(options.linger_sec, lambda: _stop_reason(stopped))
        finally:
            loop.close()
    if unkillable:
        pids = ", ".join(str(worker.process.pid) for worker in unkillable)
        text = f"process {pids} outlived SIGKILL: it waits inside the driver, and only a reboot ends it"
        receipt.host["unkillable"] = [worker.process.pid for worker in unkillable]
        receipt.save()
        output.say(f"gpu-smoke: {text}")
        # An ordinary exit could wait for the process.
        os._exit(code)
    return code


def check_before_driver_calls(options: Options, receipt: Receipt) -> bool:
    """Run the checks that need no driver call. Returns True if one failed, so that the other checks are pointless."""
    receipt.add(static.shm(machine.shared_memory()))
    if options.on_cpu:
        return False
    receipt.host["driver"] = driver = machine.driver()
    if not driver and not machine.windows() and not machine.nodes():
        receipt.add(static.nodes([], False, started=False))
    receipt.add(static.wheel(driver, machine.torch(), machine.compatible()))
    return receipt.has_failed()


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Record the signals that stop a run instead of ending the process, so that the run ends with a verdict."""
    received: list[int] = []
    old_handlers = {number: signal.signal(number, lambda n, _: received.append(n)) for number in STOP_SIGNALS}
    try:
        yield received
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def _stop_reason(stopped: list[int]) -> str:
    """Return the signal that stopped the run, for a sentence; empty if there was none."""
    return f"stopped by {signal.Signals(stopped[0]).name}" if stopped else ""


AnyGroup = TypeVar("AnyGroup", bound=Group)


class EventLoop(Generic[AnyGroup]):
    """The event loop: it reads the pipes of all workers and checks their time limits.

    `create` returns the group of workers. Its argument is a function that the group calls for each started worker.
    """

    def __init__(self, create: Callable[[Callable[[WorkerProcess], None]], AnyGroup]) -> None:
        self.selector = selectors.DefaultSelector()
        self.group = create(self._read_from)

    def run(self, stopped: list[int]) -> None:
        """Read events until all workers are done, the run is stopped, or the deadline is over."""
        while self.group.advance():
            now = time.monotonic()
            if stopped:
                self.group.stop_waiting_for_all(_stop_reason(stopped))
                return
            if now >= self.group.deadline:
                self.group.stop_waiting_for_all(f"no answer within {self.group.time_limit_text}")
                return
            for worker in self.group.overdue(now):
                self.group.stop_waiting(worker, f"no answer within {worker.limit_sec:g} s")
            for key, _ in self.selector.select(min(TICK_SEC, self.group.deadline - now)):
                self._read(key.data, key.fd)
            running = [worker for worker in self.group.processes if not worker.ended]
            for worker in running:
                if worker.process.poll() is not None:
                    self._handle_exit(worker)

    def kill_remaining(self) -> list[WorkerProcess]:
        """Kill the remaining workers and wait up to GRACE_SEC. Returns the workers that cannot be killed."""
        unkillable = [worker for worker in self.group.processes if not worker.ended]
        for worker in unkillable:
            worker.kill()
        end = time.monotonic() + GRACE_SEC
        while unkillable and time.monotonic() < end:
            unkillable = [worker for worker in unkillable if worker.process.poll() is None]
            time.sleep(TICK_SEC if unkillable else 0)
        return unkillable

    def close(self) -> None:
        """Release all resources, also after an error of this program."""
        self.selector.close()
        self.group.close()

    def _read_from(self, worker: WorkerProcess) -> None:
        for pipe in (worker.events, worker.output):
            self.selector.register(pipe, selectors.EVENT_READ, worker)

    def _read(self, worker: WorkerProcess, pipe: int) -> bool:
        """Read the data in a pipe, and handle its events. Returns False if the pipe is empty now, or closed."""
        data = worker.read(pipe)
        if data == b"":
            self.selector.unregister(pipe)
        elif data and pipe == worker.events:
            for event in worker.events_in(data):
                self.group.handle_event(worker, event)
        return bool(data)

    def _handle_exit(self, worker: WorkerProcess) -> None:
        """Read the rest of the pipes of a worker that has ended, and handle its end."""
        for pipe in (worker.events, worker.output):
            for _ in range(READS):
                if pipe not in self.selector.get_map() or not self._read(worker, pipe):
                    break
        self.group.handle_end(worker)
