"""Run the probes of the driver and torch in separate processes, so that a hang does not block the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import checks, faults, machine
from ..workers.process import WorkerProcess
from . import driver
from .finding import Finding, finding_of


class ProbeGroup:
    """The worker processes of a diagnosis, for the event loop of workers/parent.py.

    The first worker starts NVML. The second starts CUDA and then torch. If CUDA fails, a third worker only imports
    torch.
    """

    def __init__(
        self, on_start: Callable[[WorkerProcess], None], has_no_gpu: bool, deadline: float, time_limit_text: str
    ) -> None:
        self.deadline, self.time_limit_text = deadline, time_limit_text
        self._has_no_gpu = has_no_gpu
        self.processes: list[WorkerProcess] = []
        self.findings: list[Finding] = []
        self._on_start = on_start
        self._torch: dict[str, Any] = {}
        self._names: list[str] = []
        self._start("nvml", {})
        self._start("first", {"device": "cuda"})

    def advance(self) -> bool:
        """Start the work that can start now. Returns False if the diagnosis is over."""
        for worker in self.processes:
            if worker.idle:
                self._ready(worker)
        if any(not worker.gone for worker in self.processes):
            return True
        if self._torch or len(self.processes) > 2 or self._import_tried():
            return False
        self._start("host", {})
        return True

    def overdue(self, now: float) -> list[WorkerProcess]:
        """Return the workers that exceeded their time limit."""
        return [worker for worker in self.processes if not worker.gone and now >= worker.deadline]

    def stop_waiting(self, worker: WorkerProcess, reason: str) -> None:
        """Stop waiting for a worker. It is killed after the report."""
        worker.abandoned = True
        stage = "stopped" if reason.startswith("stopped") else worker.stage
        means = faults.hang(stage, on_cpu=worker.role == "host")
        self.findings.append(finding_of(checks.failure("deadline", f"{reason} while {worker.text}", means)))

    def stop_waiting_for_all(self, reason: str) -> None:
        """Stop waiting for all workers."""
        for worker in self.processes:
            if not worker.gone:
                self.stop_waiting(worker, reason)

    def handle_event(self, worker: WorkerProcess, event: dict[str, Any]) -> None:
        """Handle one event of a worker."""
        kind = event.pop("event")
        if kind == "stage":
            worker.begin_step(**event)
        elif kind == "nvml":
            self.findings += driver.nvml(event)
        elif kind == "libcuda":
            self.findings += driver.library(machine.driver(), event, self._has_no_gpu)
        elif kind == "torch":
            self._torch = event
            self.findings.append(driver.torch(event))
        elif kind == "host":
            self._names = event["arch_list"]
        elif kind == "devices":
            self.findings += driver.devices(event, self._torch["version"], self._names)
        elif kind == "ready":
            worker.ready()
        elif kind == "fault":
            self._handle_fault(worker, event)
        elif kind == "done":
            worker.done = True

    def handle_end(self, worker: WorkerProcess) -> None:
        """Handle the end of a process."""
        if failed := worker.handle_exit():
            self.findings.append(finding_of(checks.failure("child", *failed)))

    def close(self) -> None:
        """Release all resources."""
        for worker in self.processes:
            worker.close()

    def _start(self, role: str, given: dict[str, Any]) -> None:
        worker = WorkerProcess(role, 0, given)
        self.processes.append(worker)
        self._on_start(worker)

    def _ready(self, worker: WorkerProcess) -> None:
        if worker.role == "host":
            self.findings.append(finding_of(checks.Check("torch.import", checks.PASS, "torch can be imported")))
        worker.end_tasks()

    def _handle_fault(self, worker: WorkerProcess, event: dict[str, Any]) -> None:
        message = event["message"] or event["type"]
        if worker.check_id == "torch.import" and not machine.torch().version:
            text = "this Python has no torch to check"
            self.findings.append(finding_of(checks.Check("torch.import", checks.SKIP, text)))
            return
        self.findings.append(driver.fault(worker.check_id, worker.text, message, worker.stage))

    def _import_tried(self) -> bool:
        """Return True if a worker already tried to import torch, or has ended or hung before."""
        tried = ("torch.import", "deadline", "child")
        return any(finding.check.id in tried for finding in self.findings)
