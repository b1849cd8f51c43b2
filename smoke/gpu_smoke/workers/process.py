"""A child process as its parent sees it: pipes that never block, what it is at, and a way to end it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .. import faults
from ..plan import Order
from . import environment

_CHUNK = 65_536
_TAIL = 4_096
_START_SEC = 60.0  # Python itself, from a cold disk
_LISTED_SEC = 1.0  # how long the driver may list a process that has ended: our guess

# The child finds this package wherever it lies, in a zip too, and nothing in the working directory.
_START = """\
import sys
sys.path[:] = [sys.argv[1], *(path for path in sys.path if path)]
from gpu_smoke.workers import child
sys.exit(child.main(sys.argv[2:]))
"""


class Child:
    """One process in one role; `index` is the GPU it is for."""

    def __init__(self, role: str, index: int, given: dict[str, Any]) -> None:
        self.role, self.index = role, index
        self.plan: list[Order] = []
        self.at = 0  # orders of its plan that it has carried out
        self.idle = self.busy = False  # waits for an order; carries one out
        self.done = self.ended = self.lost = False  # said so; is no process any more; is not waited for
        self.on_gpu_until = math.inf
        self._heard, self._output_tail = b"", b""
        self.events, events_write = os.pipe()
        self.output, out = os.pipe()
        root = Path(__file__).absolute().parents[2]  # where the package is
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, str(root), str(events_write), str(os.getpid()), role, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            pass_fds=(events_write,),
            start_new_session=True,  # a signal for the parent's group must not end a child before the verdict
            env=environment.of_worker(os.environ),
        )
        os.close(events_write)
        os.close(out)
        os.set_blocking(self.events, False)
        os.set_blocking(self.output, False)
        self.enters("start", "starting Python", "child", _START_SEC)

    @property
    def gone(self) -> bool:
        """Whether nothing more is to come from it."""
        return self.ended or self.lost

    @property
    def on_gpu(self) -> bool:
        """Whether its work is a GPU's; NVML is asked of all of them."""
        return self.role not in ("host", "health")

    @property
    def next(self) -> Order | None:
        """What it is to do next, or does now."""
        return self.plan[self.at] if self.at < len(self.plan) else None

    def enters(self, stage: str, text: str, what: str, limit_sec: float) -> None:
        """Note what it is at, the check that an error there belongs to, and when that is too long."""
        self.stage, self.text, self.what = stage, text, what
        self.limit_sec, self.deadline = limit_sec, time.monotonic() + limit_sec

    def order(self, order: Order) -> None:
        """Have it do this."""
        self.idle, self.busy = False, True
        self.enters("kernel", order.text, order.stage.error, order.limit_sec)
        self._write(json.dumps({"stage": order.stage.name, "params": order.params}).encode() + b"\n")

    def ready(self) -> None:
        """It has done what it was ordered, if anything."""
        self.at += self.busy
        self.idle, self.busy = True, False

    def dismiss(self) -> None:
        """Nothing more is to be done."""
        self.idle = False
        self.enters("end", "leaving torch", "child", 30.0)
        self._write(b"")

    def read(self, pipe: int) -> bytes | None:
        """What the pipe holds now: None is nothing yet, empty is its end."""
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return None
        if pipe == self.output:
            self._output_tail = (self._output_tail + data)[-_TAIL:]
        return data

    def heard(self, data: bytes) -> list[dict[str, Any]]:
        """The events that these bytes complete."""
        *lines, self._heard = (self._heard + data).split(b"\n")
        events = []
        for line in lines:
            with contextlib.suppress(ValueError):  # whatever is missing in the end is noticed by judge.completeness
                events.append(json.loads(line))
        return events

    def death(self) -> tuple[str, faults.Meaning] | None:
        """Note that it has ended; how, and what that means, where it did not say that it was done or is waited for."""
        self.ended, self.on_gpu_until = True, time.monotonic() + _LISTED_SEC
        code = self.process.returncode
        if self.lost or (code == 0 and self.done):
            return None
        text, means = faults.death(code, self.stage)
        last_line_text = faults.one_line(self.last_line())
        return f"{text} while {self.text}" + (f"; its last words: {last_line_text}" if last_line_text else ""), means

    def last_line(self) -> str:
        """The last thing that it, or a library in it, printed."""
        lines = self._output_tail.decode("utf-8", "replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "")

    def kill(self) -> None:
        """Kill it and what it started; returns at once, dead or not."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of its pipes, and of itself if it still runs."""
        if self.process.poll() is None:
            self.kill()
        self._write(b"")
        os.close(self.events)
        os.close(self.output)

    def _write(self, line: bytes) -> None:
        """An order is shorter than what a pipe holds, so this never waits; without one, the end of all orders."""
        orders = self.process.stdin
        with contextlib.suppress(OSError):  # it has died, which its end tells
            if orders and line:
                orders.write(line)
                orders.flush()
            elif orders:
                orders.close()
