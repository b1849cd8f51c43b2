"""The command `gpu-smoke diagnose`: run all probes and report their findings."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import __version__, checks, faults, machine, options, output
from ..checks import BAD, FAIL, PASS, SKIP, WARN
from ..options import Parser
from ..output import unwritable
from ..reports import write
from ..workers.parent import EventLoop, stop_signals
from ..workers.process import Group, WorkerProcess
from . import driver, environment, machine_files
from .finding import PROBES, Finding, finding_of

SCHEMA = "smoke-diagnose/1"
COMMAND = "gpu-smoke diagnose"
DEADLINE_SEC = 120.0
_EPILOG = """\
exit codes:
  0   no failure was found; there may be warnings
  1   a GPU is broken
  2   the environment: no GPU in the container, driver, libraries, variables or torch
  4   the driver or torch did not answer in time
  64  wrong usage

examples:
  gpu-smoke diagnose                      in a pod, a container, a workflow's job, or on the machine
  gpu-smoke diagnose --json - | jq '.checks[] | select(.status == "fail") | .next'
"""


def main(argv: Sequence[str]) -> int:
    """Diagnose the machine and return the exit code. Raises UsageError for a wrong command line."""
    given = vars(_parser().parse_args(list(argv)))
    path = given.get("json", "")
    if path not in ("", "-"):
        _write(path, "")
    try:
        return _run(path, given.get("deadline_sec", DEADLINE_SEC))
    except Exception as error:  # Python would exit with 1, the code for a broken GPU
        output.say(f"{COMMAND}: the diagnosis itself failed: {type(error).__name__}: {error}")
        return checks.EXIT_CODES[faults.ENV]


def _run(path: str, deadline_sec: float) -> int:
    began, where = time.monotonic(), machine_files.place(os.environ)
    findings = [
        *machine_files.findings(os.environ),
        *environment.findings(os.environ, where != "machine"),
        *machine_files.log_findings(),
    ]
    with stop_signals() as stopped:
        has_no_gpu, deadline = machine_files.has_no_gpu(where), began + deadline_sec
        loop = EventLoop(lambda on_start: ProbeGroup(on_start, has_no_gpu, deadline, f"{deadline_sec:g} s"))
        try:
            loop.run(stopped)
            findings += loop.group.findings
            code = _report(findings, where, path)
            unkillable = loop.kill_remaining()
        finally:
            loop.close()
    if unkillable:
        os._exit(code)  # an ordinary exit could wait for a process inside the driver
    return code


def _report(findings: list[Finding], where: str, path: str) -> int:
    findings.sort(key=lambda finding: [*PROBES].index(finding.check.id))  # workers answer in any order
    bad = checks.bad(finding.check for finding in findings)
    code = checks.EXIT_CODES[bad[0].severity] if bad else 0
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    summary = f"{bad[0].message}{more}" if bad else "nothing wrong was found"
    order = {FAIL: 0, checks.ERROR: 0, WARN: 1, PASS: 2, SKIP: 3}
    worst = [id(check) for check in bad]
    findings.sort(key=lambda f: (order[f.check.status], worst.index(id(f.check)) if f.check.status in BAD else 0))
    record = {
        "schema": SCHEMA,
        "ok": not bad,
        "exit_code": code,
        "summary": summary,
        "action": bad[0].action if bad else faults.NONE,
        "place": where,
        "tool": __version__,
        "checks": [finding.record() for finding in findings],
    }
    if path == "-":
        output.put(sys.stdout, json.dumps(record, indent=2) + "\n")
    else:
        _write(path, json.dumps(record, indent=2) + "\n") if path else None
        output.put(sys.stdout, "\n".join([*_lines(findings), f"{COMMAND}: {faults.one_line(summary)}"]) + "\n")
    return code


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        check = finding.check
        on = f" GPU {check.gpu}" if check.gpu is not None else ""
        yield f"{check.status:<5} {check.id}{on}: {faults.one_line(check.message)}"
        if check.status in (*BAD, WARN):
            yield f"      looked at: {finding.looked_at}"
            yield from (
                f"      {name}: {text}" for name, text in (("hint", check.hint), ("next", finding.next)) if text
            )


def _write(path: str, text: str) -> None:
    try:
        write(path, text)
    except (OSError, ValueError) as error:
        raise unwritable("--json", path, error, COMMAND) from None


def _parser() -> Any:
    about = "Find out why a GPU cannot be used here: the sources, the findings, and the command to run next."
    parser = Parser(
        prog=COMMAND,
        description=about,
        epilog=_EPILOG,
    )
    parser.add_argument("--json", metavar="PATH|-", help="write the findings here; - is standard output")
    parser.add_argument(
        "--deadline-sec",
        metavar="SEC",
        type=options.seconds,
        help=f"when to stop waiting for the driver and torch (default: {DEADLINE_SEC:g})",
    )
    return parser


class ProbeGroup(Group):
    """The worker processes of a diagnosis, for the event loop of workers/parent.py.

    The first worker starts NVML. The second starts CUDA and then torch. If CUDA fails, a third worker only imports
    torch.
    """

    def __init__(
        self, on_start: Callable[[WorkerProcess], None], has_no_gpu: bool, deadline: float, time_limit_text: str
    ) -> None:
        super().__init__(on_start)
        self.deadline, self.time_limit_text = deadline, time_limit_text
        self._has_no_gpu = has_no_gpu
        self.findings: list[Finding] = []
        self._torch: dict[str, Any] = {}
        self._names: list[str] = []
        self.start("nvml", 0, {})
        self.start("first", 0, {"device": "cuda"})

    def advance(self) -> bool:
        """Start the work that can start now. Returns False if the diagnosis is over."""
        for worker in self.processes:
            if worker.idle:
                self._ready(worker)
        if any(not worker.gone for worker in self.processes):
            return True
        if self._torch or len(self.processes) > 2 or self._import_tried():
            return False
        self.start("host", 0, {})
        return True

    def stop_waiting(self, worker: WorkerProcess, reason: str) -> None:
        """Stop waiting for a worker. It is killed after the report."""
        worker.abandoned = True
        stage = "stopped" if reason.startswith("stopped") else worker.stage
        means = faults.hang(stage, on_cpu=worker.role == "host")
        self.findings.append(finding_of(checks.failure("deadline", f"{reason} while {worker.text}", means)))

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
