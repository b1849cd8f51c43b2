"""Run the probes of the driver and torch in separate processes, so that a hang does not block the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import checks, faults, machine
from ..workers.process import Child
from . import driver
from .finding import Finding, found


class Asked:
    """The processes of a diagnosis: NVML in one; CUDA, then torch in a second; only torch in a third if CUDA failed."""

    def __init__(self, started: Callable[[Child], None], left_out: bool, deadline: float, within: str) -> None:
        self.deadline, self.within = deadline, within
        self._left_out = left_out
        self.children: list[Child] = []
        self.findings: list[Finding] = []
        self._started = started
        self._torch: dict[str, Any] = {}
        self._names: list[str] = []
        self._start("nvml", {})
        self._start("first", {"device": "cuda"})

    def going(self) -> bool:
        """Return True if the diagnosis is not over."""
        for child in self.children:
            if child.idle:
                self._ready(child)
        if any(not child.gone for child in self.children):
            return True
        if self._torch or len(self.children) > 2 or self._failed():
            return False
        self._start("host", {})
        return True

    def late(self, now: float) -> list[Child]:
        """Return the workers that exceeded their time limit."""
        return [child for child in self.children if not child.gone and now >= child.deadline]

    def lose(self, child: Child, reason: str) -> None:
        """Stop waiting for a worker. It is killed after the report."""
        child.lost = True
        stage = "stopped" if reason.startswith("stopped") else child.stage
        means = faults.hang(stage, on_cpu=child.role == "host")
        self.findings.append(found(checks.failure("deadline", f"{reason} while {child.text}", means)))

    def give_up(self, reason: str) -> None:
        """Stop waiting for all workers."""
        for child in self.children:
            if not child.gone:
                self.lose(child, reason)

    def hear(self, child: Child, event: dict[str, Any]) -> None:
        """Handle one event of a worker."""
        kind = event.pop("event")
        if kind == "stage":
            child.enters(**event)
        elif kind == "nvml":
            self.findings += driver.nvml(event)
        elif kind == "libcuda":
            self.findings += driver.library(machine.driver(), event, self._left_out)
        elif kind == "torch":
            self._torch = event
            self.findings.append(driver.torch(event))
        elif kind == "host":
            self._names = event["arch_list"]
        elif kind == "devices":
            self.findings += driver.devices(event, self._torch["version"], self._names)
        elif kind == "ready":
            child.ready()
        elif kind == "fault":
            self._fault(child, event)
        elif kind == "done":
            child.done = True

    def ended(self, child: Child) -> None:
        """Handle the end of a process."""
        if died := child.death():
            self.findings.append(found(checks.failure("child", *died)))

    def close(self) -> None:
        """Release all resources."""
        for child in self.children:
            child.close()

    def _start(self, role: str, given: dict[str, Any]) -> None:
        child = Child(role, 0, given)
        self.children.append(child)
        self._started(child)

    def _ready(self, child: Child) -> None:
        if child.role == "host":
            self.findings.append(found(checks.Check("torch.import", checks.PASS, "torch can be imported")))
        child.dismiss()

    def _fault(self, child: Child, event: dict[str, Any]) -> None:
        message = event["message"] or event["type"]
        if child.what == "torch.import" and not machine.torch().version:
            text = "this Python has no torch to check"
            self.findings.append(found(checks.Check("torch.import", checks.SKIP, text)))
            return
        self.findings.append(driver.fault(child.what, child.text, message, child.stage))

    def _failed(self) -> bool:
        """Return True if the import of torch was already tried."""
        tried = ("torch.import", "deadline", "child")
        return any(finding.check.id in tried for finding in self.findings)
