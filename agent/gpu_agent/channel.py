"""What the agent tells its supervisor, one JSON value a line: the supervisor alone speaks to the outside."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .report import Verdict, clean


class Ending(NamedTuple):
    """How the agent's work ended."""

    reason: str
    """Of outcomes.OUTCOMES."""
    detail: str
    stays: bool = False
    """The machine goes on running: it has nothing to end for."""


class Channel:
    """The agent's side. BrokenPipeError once the supervisor is gone."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.Lock()
        self.at = "start"
        """The step that was said last."""
        self.working_on: Mapping[str, str] = {}
        """The job that was said last."""

    def step(self, name: str, within_sec: float | None) -> None:
        """A step begins. If no other begins `within_sec` seconds later, the supervisor ends the agent; None: never."""
        self.at = name
        self._send(step=name, within_sec=within_sec)

    def restarting(self, expected: bool) -> None:
        """Whether being told to stop is, for now, a restart that this machine needs."""
        self._send(restarting=expected)

    def job(self, job: Mapping[str, str]) -> None:
        """The job this machine took."""
        self.working_on = job
        self._send(job=dict(job))

    def verdict(self, verdict: Verdict) -> None:
        """What the check found."""
        self._send(verdict=[*verdict[:2], clean(verdict.summary)[:1024], verdict.reason])

    def end(self, ending: Ending) -> None:
        """Nothing comes after it."""
        self._send(end=[ending.reason, clean(ending.detail)[:1024], ending.stays])

    def _send(self, **message: Any) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._number, line) :]


class Incoming:
    """The supervisor's side: bytes in, messages out."""

    def __init__(self) -> None:
        self._rest = b""

    def messages(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """Every message that is whole by now."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        yield from (json.loads(line) for line in lines)
