"""The receipt (schema smoke/1): what was found so far is on disk at every moment, and half a receipt never is."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from . import __version__, checks, faults, report
from .checks import Check
from .options import Options, usage_error

SCHEMA = "smoke/1"
UNFINISHED = "the check has not ended; if it no longer runs, it was killed"


class Receipt:
    """What one run found; it starts with nothing, which is no pass."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.checks: list[Check] = []
        self.torch: dict[str, Any] = {}
        self.devices: list[dict[str, Any]] = []
        self.products: list[dict[str, Any]] = []
        machine = {"kernel": platform.release(), "machine": platform.machine(), "python": platform.python_version()}
        self.host: dict[str, Any] = machine
        self.verdict, self.summary = "incomplete", UNFINISHED
        self.exit_code: int | None = None
        self.started, self.clock = time.time(), time.monotonic()
        self._path = "" if options.json == "-" else options.json
        self._lost = ""

    def open(self) -> None:
        """Write the first form, so that a place that cannot be written to is found before the GPUs are kept busy."""
        log = self.options.termination_log
        for option, path, text in (("--json", self._path, self.text()), ("--termination-log", log, UNFINISHED + "\n")):
            try:
                if path:
                    write(path, text)
            except (OSError, ValueError) as error:
                problem = f"cannot be written ({getattr(error, 'strerror', None) or error})"
                raise usage_error(option, problem, path, "a file in a folder that exists and is yours") from None

    def add(self, *found: Check) -> None:
        """Keep what was found, on disk too."""
        self.checks += found
        self.save()

    def save(self) -> None:
        """Write what is known so far."""
        self._write(self._path, self.text())

    def finish(self) -> int:
        """Decide, write the verdict everywhere it was asked for, and return the exit code."""
        code = self._decide()
        self.save()
        self._write(self.options.termination_log, report.message(self.summary, checks.bad(self.checks)))
        if self._lost:  # whoever waits for a receipt must not be told of a pass that has none
            means = faults.Meaning(faults.ENV, faults.NONE, "the disk may be full")
            self.checks.append(checks.failure("receipt", f"cannot be written: {self._lost}", means))
            code = self._decide()
        if self.options.json == "-":
            report.put(sys.stdout, self.text())
        report.say(report.table(self.options.device, self.checks, self.summary))
        return code

    def text(self) -> str:
        """The receipt as it stands."""
        options, wrong = self.options, checks.bad(self.checks)
        record = {
            "schema": SCHEMA,
            "ok": self.verdict == "pass",
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "summary": self.summary,
            "action": wrong[0].action if wrong else faults.NONE,
            "device": options.device,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started)),
            "seconds": round(time.monotonic() - self.clock, 3),
            "budget_seconds": options.deadline_sec,
            "tool": __version__,
            "pool": {"name": options.pool},
            "expected": {
                "gpus": options.expect_gpus,
                "name": options.expect_gpu,
                "min_compute_capability": options.min_compute_capability,
            },
            "host": self.host,
            "torch": self.torch,
            "gpus": [] if options.on_cpu else self.devices,
            "products": self.products,
            "checks": [check.record() for check in self.checks],
        }
        return json.dumps(record, indent=2, allow_nan=False) + "\n"

    def _decide(self) -> int:
        wrong = checks.bad(self.checks)
        self.exit_code = code = checks.EXIT_CODES[wrong[0].severity] if wrong else 0
        self.verdict = "fail" if wrong else "pass"
        self.summary = checks.summary(self.options, self.devices, self.checks)
        return code

    def _write(self, path: str, text: str) -> None:
        try:
            if path:
                write(path, text)
        except OSError as error:
            self._lost = f"{path}: {error.strerror}"


def write(name: str, text: str) -> None:
    """Write a whole file or none: beside it first, then in its place. What cannot be replaced is written as it is."""
    path = Path(name)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        if path.exists() and not path.is_file():
            raise OSError  # a pipe, /dev/stderr: it must stay what it is
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        if not path.exists():
            raise
        path.write_text(text, encoding="utf-8")  # also a file mounted by itself, as /dev/termination-log is
