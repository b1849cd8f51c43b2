"""The receipt: the JSON report of a run (schema smoke/1).

The file on disk is always complete JSON with the results so far.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Iterator
from typing import Any

from . import __version__, checks, faults, output
from .checks import Check
from .options import Options
from .output import unwritable
from .reports import message, reason, safe_line, table, write

SCHEMA = "smoke/1"
UNFINISHED = "the check has not ended; if it no longer runs, it was killed"


class Receipt:
    """The results of one run. An empty receipt has the verdict `incomplete`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.checks: list[Check] = []
        self.torch: dict[str, Any] = {}
        self.devices: list[dict[str, Any]] = []
        self.products: list[dict[str, Any]] = []
        self.measured: list[dict[str, Any]] = []
        machine = {"kernel": platform.release(), "machine": platform.machine(), "python": platform.python_version()}
        self.host: dict[str, Any] = machine
        self.verdict, self.summary = "incomplete", UNFINISHED
        self.exit_code: int | None = None
        self.started, self.clock = time.time(), time.monotonic()
        self.ended: float | None = None
        self._path = "" if options.json == "-" else options.json

    def open(self) -> None:
        """Write the first receipt and message, so that an unwritable path is an error before the GPUs are used."""
        for option, path, text in self._files():
            try:
                write(path, text)
            except (OSError, ValueError) as error:
                raise unwritable(option, path, error) from None

    def add(self, *found: Check) -> None:
        """Add checks and save the receipt."""
        self.checks += found
        self.save()

    def save(self, *, finished: bool = False) -> list[str]:
        """Write the receipt, and the message of a finished run. Returns the errors of files that cannot be written."""
        errors = []
        for option, path, text in self._files():
            try:
                if finished or option == "--json":
                    write(path, text)
            except (OSError, ValueError) as error:
                errors.append(f"{option} {path}: {reason(error)}")
        return errors

    def has_failed(self) -> bool:
        """Return True if a check has failed, so that further checks are pointless. Slow speeds do not count."""
        return any(check.severity != faults.PERF for check in checks.bad(self.checks))

    def finish(self) -> int:
        """Decide the verdict, write all reports, and return the exit code."""
        if self.options.strict:
            self.checks = [checks.strict(check) for check in self.checks]
        self._decide()
        self._fail_if_unwritten(self.save(finished=True))
        if self.options.json == "-" and (error := output.put(sys.stdout, self.text())):
            self._fail_if_unwritten([f"--json -: {reason(error)}"])
        output.say(table(self.record()))
        return self._decide()

    def _files(self) -> Iterator[tuple[str, str, str]]:
        """Return the option, the path and the content of each file."""
        if self._path:
            yield "--json", self._path, self.text()
        if path := self.options.termination_log:
            yield "--termination-log", path, message(self.record())

    def _fail_if_unwritten(self, errors: list[str]) -> None:
        """Fail the run if a report could not be written. The others are written again: none may show a pass."""
        if errors:
            means = faults.Meaning(faults.ENV, faults.NONE, "the disk may be full, or the folder was removed")
            self.checks += [checks.failure("report", f"cannot be written: {safe_line(text)}", means) for text in errors]
            self._decide()
            self.save(finished=True)

    def text(self) -> str:
        """Return the receipt as JSON, with workflow commands of GitHub escaped, because it may go to a log."""
        return json.dumps(self.record(), indent=2, allow_nan=False).replace("##[", "\\u0023#[") + "\n"

    def record(self) -> dict[str, Any]:
        """Return the receipt as a dictionary."""
        options, wrong = self.options, checks.bad(self.checks)
        return {
            "schema": SCHEMA,
            "ok": self.verdict == "pass",
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "summary": self.summary,
            "action": wrong[0].action if wrong else faults.NONE,
            "device": options.device,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started)),
            "seconds": round((self.ended or time.monotonic()) - self.clock, 3),
            "budget_seconds": options.budget_sec(len(self.devices)),
            "profile": options.profile,
            "tool": __version__,
            "pool": {"name": options.pool, "node": options.node},
            "expected": {
                "gpus": options.expect_gpus,
                "name": options.expect_gpu,
                "min_compute_capability": options.min_compute_capability,
            },
            "host": self.host,
            "torch": self.torch,
            "gpus": [] if options.on_cpu else self.devices,
            "products": self.products,
            "measured": self.measured,
            "checks": [check.record() for check in self.checks],
        }

    def _decide(self) -> int:
        self.ended = time.monotonic()
        wrong = checks.bad(self.checks)
        self.exit_code = code = checks.EXIT_CODES[wrong[0].severity] if wrong else 0
        self.verdict = "fail" if wrong else "pass"
        self.summary = checks.summary(self.options, self.devices, self.checks)
        return code
