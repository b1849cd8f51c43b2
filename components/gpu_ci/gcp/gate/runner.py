"""How the gate finds its verdict: one machine, started from the template, asked until it answers, always deleted."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Protocol

from ...naming import fit
from ..resource_names import region_and_name_of_template
from .compute_api import ApiError, ComputeApi
from .verdict import (
    CANCELLED,
    FAIL,
    NO_CAPACITY,
    NO_VERDICT,
    STEP_KEY,
    STEPS,
    VERDICT_KEY,
    Verdict,
    current_step,
    from_guest_attribute,
    from_serial_log,
)

# Seconds between two questions, and between two lines of progress.
_ASK_EVERY = 2.0
_SAY_EVERY = 5.0
# How long a zone may take to start the machine, which counts for no deadline: the machine's own clock starts with it.
_START_WITHIN = 600.0
_STARTING = ("PROVISIONING", "STAGING")
# After this long without an end, a deletion is left to Google and to the machine's own time limit.
_DELETE_WITHIN = 180.0

ROLE = "gpu-ci-role"
GATE_LABEL = "gpu-ci-gate"

_GONE = "GONE"
_ENDED = ("STOPPING", "STOPPED", "SUSPENDING", "SUSPENDED", "TERMINATED", _GONE)


@dataclass(frozen=True)
class Question:
    """What a gate asks: does a machine of this template have the GPU it should?"""

    gate: str
    """Something no other gate shares, such as its URN; leftovers are found by it."""
    project: str
    template: str
    zones: Sequence[str]
    pool: str
    labels: dict[str, str] = field(default_factory=dict)
    deadline_sec: int = 1200
    on_no_capacity: str = "fail"


class Clock(Protocol):
    """Time, so that a test need not wait for it."""

    def now(self) -> float:
        """Seconds since some start."""

    def wait(self, event: Event, seconds: float) -> None:
        """Return after that long, or as soon as the event is set."""


class RealClock:
    """The machine's own."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, event: Event, seconds: float) -> None:
        event.wait(seconds)


