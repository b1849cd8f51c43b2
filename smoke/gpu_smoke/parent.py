"""The parent: it touches no GPU and imports no torch, so whatever hangs, the verdict is out in time."""

from __future__ import annotations

import contextlib
import os
import platform
import selectors
import signal
import time
from collections.abc import Iterator
from typing import Any

from . import checks, compat, faults, report
from .options import Options
from .process import Child
from .receipt import Receipt

TICK_SEC = 0.05
READS = 64  # of 64 KiB: a grandchild may hold the pipe of a dead child and write for ever
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_SEC = 3.0  # for what was killed to be gone; a process in the driver's hands may never be


def run(options: Options, receipt: Receipt) -> int:
    """Check every device, decide, and only then deal with what hangs."""
    with _stops() as stopped:
        watch = _Watch(options, receipt)
        try:
            reason = watch.until(receipt.clock + options.deadline_sec, stopped)
            code = watch.decide(reason)
            left = watch.end()
        finally:
            watch.close()
    if left:
        pids = ", ".join(str(child.process.pid) for child in left)
        text = f"process {pids} outlived SIGKILL: it waits inside the driver, and only a reboot ends it"
        receipt.host["unkillable"] = [child.process.pid for child in left]
        receipt.save()
        report.say(f"gpu-smoke: {text}")
        # An ordinary exit could wait for it.
        os._exit(code)
    return code


@contextlib.contextmanager
def _stops() -> Iterator[list[int]]:
    """Signals that end the run; they are noted, so that it ends with a verdict."""
    seen: list[int] = []
    before = {number: signal.signal(number, lambda n, _: seen.append(n)) for number in STOPS}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Watch:
    """Every child and what it tells."""

    def __init__(self, options: Options, receipt: Receipt) -> None:
        self.options = options
        self.receipt = receipt
        self.children: list[Child] = []
        self.selector = selectors.DefaultSelector()
        self.start(0)

    def start(self, index: int, known: str = "") -> None:
        """Start the child of one device."""
        child = Child(self.options.device, index, known)
        self.children.append(child)
        for pipe in (child.events, child.output):
            self.selector.register(pipe, selectors.EVENT_READ, child)

    def until(self, deadline: float, stopped: list[int]) -> str:
        """Listen until every child has ended; else say why the rest is not waited for."""
        while any(not child.ended for child in self.children):
            if stopped:
                return f"stopped by {signal.Signals(stopped[0]).name}"
            left = deadline - time.monotonic()
            if left <= 0:
                return f"no answer within {self.options.deadline_sec:g} s"
            for key, _ in self.selector.select(min(TICK_SEC, left)):
                self._read(key.data, key.fd)
            for child in [child for child in self.children if not child.ended and child.process.poll() is not None]:
                self._last_words(child)
        return ""

    def decide(self, reason: str) -> int:
        """The verdict, written everywhere, while what hangs still hangs."""
        for child in self.children:
            if not child.ended:
                self.receipt.add(self._hung(child, reason))
        if not checks.bad(self.receipt.checks):
            self.receipt.add(*checks.complete(self.options, self.receipt.devices, self.receipt.checks))
        return self.receipt.finish()

    def end(self) -> list[Child]:
        """Kill what still runs and wait a little; returns what cannot be killed."""
        left = [child for child in self.children if not child.ended]
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
        for child in self.children:
            child.close()

    def _read(self, child: Child, pipe: int) -> bool:
        """Take what the pipe holds; False when there is nothing more now."""
        data = child.read(pipe)
        if data == b"":
            self.selector.unregister(pipe)
        elif data and pipe == child.events:
            for event in child.heard(data):
                self._event(child, event)
        return bool(data)

    def _last_words(self, child: Child) -> None:
        """What a child left in its pipes, and how it ended."""
        for pipe in (child.events, child.output):
            for _ in range(READS):
                if pipe not in self.selector.get_map() or not self._read(child, pipe):
                    break
        child.ended = True
        code = child.process.returncode
        if code == 0 and child.done:
            return
        text, means = faults.death(code, child.stage)
        said = faults.one_line(child.last_line())
        text += f" while {child.text}" + (f"; its last words: {said}" if said else "")
        self.receipt.add(self._broken(child, "child", text, means))

    def _event(self, child: Child, event: dict[str, Any]) -> None:
        kind = event.pop("event")
        receipt, options = self.receipt, self.options
        if kind == "stage":
            child.stage, child.text = event["stage"], event["text"]
            report.say(f"gpu-smoke: {checks.place(options.device, child.index)}: {child.text}")
        elif kind == "torch":
            receipt.torch = event
            receipt.add(checks.torch_build(options, event))
        elif kind == "host":
            receipt.host["driver"] = event["driver"]
            receipt.torch["arch_list"] = event["arch_list"]
        elif kind == "devices":
            receipt.devices = event["devices"]
            receipt.add(*checks.devices(options, receipt.devices, event["message"]))
            for device in receipt.devices[1:]:
                self.start(device["index"], device.get("cc", ""))
        elif kind == "product":
            receipt.products.append({"gpu": self._gpu(child), **event})
            receipt.add(*checks.product(options, child.index, event))
        elif kind == "fault":
            receipt.add(self._fault(child, event))
        elif kind == "done":
            child.done, child.stage, child.text = True, "end", "leaving torch"

    def _fault(self, child: Child, event: dict[str, Any]) -> checks.Check:
        """An error that torch raised."""
        said = faults.one_line(event["message"]) or event["type"]
        means = faults.meaning(event["message"], child.stage)
        what = {"import": "torch.import", "devices": "gpu.init"}.get(child.stage, "gemm.run")
        if means.action in (faults.FIX_IMAGE, faults.FIX_DRIVER):
            means = means._replace(hint="; ".join(filter(None, (means.hint, self._advice(child)))))
        return self._broken(child, what, f"{child.text} failed: {said}", means)

    def _advice(self, child: Child) -> str:
        """What would work on this GPU, where the machine has told enough about itself."""
        receipt, known = self.receipt, {device["index"]: device.get("cc", "") for device in self.receipt.devices}
        cc, torch = known.get(child.index, ""), receipt.torch.get("version", "")
        return compat.advice(cc, receipt.host.get("driver", ""), torch, platform.machine()) if cc and torch else ""

    def _hung(self, child: Child, reason: str) -> checks.Check:
        stage = "stopped" if reason.startswith("stopped") else child.stage
        means = faults.hang(stage, on_cpu=self.options.on_cpu)
        return self._broken(child, "deadline", f"{reason} while {child.text}", means)

    def _broken(self, child: Child, what: str, text: str, means: faults.Meaning) -> checks.Check:
        """A check that came to no result; before a kernel ran, no GPU is to blame by name."""
        on = f"{checks.place(self.options.device, child.index)}: " if child.stage in ("kernel", "end") else ""
        return checks.failure(what, f"{on}{text}", means, status=checks.ERROR, gpu=self._gpu(child))

    def _gpu(self, child: Child) -> int | None:
        return None if self.options.on_cpu else child.index
