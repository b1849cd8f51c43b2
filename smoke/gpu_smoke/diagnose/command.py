"""The command `gpu-smoke diagnose`: run all probes and report their findings."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from .. import __version__, checks, faults, options, output
from ..checks import BAD, FAIL, PASS, SKIP, WARN
from ..options import Parser
from ..output import unwritable
from ..reports import write
from ..workers.parent import EventLoop, stop_signals
from . import environment, kernel_log, machine_files
from .finding import PROBES, Finding
from .probes import ProbeGroup

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
        *kernel_log.findings(),
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
