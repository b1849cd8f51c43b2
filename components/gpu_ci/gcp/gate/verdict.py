"""What a gate learns of its machine: the verdict, and until there is one the step that the machine is at."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass

VERDICT_KEY = "gpu-smoke/verdict"
"""The guest attribute, as agent/gpu_agent/report.py publishes it."""

PASS, FAIL, NO_CAPACITY, CANCELLED = "pass", "fail", "no-capacity", "cancelled"

NO_VERDICT = "no-verdict"
"""The gate's own reason, beside those of the machine."""

STEPS = {
    "config": "it read what it is told",
    "driver": "it waited for its driver",
    "check": "it checked its GPU, or installed torch for that",
    "key": "it asked Secret Manager for the App's key",
    "runner": "it fetched the runner and made its cage",
    "register": "it asked GitHub whether it would take a runner",
}
"""What a check machine does in each step that it names."""

# Google's startup-script runner may put its name in front; what a program printed has a bar there, and is no verdict.
_RESULT = re.compile(r"^[^|\n]*SMOKE-RESULT ([A-Za-z0-9+/=]+)", re.MULTILINE)
_STEP_LINE = re.compile(r"^[^|\n]*GPU-AGENT-STEP (\{[^\n]*\})", re.MULTILINE)
# A step goes into a line that people read: what a machine publishes may be anything.
_STEP = re.compile(r"[a-z][a-z-]{0,30}")


@dataclass(frozen=True)
class Verdict:
    """The answer: pass, fail, no-capacity or cancelled; where it ran, and in whose words."""

    outcome: str
    summary: str
    zone: str = ""
    reason: str = ""
    """The machine's own word for how it ended, where it said one (agent/gpu_agent/outcomes.py)."""


def from_guest_attribute(answer: str, zone: str) -> Verdict:
    """The verdict in a guest attribute; a fail where it is none."""
    try:
        document = json.loads(answer)
        outcome = PASS if document["verdict"] == "pass" else FAIL
        return Verdict(outcome, str(document["summary"]), zone, str(document.get("reason", "")))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Verdict(FAIL, f"the check machine published something that is no verdict: {answer[:200]}", zone)


def from_serial_log(serial: str, zone: str) -> Verdict | None:
    """The last verdict on a serial port that is whole, where there is one.

    The port has other writers too, such as the kernel, and an answer may end within a line.
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
    """The name of the last step on a serial port, or nothing."""
    steps = _STEP_LINE.findall(serial)
    return current_step(steps[-1]) if steps else ""


def current_step(answer: str) -> str:
    """The step's name in the JSON that an agent reports, or nothing."""
    try:
        name = json.loads(answer)["step"]
    except (ValueError, KeyError, TypeError):
        return ""
    return name if isinstance(name, str) and _STEP.fullmatch(name) else ""
