"""Runs the check: starts one machine from the template, polls it for a verdict, and always deletes it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Any, TypeVar

from ...naming import fit
from ..resource_names import region_and_name_of_template
from .channel import Channel
from .clock import Clock, RealClock
from .compute_api import ApiError, ComputeApi
from .pace import Pace
from .stopped import delete_stopped
from .verdict import CANCELLED, FAIL, NO_CAPACITY, NO_VERDICT, STEPS, Verdict

# Seconds between two polls of a delete operation, and between two progress messages.
_ASK_EVERY = 2.0
_SAY_EVERY = 5.0
# After this many seconds without a new step, progress includes the last line of the serial port.
_SILENT = 60.0
# The maximum time for a zone to start the machine. The deadline of the check begins with the machine's start.
_START_WITHIN = 600.0
# States of Compute Engine before the start (discovery document compute v1, Instance.status). In PENDING, flex-start
# waits for capacity.
_STARTING = ("PENDING", "PROVISIONING", "STAGING")
_STOPPING = ("PENDING_STOP", "STOPPING", "SUSPENDING", "DEPROVISIONING")
# A stopping machine may still report its verdict. After this time it counts as stopped.
_STOP_WITHIN = 90.0
# Compute Engine knows a new service account after some seconds, sometimes a minute ("IAM is eventually consistent",
# cloud.google.com/iam/docs/overview#consistency). The second number is the maximum pause between two attempts.
_ACCOUNT_WITHIN = 90.0
_ACCOUNT_PAUSES = (1.0, 10.0)
# A rate limit resets in the next minute (cloud.google.com/compute/api-quota). A stack with many new templates can
# exceed 1,500 reads a minute per region. After this time without an answer, Google's error ends the check.
_ANSWER_WITHIN = 120.0
# Google itself never refuses a connection. A restarting proxy does for some seconds, and the sandbox's API does
# permanently after its provider was killed.
_REFUSED_WITHIN = 10.0
# After this time the gate stops waiting for a deletion. Google completes it, or the machine's time limit does.
_DELETE_WITHIN = 180.0

ROLE = "gpu-ci-role"
GATE_LABEL = "gpu-ci-gate"

_GONE = "GONE"
_OFF = ("STOPPED", "SUSPENDED", "TERMINATED", _GONE)

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Question:
    """The input of one check: a template, and the zones for its check machine."""

    gate: str
    """A value unique to the gate, such as its URN, which identifies its leftover machines."""
    project: str
    template: str
    zones: Sequence[str]
    pool: str
    labels: dict[str, str] = field(default_factory=dict)
    deadline_sec: int = 1200
    on_no_capacity: str = "fail"


class GateRunner:
    """Runs one check. Another thread may set `cancel`, and the machine is deleted even then."""

    def __init__(
        self,
        api: ComputeApi,
        say: Callable[[str], None],
        cancel: Event,
        clock: Clock | None = None,
        suffix: Callable[[], str] = lambda: secrets.token_hex(3),
        pace: Pace | None = None,
    ) -> None:
        self._api = api
        self._say = say
        self._cancel = cancel
        self._clock = clock or RealClock()
        self._suffix = suffix
        self._pace = pace or Pace()

    def run(self, question: Question) -> Verdict:
        """Return the verdict. Raise ApiError for errors that another zone would not avoid."""
        with self._pace.gate():
            return self._run(question)

    def _run(self, question: Question) -> Verdict:
        self.remove_leftovers(question)
        body = self._machine(question)
        # The documentation of instances.insert allows no link with an id, `?uniqueId=1` (discovery document compute v1,
        # sourceInstanceTemplate).
        question = replace(question, template=question.template.partition("?")[0])
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
                verdict = Verdict(
                    NO_CAPACITY, f"{zone} has no capacity for the machine{_named(error.zones_available)}", zone
                )
            if verdict.outcome != NO_CAPACITY:
                return verdict
            refused.append(zone)
            self._say(verdict.summary)
        others = [zone for zone in dict.fromkeys(elsewhere) if zone not in refused]
        return Verdict(NO_CAPACITY, f"no zone had capacity for the check machine: {', '.join(refused)}{_named(others)}")

    def remove_leftovers(self, question: Question) -> None:
        """Delete check machines that an earlier, interrupted run of this gate left."""
        for zone in dict.fromkeys(question.zones):
            for name in self._patiently(
                partial(self._api.instances, question.project, zone, GATE_LABEL, _gate_label(question))
            ):
                self._say(f"deleting {name}, left in {zone} by an earlier check")
                self._remove(question.project, zone, name)

    def remove_stopped(self, question: Question) -> None:
        """Delete the runner manager's stopped machines that were created from this template."""
        delete_stopped(self._api, question.project, question.template, self._say, self._clock)

    def _machine(self, question: Question) -> dict[str, Any]:
        """Return the values that differ from the template. Google replaces whole blocks, so they are copied."""
        region, name = region_and_name_of_template(question.template)
        properties = self._patiently(lambda: self._api.template(question.project, region, name))
        items = [item for item in properties.get("metadata", {}).get("items", []) if item["key"] != ROLE]
        return {
            "name": f"{fit(question.pool, 45)}-check-{self._suffix()}",
            "labels": {**properties.get("labels", {}), **question.labels, GATE_LABEL: _gate_label(question)},
            "metadata": {"items": [*items, {"key": ROLE, "value": "check"}]},
            # Google deletes the machine at this limit if no deployment does.
            "scheduling": {
                **properties.get("scheduling", {}),
                "instanceTerminationAction": "DELETE",
                "maxRunDuration": {"seconds": str(question.deadline_sec + 300)},
            },
        }

    def _ask(self, question: Question, zone: str, body: dict[str, Any]) -> Verdict:
        project, name, began = question.project, body["name"], self._clock.now()
        channel = Channel(self._api, (project, zone, name), self._clock.now, self._say)
        pending, wanted, reported = "", True, began
        pause_sec, longest_pause_sec = _ACCOUNT_PAUSES
        limit_sec: float = _START_WITHIN
        starting = True
        stopping_at: float | None = None
        step, step_at = "", began
        state, answered_at = "PROVISIONING", began
        try:
            while True:
                if self._cancel.is_set():
                    return _cancelled(zone)
                try:
                    if wanted:
                        pending = self._patiently(lambda: self._api.insert(project, zone, body, question.template))
                        wanted = False
                    if pending:
                        asked, pending = pending, ""  # a failed operation has ended too
                        pending = "" if self._patiently(partial(self._api.done, project, zone, asked)) else asked
                        answered_at = self._clock.now()
                except ApiError as error:
                    if not error.about_account or self._clock.now() - began >= _ACCOUNT_WITHIN:
                        raise
                    self._say(f"Google does not accept the machine's service account yet ({error}); trying again")
                    self._clock.wait(self._cancel, pause_sec)
                    pause_sec, wanted = min(2 * pause_sec, longest_pause_sec), True
                    continue
                limited = False
                if not pending:
                    try:
                        state, answered_at = self._state(project, zone, name), self._clock.now()
                    except ApiError as error:
                        patience_sec = _REFUSED_WITHIN if error.connection_refused else _ANSWER_WITHIN
                        if not error.not_yet or self._clock.now() - answered_at >= patience_sec:
                            raise
                        limited = error.rate_limited
                        self._mind(limited)
                # Read after the state: a machine that is off by then has reported everything.
                if not limited and state not in _STARTING and (verdict := channel.verdict(last=state in _OFF)):
                    return _taken_away(zone) if verdict.reason == "preempted" else verdict
                self._mind(channel.rate_limited)
                now = self._clock.now()
                if state in (*_STOPPING, *_OFF):
                    stopping_at = now if stopping_at is None else stopping_at
                    if (state in _OFF and channel.settled) or now - stopping_at >= _STOP_WITHIN:
                        return self._ended(body, zone, state, channel)
                if starting and state not in _STARTING:
                    starting, began, limit_sec, step_at = False, now, question.deadline_sec, now
                if channel.step != step:
                    step, step_at = channel.step, now
                elapsed = now - began
                if elapsed >= limit_sec:
                    if starting:
                        late = f"{zone} did not start the check machine within {limit_sec:.0f} s"
                        return Verdict(NO_CAPACITY, late, zone)
                    return channel.verdict(last=True) or _late(question, zone, channel)
                if now - reported >= _SAY_EVERY:
                    reported = now
                    at = f", step {step}" if step else ""
                    last = _last_line(channel) if not starting and now - step_at >= _SILENT else ""
                    self._say(
                        f"check machine in {zone} is {state.lower()}{at}, {elapsed:.0f} s of {limit_sec:.0f} s{last}"
                    )
                self._clock.wait(self._cancel, self._pace.seconds(self._clock.now()))
        finally:
            self._remove(project, zone, name, pending)

    def _patiently(self, ask: Callable[[], Answer], *, cleanup: bool = False) -> Answer:
        """Retry a request while Google's rate limit rejects it. A cleanup continues after a cancellation."""
        until = self._clock.now() + _ANSWER_WITHIN
        while True:
            try:
                return ask()
            except ApiError as error:
                is_over = self._cancel.is_set() and not cleanup
                if not error.rate_limited or is_over or self._clock.now() >= until:
                    raise
                self._mind(True)
                self._clock.wait(Event() if cleanup else self._cancel, self._pace.seconds(self._clock.now()))

    def _mind(self, is_refused: bool) -> None:
        if is_refused:
            self._pace.refused(self._clock.now())

    def _state(self, project: str, zone: str, name: str) -> str:
        try:
            return self._api.status(project, zone, name)
        except ApiError as error:
            if error.missing:
                return _GONE
            raise

    def _ended(self, body: dict[str, Any], zone: str, state: str, channel: Channel) -> Verdict:
        """Return the verdict for a machine that stopped or was deleted without reporting one.

        The next zone is tried only after a Spot preemption. If a deployment was killed, the next deployment deletes its
        machine. The killed one must then not start another.
        """
        if self._cancel.is_set():
            return _cancelled(zone)
        if state != _GONE:
            return _silent(zone, "the check machine stopped without a verdict", channel)
        if body["scheduling"].get("provisioningModel") == "SPOT":
            return _taken_away(zone)
        return Verdict(FAIL, "the check machine was deleted before it had a verdict", zone, NO_VERDICT)

    def _remove(self, project: str, zone: str, name: str, pending: str = "") -> None:
        """Delete the machine and wait for the end. An error is logged, and never replaces the verdict."""
        until = self._clock.now() + _DELETE_WITHIN
        try:
            # A machine whose creation is not complete may not be deletable yet.
            if pending and not self._wait_for(project, zone, pending, until):
                self._say(f"{name} in {zone} is still being created")
            operation = self._patiently(lambda: self._api.delete(project, zone, name), cleanup=True)
            if not self._wait_for(project, zone, operation, until):
                self._say(f"{name} in {zone} is still being deleted")
        except ApiError as error:
            if not error.missing:
                self._say(f"could not delete {name} in {zone} ({error}); Google deletes it at its time limit")

    def _wait_for(self, project: str, zone: str, operation: str, until: float) -> bool:
        """Return True if the operation ended in time, with or without error. A cancellation does not end the wait."""
        try:
            while not self._patiently(lambda: self._api.done(project, zone, operation), cleanup=True):
                if self._clock.now() >= until:
                    return False
                self._clock.wait(Event(), _ASK_EVERY)
        except ApiError as error:
            if not error.missing:
                self._say(str(error))
        return True


