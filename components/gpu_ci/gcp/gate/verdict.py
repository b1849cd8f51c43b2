"""Reads the reports of a check machine: the verdict, and the current step of the boot agent.

The machine prints its progress and its verdict on the serial port, and writes the verdict as a guest attribute, too. On
the serial port, a line with SMOKE-RESULT has the verdict, and a line with GPU-AGENT-STEP has the current step. An
organization policy may forbid one of these two sources. The channel then reads only the source that is allowed, within
Google's rate limits.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from gpu_common.secret_patterns import redact
from gpu_common.visible import visible

from .compute_api import ApiError, ComputeApi

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

SERIAL_PORT, GUEST_ATTRIBUTES = "the serial port", "guest attributes"

# Google allows "At most 10 queries a minute" of the guest attributes of a VM, including queries of Google's own agents.
# If there are more queries, Google may drop the values that the machine writes
# (docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes). The gate makes 5 queries a minute. The boot
# agent makes two queries for each value that it writes.
_ATTRIBUTE_EVERY_SEC = 12.0
# The limit for an incomplete line. A verdict has about 1,400 characters.
_LONGEST_LINE = 65_536
_READ_CHARACTERS, _SHOWN_CHARACTERS = 4_096, 300
# Colors and cursor movements (ECMA-48, 5.4). systemd colors its lines on a console.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


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


class Channel:
    """Reads the reports of one check machine. `verdict` is called repeatedly, until it returns a verdict.

    Each call reads the new output of the serial port. It reads guest attributes once in _ATTRIBUTE_EVERY_SEC.
    """

    def __init__(
        self,
        api: ComputeApi,
        machine: tuple[str, str, str],
        now: Callable[[], float],
        log: Callable[[str], None],
    ) -> None:
        """Create the channel of `machine`, which is given by project, zone and name. `log` prints progress."""
        self._api = api
        self._machine = machine
        self._now = now
        self._log = log
        self._serial_position = 0
        self._incomplete_line = ""
        self._next_attribute_at = 0.0
        self._rejections: dict[str, ApiError] = {}
        """The error of each source that Google does not allow. The channel does not read these sources again."""
        self.step = ""
        """The last step of the smoke check that the machine reported."""
        self.last_line = ""
        """The last line on the serial port, as `_shown` formats it."""
        self.rate_limited = False
        """True if Google's rate limit rejected one of the last requests."""
        self._had_last_call = False
        self._unanswered: set[str] = set()
        """The sources whose last request failed with a temporary error."""

    @property
    def settled(self) -> bool:
        """False if the last request to a source failed with a temporary error: a report may then be unread."""
        return not self._unanswered

    def verdict(self, last: bool) -> Verdict | None:
        """Return the verdict if one of the two sources has it. Raise ApiError if Google rejects both.

        Args:
            last: True if this may be the last call, because the machine is off or the time limit is over. The first
            call with `last` reads guest attributes even if the interval is not over.
        """
        self.rate_limited = False
        if verdict := self._read(SERIAL_PORT, self._verdict_on_serial_port):
            return verdict
        is_first_last_call, self._had_last_call = last and not self._had_last_call, last
        if not is_first_last_call and self._now() < self._next_attribute_at:
            return None
        self._next_attribute_at = self._now() + _ATTRIBUTE_EVERY_SEC
        return self._read(GUEST_ATTRIBUTES, self._verdict_in_guest_attribute)

    def rejections(self) -> str:
        """Return the sources that Google rejected, as the end of a sentence. Return "" if it rejected none."""
        return "".join(f"; Google rejected {source}: {error}" for source, error in self._rejections.items())

    def _read(self, source: str, read: Callable[[], Verdict | None]) -> Verdict | None:
        """Read one source. Return None without a verdict. Raise ApiError if Google rejects both sources."""
        if source in self._rejections:
            return None
        self._unanswered.discard(source)
        try:
            return read()
        except ApiError as error:
            if error.missing:
                return None
            if error.not_yet:
                # Guest attributes have a separate rate limit for each VM. It says nothing about other requests.
                self.rate_limited |= error.rate_limited and source == SERIAL_PORT
                # Google gives this reason for a machine that is off. A later request would fail, too.
                if error.reason != "resourceNotReady":
                    self._unanswered.add(source)
                return None
            self._rejections[source] = error
            if len(self._rejections) > 1:
                raise
            other = SERIAL_PORT if source == GUEST_ATTRIBUTES else GUEST_ATTRIBUTES
            reason = f"organization policy {error.constraint}" if error.constraint else str(error)
            self._log(
                f"Google rejects {source} of the check machine ({reason}); the gate reads the verdict from {other}"
            )
            return None

    def _verdict_on_serial_port(self) -> Verdict | None:
        output, self._serial_position = self._api.serial(*self._machine, self._serial_position)
        text = self._incomplete_line + output
        end = text.rpartition("\n")[2]
        # A verdict is never this long, so the line is the output of some program. The start of the line is dropped. The
        # bar marks the rest of the line as the output of a program, so that it is never read as a verdict.
        self._incomplete_line = end if len(end) <= _LONGEST_LINE else "|"
        self.step = last_step(text) or self.step
        self.last_line = next(filter(None, map(_shown, reversed(text.splitlines()))), self.last_line)
        return from_serial_log(text, self._machine[1])

    def _verdict_in_guest_attribute(self) -> Verdict | None:
        answer = self._api.guest_attribute(*self._machine, VERDICT_KEY)
        return from_guest_attribute(answer, self._machine[1]) if answer else None


def _shown(line: str) -> str:
    """Return a short line for display, without possible secrets and without terminal control characters."""
    # The secret patterns are slow on lines of many thousand characters.
    return visible(redact(_ESCAPES.sub("", line[:_READ_CHARACTERS])).strip(), _SHOWN_CHARACTERS)