class GateRunner:
    """Asks one question of Google. `cancel` may be set from another thread; the machine is deleted all the same."""

    def __init__(
        self,
        api: ComputeApi,
        say: Callable[[str], None],
        cancel: Event,
        clock: Clock | None = None,
        suffix: Callable[[], str] = lambda: secrets.token_hex(3),
    ) -> None:
        self._api = api
        self._say = say
        self._cancel = cancel
        self._clock = clock or RealClock()
        self._suffix = suffix

    def run(self, question: Question) -> Verdict:
        """The verdict. ApiError when Google refuses something no other zone would change."""
        self.remove_leftovers(question)
        body = self._machine(question)
        refused: list[str] = []
        elsewhere: list[str] = []
        for zone in dict.fromkeys(question.zones):
            if self._cancel.is_set():
                return _cancelled(zone)
            self._say(f"starting a check machine in {zone}")
            try:
                verdict = self._ask(question, zone, body)
            except ApiError as error:
                if not error.no_capacity:
                    raise
                elsewhere += error.zones_available
                verdict = Verdict(NO_CAPACITY, f"{zone} has no machine to give{_named(error.zones_available)}", zone)
            if verdict.outcome != NO_CAPACITY:
                return verdict
            refused.append(zone)
            self._say(verdict.summary)
        others = [zone for zone in dict.fromkeys(elsewhere) if zone not in refused]
        return Verdict(NO_CAPACITY, f"no zone had a machine for the check: {', '.join(refused)}{_named(others)}")

    def remove_leftovers(self, question: Question) -> None:
        """Delete check machines an earlier, interrupted run of this gate left behind."""
        for zone in dict.fromkeys(question.zones):
            for name in self._api.instances(question.project, zone, GATE_LABEL, _gate_label(question)):
                self._say(f"removing {name}, left in {zone} by an earlier check")
                self._remove(question.project, zone, name)

    def _machine(self, question: Question) -> dict[str, Any]:
        """What differs from the template. Google takes such a part whole, so the template's own is copied."""
        region, name = region_and_name_of_template(question.template)
        properties = self._api.template(question.project, region, name)
        items = [item for item in properties.get("metadata", {}).get("items", []) if item["key"] != ROLE]
        return {
            "name": f"{fit(question.pool, 45)}-check-{self._suffix()}",
            "labels": {**properties.get("labels", {}), **question.labels, GATE_LABEL: _gate_label(question)},
            "metadata": {"items": [*items, {"key": ROLE, "value": "check"}]},
            # Should nobody be left to delete it, Google does.
            "scheduling": {
                **properties.get("scheduling", {}),
                "instanceTerminationAction": "DELETE",
                "maxRunDuration": {"seconds": str(question.deadline_sec + 300)},
            },
        }

    def _ask(self, question: Question, zone: str, body: dict[str, Any]) -> Verdict:
        project, name, began = question.project, body["name"], self._clock.now()
        pending, reported, where = "", began, ""
        limit_sec: float = _START_WITHIN
        starting = True
        try:
            pending = self._api.insert(project, zone, body, question.template)
            while True:
                if self._cancel.is_set():
                    return _cancelled(zone)
                if pending:
                    asked, pending = pending, ""  # an operation that failed has ended too
                    pending = "" if self._api.done(project, zone, asked) else asked
                state = "PROVISIONING" if pending else self._state(project, zone, name)
                # After the state: a machine that has stopped by then has published what it was going to.
                if not pending and (answer := self._api.guest_attribute(project, zone, name, VERDICT_KEY)):
                    return from_guest_attribute(answer, zone)
                if state in _ENDED:
                    return self._ended(question, zone, body, state)
                if starting and state not in _STARTING:
                    starting, began, limit_sec = False, self._clock.now(), question.deadline_sec
                elapsed = self._clock.now() - began
                if elapsed >= limit_sec:
                    if starting:
                        late = f"{zone} did not start the check machine within {limit_sec:.0f} s"
                        return Verdict(NO_CAPACITY, late, zone)
                    where = self._step(project, zone, name) or where
                    last = (
                        f"its last step was {where}: {STEPS.get(where, 'unknown here')}"
                        if where
                        else "it named no step"
                    )
                    what = f"no verdict within {question.deadline_sec} s of the start; {last}"
                    return self._silent(question, zone, name, what, NO_VERDICT)
                if self._clock.now() - reported >= _SAY_EVERY:
                    reported = self._clock.now()
                    where = (self._step(project, zone, name) if state == "RUNNING" else "") or where
                    at = f", step {where}" if where else ""
                    self._say(f"check machine in {zone} is {state.lower()}{at}, {elapsed:.0f} s of {limit_sec:.0f} s")
                self._clock.wait(self._cancel, _ASK_EVERY)
        finally:
            self._remove(project, zone, name, pending)

    def _state(self, project: str, zone: str, name: str) -> str:
        try:
            return self._api.status(project, zone, name)
        except ApiError as error:
            if error.missing:
                return _GONE
            raise

    def _step(self, project: str, zone: str, name: str) -> str:
        """Where the machine is. Only for whoever watches, so that nothing hangs on an answer."""
        with contextlib.suppress(ApiError):
            return current_step(self._api.guest_attribute(project, zone, name, STEP_KEY))
        return ""

    def _ended(self, question: Question, zone: str, body: dict[str, Any], state: str) -> Verdict:
        """The verdict on a machine that stopped or was deleted without publishing one.

        Only Spot capacity that Google took back is a reason to try the next zone. A gate whose deployment was killed
        sees its machine deleted by the next deployment, and must not start another.
        """
        if self._cancel.is_set():
            return _cancelled(zone)
        if state != _GONE:
            return self._silent(question, zone, body["name"], "the check machine stopped without a verdict")
        if body["scheduling"].get("provisioningModel") == "SPOT":
            return Verdict(NO_CAPACITY, f"{zone} took the check machine away before it had a verdict", zone)
        return Verdict(FAIL, "the check machine was deleted before it had a verdict", zone, NO_VERDICT)

    def _silent(self, question: Question, zone: str, name: str, what: str, reason: str = "") -> Verdict:
        """The serial port's verdict, should only that have come through; else its last line, for whoever reads on."""
        try:
            serial = self._api.serial(question.project, zone, name)
        except ApiError:
            serial = ""
        if verdict := from_serial_log(serial, zone):
            return verdict
        lines = [line.strip() for line in serial.splitlines() if line.strip()]
        reported = f"{what}; last on its serial port: {lines[-1][:300]}" if lines else what
        return Verdict(FAIL, reported, zone, reason)

    def _remove(self, project: str, zone: str, name: str, pending: str = "") -> None:
        """Delete and wait for the end. What cannot be deleted is said, and never hides the verdict."""
        until = self._clock.now() + _DELETE_WITHIN
        try:
            # A machine still being made may not be there to delete yet.
            if pending and not self._wait_for(project, zone, pending, until):
                self._say(f"{name} in {zone} is still being made")
            if not self._wait_for(project, zone, self._api.delete(project, zone, name), until):
                self._say(f"{name} in {zone} is still being deleted")
        except ApiError as error:
            if not error.missing:
                self._say(f"{name} in {zone} could not be deleted ({error}); Google deletes it at its time limit")

    def _wait_for(self, project: str, zone: str, operation: str, until: float) -> bool:
        """Whether the operation ended in time, well or not. Not interruptible: a cancelled run cleans up too."""
        try:
            while not self._api.done(project, zone, operation):
                if self._clock.now() >= until:
                    return False
                self._clock.wait(Event(), _ASK_EVERY)
        except ApiError as error:
            if not error.missing:
                self._say(str(error))
        return True


def _named(zones: Sequence[str]) -> str:
    """Where Google says there are machines, for whoever can add a zone."""
    return f"; Google names {', '.join(zones)}" if zones else ""


def _gate_label(question: Question) -> str:
    """Identifies the check machines of one gate and template.

    The template is part of it because two backends may hold stacks of one name in one Google project, with equal URNs.
    Neither must delete the other's machines, and only the name of the template differs between them.
    """
    return fit(f"{question.gate} {region_and_name_of_template(question.template)[1]}", 63)


def _cancelled(zone: str) -> Verdict:
    return Verdict(CANCELLED, "the check was cancelled", zone)
