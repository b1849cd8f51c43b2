"""Reads what a check machine reports, from its serial port and its guest attributes, within Google's limits."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpu_common.secret_patterns import redact
from gpu_common.visible import visible

from .compute_api import ApiError, ComputeApi
from .verdict import VERDICT_KEY, Verdict, from_guest_attribute, from_serial_log, last_step

SERIAL_PORT, GUEST_ATTRIBUTES = "the serial port", "guest attributes"

# "At most 10 queries a minute" for each VM, those of its own agents included; above that Google may drop what the
# machine writes (docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes). Here 5 a minute; the agent makes
# two for each value that it writes.
_ATTRIBUTE_EVERY_SEC = 12.0
# Of a line that has no end yet. A verdict has about 1,400 characters.
_LONGEST_LINE = 65_536
_READ_CHARACTERS, _SHOWN_CHARACTERS = 4_096, 300
# Colours and moves of the cursor (ECMA-48, 5.4). systemd colours its lines on a console.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Channel:
    """One machine's. Its serial port is asked each time, from where the last answer ended; guest attributes rarely."""

    def __init__(
        self,
        api: ComputeApi,
        machine: tuple[str, str, str],
        now: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        """`machine` is its project, its zone and its name."""
        self._api = api
        self._machine = machine
        self._now = now
        self._say = say
        self._start = 0
        self._rest = ""
        self._next_attribute = 0.0
        self._refused: dict[str, ApiError] = {}
        self.step = ""
        """The last step that the machine named."""
        self.last_line = ""
        """The last line on its serial port, as `_shown` shows it."""
        self.rate_limited = False
        """Whether Google's rate limit refused one of the last readings."""
        self._last = False
        self._unanswered: set[str] = set()

    @property
    def settled(self) -> bool:
        """Whether the last reading of each source got an answer, and not `try again`."""
        return not self._unanswered

    def verdict(self, last: bool) -> Verdict | None:
        """The verdict, as soon as one of both sources has it; ApiError where Google refuses both.

        `last` says that nothing more is waited for, because the machine is off or its time is over. Guest attributes
        are then read once without a pause.
        """
        self.rate_limited = False
        if found := self._read(SERIAL_PORT, self._serial):
            return found
        at_once, self._last = last and not self._last, last
        if not at_once and self._now() < self._next_attribute:
            return None
        self._next_attribute = self._now() + _ATTRIBUTE_EVERY_SEC
        return self._read(GUEST_ATTRIBUTES, self._attribute)

    def refusals(self) -> str:
        """What Google refused, as the end of a sentence; empty where it refused nothing."""
        return "".join(f"; Google refused {source}: {error}" for source, error in self._refused.items())

    def _read(self, source: str, read: Callable[[], Verdict | None]) -> Verdict | None:
        if source in self._refused:
            return None
        self._unanswered.discard(source)
        try:
            return read()
        except ApiError as error:
            if error.missing:
                return None
            if error.not_yet:
                # Of guest attributes each VM has a limit of its own.
                self.rate_limited |= error.rate_limited and source == SERIAL_PORT
                # A machine that is off is not ready for good.
                if error.reason != "resourceNotReady":
                    self._unanswered.add(source)
                return None
            self._refused[source] = error
            if len(self._refused) > 1:
                raise
            other = SERIAL_PORT if source == GUEST_ATTRIBUTES else GUEST_ATTRIBUTES
            why = f"organization policy {error.constraint}" if error.constraint else str(error)
            self._say(f"Google refuses {source} of the check machine ({why}); its verdict is read from {other}")
            return None

    def _serial(self) -> Verdict | None:
        text, self._start = self._api.serial(*self._machine, self._start)
        seen = self._rest + text
        rest = seen.rpartition("\n")[2]
        # A line this long is a program's, and so is what may follow in it.
        self._rest = rest if len(rest) <= _LONGEST_LINE else "|"
        self.step = last_step(seen) or self.step
        self.last_line = next(filter(None, map(_shown, reversed(seen.splitlines()))), self.last_line)
        return from_serial_log(seen, self._machine[1])

    def _attribute(self) -> Verdict | None:
        answer = self._api.guest_attribute(*self._machine, VERDICT_KEY)
        return from_guest_attribute(answer, self._machine[1]) if answer else None


def _shown(line: str) -> str:
    """A line for people: short, without what looks like a secret and without characters that act on a terminal."""
    # Patterns of secrets take long on a line of many thousand characters.
    return visible(redact(_ESCAPES.sub("", line[:_READ_CHARACTERS])).strip(), _SHOWN_CHARACTERS)
