"""Follows the command on the machine: prints its output as it comes, and returns its result."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeVar

from ..gate.compute_api import OFF_OR_GONE, ApiError, ComputeApi, state_of
from ..gate.waiting import Clock
from .failures import BridgeError
from .protocol import ARTIFACTS, REPORT_SEC, RESULT, Result, log_name, parse_result
from .storage import GoogleStorage

# The machine writes once a second, so output appears at most 1.5 s after it was printed, plus two requests.
_POLL_SEC = 0.5
_STATE_EVERY_SEC = 5.0
# The state of a machine that is off or missing. A machine that is stopping may still write its result.
# Google's client retries for about a minute. A network that is cut for longer than this ends the step.
_ANSWER_WITHIN_SEC = 180.0
# An object of the output has at most half of it. An object is in memory.
_LONGEST_BYTES = 2 * 2**20
T = TypeVar("T")


class BridgeApi(ComputeApi, Protocol):
    """The calls of Compute Engine that the bridge needs."""

    def operations(self, project: str, zone: str, expression: str) -> Any:
        """Yield the zone's operations that match the filter."""


@dataclass
class Follower:
    """Follows one command. `follow` is called once, with the machine whose check has passed."""

    _api: BridgeApi
    _storage: GoogleStorage
    _project: str
    _prefix: str
    _limit_sec: float
    """The time for sources and command."""
    _write: Callable[[bytes], object]
    _log: Callable[[str], None]
    _cancel: Event
    _clock: Clock
    _printed: int = 0
    _answered_at: float = 0
    _is_complete: bool = True
    """True if Google answered each request of this round, so that what was not found does not exist."""

    def follow(self, zone: str, name: str, number: str) -> Result:
        """Return the result of the command on the machine with this id.

        Raises:
            BridgeError: cancelled, preempted, lost-machine, timed-out, or wrong-digest.
            ApiError: Google refuses a request, or does not answer.
        """
        clock = self._clock
        until = clock.now() + self._limit_sec + REPORT_SEC
        self._answered_at, state_at, state = clock.now(), clock.now() + _STATE_EVERY_SEC, ""
        while not self._cancel.is_set():
            self._is_complete = True
            if result := self._poll():
                return result
            if state in OFF_OR_GONE and self._is_complete:
                failure = "preempted" if self.was_preempted(zone, name, number) else "lost-machine"
                raise BridgeError(failure, f"{name} in {zone} is {state.lower()}, and it wrote no result")
            if clock.now() >= until:
                raise BridgeError("lost-machine", f"{name} in {zone} reported no result in {self._limit_sec:.0f} s")
            if clock.now() >= state_at:
                state_at = clock.now() + _STATE_EVERY_SEC
                state = self._answer(lambda: state_of(self._api, (self._project, zone, name), number), "")
                if state in OFF_OR_GONE:
                    continue  # the machine wrote its last object before it was off
            clock.wait(self._cancel, _POLL_SEC)
        raise BridgeError("cancelled", f"the command on {name} in {zone} was ended")

    def download_artifacts(self, result: Result, target: Path) -> None:
        """Download the artifacts, and verify their digest."""
        name = f"{self._prefix}{ARTIFACTS}"
        expected = (result.artifacts or {}).get("sha256")
        entry = self._storage.find(name)
        if entry is None:
            raise BridgeError("wrong-digest", f"{name} does not exist")
        with target.open("wb") as file:
            self._storage.read(entry, file)
        with target.open("rb") as file:
            got = hashlib.file_digest(file, "sha256").hexdigest()
        if got != expected:
            raise BridgeError("wrong-digest", f"{name}: got sha256 {got}, expected {expected}")

    def _poll(self) -> Result | None:
        """Print all new output. Return the result if it exists and all its output is printed."""
        self._print_new()
        content = self._answer(lambda: self._content(RESULT), None)
        if content is None:
            return None
        try:
            result = parse_result(content)
        except ValueError as error:
            raise BridgeError("wrong-digest", f"{self._prefix}{RESULT} is no result: {error}") from None
        # Objects are visible as soon as they are written, and the result is written last.
        self._print_new()
        if self._printed < result.logs:
            if not self._is_complete or self._cancel.is_set():
                return None
            missing = log_name(self._prefix, self._printed + 1)
            raise BridgeError("wrong-digest", f"{missing} is missing; the result counts {result.logs} log objects")
        return result

    def _print_new(self) -> None:
        while not self._cancel.is_set():
            name = log_name("", self._printed + 1)
            content = self._answer(lambda name=name: self._content(name), None)  # type: ignore[misc]
            if content is None:
                return
            self._printed += 1
            self._write(content)

    def _content(self, name: str) -> bytes | None:
        """Return the content of an object whose digest is right, or None if the object does not exist."""
        path = f"{self._prefix}{name}"
        entry = self._storage.find(path, once=True)
        if entry is None:
            return None
        if entry.size > _LONGEST_BYTES:
            raise BridgeError("wrong-digest", f"{path} has {entry.size} bytes; expected at most {_LONGEST_BYTES}")
        sink = io.BytesIO()
        self._storage.read(entry, sink, once=True)
        got = hashlib.sha256(sink.getvalue()).hexdigest()
        if got != entry.sha256:
            raise BridgeError("wrong-digest", f"{path}: got sha256 {got}, expected {entry.sha256 or 'one'}")
        return sink.getvalue()

    def _answer(self, ask: Callable[[], T], instead: T) -> T:
        """Return the answer, or `instead` while Google does not answer. Raise ApiError if that lasts too long."""
        try:
            answer = ask()
        except ApiError as error:
            if not error.not_yet or self._clock.now() - self._answered_at >= _ANSWER_WITHIN_SEC:
                raise
            self._is_complete = False
            return instead
        self._answered_at = self._clock.now()
        return answer

    def was_preempted(self, zone: str, name: str, number: str) -> bool:
        """Return True if Google's list of operations has a preemption of the machine."""
        link = f"https://www.googleapis.com/compute/v1/projects/{self._project}/zones/{zone}/instances/{name}"
        expression = f'operationType="compute.instances.preempted" AND targetLink="{link}"'
        try:
            found = self._api.operations(self._project, zone, expression)
            return any(str(each["targetId"]) == number for each in found)
        except ApiError as error:
            self._log(f"preemptions in {zone} cannot be read: {error}")
            return False
