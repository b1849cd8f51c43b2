"""Parses the reports of a check machine: the verdict, and the current step of the boot agent.

On the serial port, a line with SMOKE-RESULT has the verdict, and a line with GPU-AGENT-STEP has the current step.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass

VERDICT_KEY = "gpu-smoke/verdict"
"""The guest attribute of the verdict. agent/gpu_agent/report.py publishes it."""

PASS, FAIL, NO_CAPACITY, CANCELLED = "pass", "fail", "no-capacity", "cancelled"

NO_VERDICT = "no-verdict"
"""The gate's reason if the machine reported no verdict. The other reasons come from the machine."""

STEPS = {
    "config": "it read its configuration",
    "driver": "it waited for its driver",
    "check": "it checked its GPU, or installed torch for the check",
    "key": "it read the App's key from Secret Manager",
    "runner": "it downloaded the runner and set up its isolation",
    "register": "it checked that GitHub accepts its runner",
}
"""A description of each step that a check machine reports."""

# Google's program that runs startup scripts may add its name before the text of the boot agent. The agent writes a bar
# ("|") before the output of other programs. So a line with a bar before the keyword is not a report.
_RESULT = re.compile(r"^[^|\n]*SMOKE-RESULT ([A-Za-z0-9+/=]+)", re.MULTILINE)
_STEP_LINE = re.compile(r"^[^|\n]*GPU-AGENT-STEP (\{[^\n]*\})", re.MULTILINE)
# Messages contain the step. A machine may report any text, so only short names of lower case letters are accepted.
_STEP = re.compile(r"[a-z][a-z-]{0,30}")


@dataclass(frozen=True)
class Verdict:
    """The result of a check: the outcome, a summary and the zone."""

    outcome: str
    summary: str
    zone: str = ""
    reason: str = ""
    """The reason that the machine reported, if any (agent/gpu_agent/outcomes.py)."""
    zones_available: tuple[str, ...] = ()
    """Other zones that Google named as available, if no zone had capacity."""


def from_guest_attribute(answer: str, zone: str) -> Verdict:
    """Return the verdict in a guest attribute. A malformed verdict counts as failed."""
    try:
        document = json.loads(answer)
        outcome = PASS if document["verdict"] == "pass" else FAIL
        return Verdict(outcome, str(document["summary"]), zone, str(document.get("reason", "")))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Verdict(FAIL, f"the check machine published a malformed verdict: {answer[:200]}", zone)


def from_serial_log(serial: str, zone: str) -> Verdict | None:
    """Return the last complete verdict on a serial port, if there is one.

    Lines that are not complete verdicts are skipped: other programs, such as the kernel, write to the port, too. And
    the API may return a line in two answers.
    """
    for result in reversed(_RESULT.findall(serial)):
        try:
            text = base64.b64decode(result, validate=True).decode()
            json.loads(text)
        except (ValueError, RecursionError):
            continue
        return from_guest_attribute(text, zone)
    return None


def last_step(serial: str) -> str:
    """Return the name of the last step on a serial port, or ""."""
    steps = _STEP_LINE.findall(serial)
    return current_step(steps[-1]) if steps else ""


def current_step(answer: str) -> str:
    """Return the step's name from the agent's JSON, or ""."""
    try:
        name = json.loads(answer)["step"]
    except (ValueError, KeyError, TypeError):
        return ""
    return name if isinstance(name, str) and _STEP.fullmatch(name) else ""
