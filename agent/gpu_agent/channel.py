"""The channel: messages from the agent to its supervisor through a pipe, one JSON value a line.

Only the supervisor reports to the outside of the machine.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .machine.gpu_use import GpuUse
from .report import Verdict, clean


class Ending(NamedTuple):
    """The end of the agent's work."""

    reason: str
    """The reason, a key of outcomes.OUTCOMES."""
    detail: str
    stays: bool = False
    """True if the machine continues to run after the agent's end, because its pool registers no runners."""


class Channel:
    """The agent's end of the channel. Raises BrokenPipeError if the supervisor has ended."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.Lock()
        self.at = "start"
        """The last reported step."""
        self.working_on: Mapping[str, str] = {}
        """The last reported job."""
        self.measured: Mapping[str, float | None] | None = None
        """The reported use of the GPUs."""

    def step(self, name: str, within_sec: float | None) -> None:
        """Begin a step. The supervisor ends the agent if no other step begins within `within_sec` seconds; None for no
        limit.
        """
        self.at = name
        self._send(step=name, within_sec=within_sec)

    def restarting(self, expected: bool) -> None:
        """Report True when the driver's installer may restart the machine from now on. A stop is then no end."""
        self._send(restarting=expected)

    def job(self, job: Mapping[str, str]) -> None:
        """Report the job that this machine took."""
        self.working_on = job
        self._send(job=dict(job))

    def gpu_use(self, use: GpuUse | None) -> None:
        """Report what the GPUs did while the job ran; None if nothing was measured."""
        self.measured = use.as_json() if use else None
        self._send(gpu_use=self.measured)

    def grace(self, grace_sec: float) -> None:
        """Report that an armed job gets this time before the agent interrupts it."""
        self._send(grace_sec=grace_sec)

    def verdict(self, verdict: Verdict) -> None:
        """Report the result of the check."""
        self._send(verdict=[*verdict[:2], clean(verdict.summary)[:1024], verdict.reason])

    def end(self, ending: Ending) -> None:
        """Report the end, which is the last message."""
        self._send(end=[ending.reason, clean(ending.detail)[:1024], ending.stays])

    def _send(self, **message: Any) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._number, line) :]


class Incoming:
    """The supervisor's end of the channel: parses bytes into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def messages(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """Return each message that is complete."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        yield from (json.loads(line) for line in lines)