def _named(zones: Sequence[str]) -> str:
    """Return the zones with capacity that Google names, as a suggestion for `zones`."""
    return f"; Google suggests {', '.join(zones)}" if zones else ""


def _taken_away(zone: str) -> Verdict:
    return Verdict(NO_CAPACITY, f"{zone} preempted the check machine before its verdict", zone)


def _late(question: Question, zone: str, channel: Channel) -> Verdict:
    """Return the verdict for a machine that runs but reported none in time."""
    step = channel.step
    last = f"its last step was {step}: {STEPS.get(step, 'unknown step')}" if step else "it reported no step"
    what = f"no verdict within {question.deadline_sec} s of the start; {last}"
    return _silent(zone, what, channel, NO_VERDICT)


def _silent(zone: str, what: str, channel: Channel, reason: str = "") -> Verdict:
    """Return a fail verdict that quotes the last line of the serial port, if there is one."""
    return Verdict(FAIL, f"{what}{_last_line(channel)}{channel.refusals()}", zone, reason)


def _last_line(channel: Channel) -> str:
    """Return the last line of the serial port as the end of a sentence, or ""."""
    return f"; last line on its serial port: {channel.last_line}" if channel.last_line else ""


def _gate_label(question: Question) -> str:
    """Return the label value that identifies the check machines of one gate and template.

    Two backends may contain stacks of the same name in one Google project, with equal URNs. Neither may delete the
    other's machines. Only the names of their templates differ, so the label includes the template.
    """
    return fit(f"{question.gate} {region_and_name_of_template(question.template)[1]}", 63)


def _cancelled(zone: str) -> Verdict:
    return Verdict(CANCELLED, "the check was cancelled", zone)
