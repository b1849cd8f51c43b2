"""The reports of a check machine to its gate: the verdict, and before that the current step.

On the serial port, a line with SMOKE-RESULT has the verdict, and a line with GPU-AGENT-STEP the current step.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass

VERDICT_KEY = "gpu-smoke/verdict"
"""The guest attribute that agent/gpu_agent/report.py publishes."""

PASS, FAIL, NO_CAPACITY, CANCELLED = "pass", "fail", "no-capacity", "cancelled"

NO_VERDICT = "no-verdict"
"""The gate's reason if the machine reported no verdict. The other reasons come from the machine."""

STEPS = {
    "config": "it read its configuration",
    "driver": "it waited for its driver",
    "check": "it checked its GPU, or installed torch for the check",
    "key": "it read the App's key from Secret Manager",
    "runner": "it downloaded the runner and set up its isolation",
    "register": "it asked GitHub whether it accepts a runner",
}
"""A description of each step that a check machine reports."""

# Google's startup-script runner may add its name before the text of the agent. The agent writes a bar before the output
# of other programs, so a line with a bar there is not a report.
_RESULT = re.compile(r"^[^|\n]*SMOKE-RESULT ([A-Za-z0-9+/=]+)", re.MULTILINE)
_STEP_LINE = re.compile(r"^[^|\n]*GPU-AGENT-STEP (\{[^\n]*\})", re.MULTILINE)
# A machine may report any text as its step, and messages contain the step, so its characters are limited.
_STEP = re.compile(r"[a-z][a-z-]{0,30}")


@dataclass(frozen=True)
class Verdict:
    """The result of a check: the outcome, a summary and the zone."""

    outcome: str
    summary: str
    zone: str = ""
    reason: str = ""
    """The reason that the machine reported, if any (agent/gpu_agent/outcomes.py)."""


def from_guest_attribute(answer: str, zone: str) -> Verdict:
    """Return the verdict from a guest attribute. Return a fail for a malformed one."""
    try:
        document = json.loads(answer)
        outcome = PASS if document["verdict"] == "pass" else FAIL
        return Verdict(outcome, str(document["summary"]), zone, str(document.get("reason", "")))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Verdict(FAIL, f"the check machine published a malformed verdict: {answer[:200]}", zone)


def from_serial_log(serial: str, zone: str) -> Verdict | None:
    """Return the last complete verdict on a serial port, if there is one.

    Other programs, such as the kernel, write to the port too, and an answer may end within a line.
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
