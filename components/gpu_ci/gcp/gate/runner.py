"""How the gate finds its verdict: one machine, started from the template, asked until it answers, always deleted."""

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

# Seconds between two questions for an operation of a machine that is deleted, and between two lines of progress.
_ASK_EVERY = 2.0
_SAY_EVERY = 5.0
# After so long without a new step, progress has the last line of the serial port.
_SILENT = 60.0
# How long a zone may take to start the machine, which counts for no deadline: the machine's own clock starts with it.
_START_WITHIN = 600.0
# Google's states (discovery document compute v1, Instance.status). PENDING: flex-start waits for capacity.
_STARTING = ("PENDING", "PROVISIONING", "STAGING")
_STOPPING = ("PENDING_STOP", "STOPPING", "SUSPENDING", "DEPROVISIONING")
# A machine that stops may still report its verdict; after this long it is taken for one that is off.
_STOP_WITHIN = 90.0
# A service account that is new is known to Compute Engine seconds later, at times a minute ("IAM is eventually
# consistent", cloud.google.com/iam/docs/overview#consistency). Pauses between two attempts grow up to the second.
_ACCOUNT_WITHIN = 90.0
_ACCOUNT_PAUSES = (1.0, 10.0)
# A rate limit is over with the next minute (cloud.google.com/compute/api-quota). 1,500 reads a minute and region are
# little for a stack with many new templates. After so long without an answer, Google's error ends the check.
_ANSWER_WITHIN = 120.0
# Google refuses no connection. A proxy that starts again does for some seconds, the sandbox's API for ever once its
# provider was killed.
_REFUSED_WITHIN = 10.0
# After this long without an end, a deletion is left to Google and to the machine's own time limit.
_DELETE_WITHIN = 180.0

ROLE = "gpu-ci-role"
GATE_LABEL = "gpu-ci-gate"

_GONE = "GONE"
_OFF = ("STOPPED", "SUSPENDED", "TERMINATED", _GONE)

Answer = TypeVar("Answer")


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


class GateRunner:
    """Asks one question of Google. `cancel` may be set from another thread; the machine is deleted all the same."""

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
        """The verdict. ApiError when Google refuses something no other zone would change."""
        with self._pace.gate():
            return self._run(question)

    def _run(self, question: Question) -> Verdict:
        self.remove_leftovers(question)
        body = self._machine(question)
        # instances.insert documents no form of a link with an id, `?uniqueId=1` (discovery document compute v1,
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
            for name in self._patiently(
                partial(self._api.instances, question.project, zone, GATE_LABEL, _gate_label(question))
            ):
                self._say(f"removing {name}, left in {zone} by an earlier check")
                self._remove(question.project, zone, name)

    def remove_stopped(self, question: Question) -> None:
        """Delete the runner manager's machines that were made from this template and are off."""
        delete_stopped(self._api, question.project, question.template, self._say, self._clock)

    def _machine(self, question: Question) -> dict[str, Any]:
        """What differs from the template. Google takes such a part whole, so the template's own is copied."""
        region, name = region_and_name_of_template(question.template)
        properties = self._patiently(lambda: self._api.template(question.project, region, name))
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
                        asked, pending = pending, ""  # an operation that failed has ended too
                        pending = "" if self._patiently(partial(self._api.done, project, zone, asked)) else asked
                        answered_at = self._clock.now()
                except ApiError as error:
                    if not error.about_account or self._clock.now() - began >= _ACCOUNT_WITHIN:
                        raise
                    self._say(f"Google does not accept the machine's service account yet ({error}); asking again")
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
                # After the state: a machine that is off by then has reported what it was going to.
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
        """Ask again while Google's rate limit refuses the request. A clean-up goes on when the run is cancelled."""
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
        """The verdict on a machine that stopped or was deleted without reporting one.

        Only Spot capacity that Google took back is a reason to try the next zone. A gate whose deployment was killed
        sees its machine deleted by the next deployment, and must not start another.
        """
        if self._cancel.is_set():
            return _cancelled(zone)
        if state != _GONE:
            return _silent(zone, "the check machine stopped without a verdict", channel)
        if body["scheduling"].get("provisioningModel") == "SPOT":
            return _taken_away(zone)
        return Verdict(FAIL, "the check machine was deleted before it had a verdict", zone, NO_VERDICT)

    def _remove(self, project: str, zone: str, name: str, pending: str = "") -> None:
        """Delete and wait for the end. What cannot be deleted is said, and never hides the verdict."""
        until = self._clock.now() + _DELETE_WITHIN
        try:
            # A machine still being made may not be there to delete yet.
            if pending and not self._wait_for(project, zone, pending, until):
                self._say(f"{name} in {zone} is still being made")
            operation = self._patiently(lambda: self._api.delete(project, zone, name), cleanup=True)
            if not self._wait_for(project, zone, operation, until):
                self._say(f"{name} in {zone} is still being deleted")
        except ApiError as error:
            if not error.missing:
                self._say(f"{name} in {zone} could not be deleted ({error}); Google deletes it at its time limit")

    def _wait_for(self, project: str, zone: str, operation: str, until: float) -> bool:
        """Whether the operation ended in time, well or not. Not interruptible: a cancelled run cleans up too."""
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
    """Where Google says there are machines, for whoever can add a zone."""
    return f"; Google names {', '.join(zones)}" if zones else ""


def _taken_away(zone: str) -> Verdict:
    return Verdict(NO_CAPACITY, f"{zone} took the check machine away before it had a verdict", zone)


def _late(question: Question, zone: str, channel: Channel) -> Verdict:
    """The verdict on a machine that runs, and reported none in time."""
    step = channel.step
    last = f"its last step was {step}: {STEPS.get(step, 'unknown here')}" if step else "it named no step"
    what = f"no verdict within {question.deadline_sec} s of the start; {last}"
    return _silent(zone, what, channel, NO_VERDICT)


def _silent(zone: str, what: str, channel: Channel, reason: str = "") -> Verdict:
    """A fail that quotes the last line of the serial port, where there is one."""
    return Verdict(FAIL, f"{what}{_last_line(channel)}{channel.refusals()}", zone, reason)


def _last_line(channel: Channel) -> str:
    """The last line of the serial port as the end of a sentence; empty where there is none."""
    return f"; last on its serial port: {channel.last_line}" if channel.last_line else ""


def _gate_label(question: Question) -> str:
    """Identifies the check machines of one gate and template.

    The template is part of it because two backends may hold stacks of one name in one Google project, with equal URNs.
    Neither must delete the other's machines, and only the name of the template differs between them.
    """
    return fit(f"{question.gate} {region_and_name_of_template(question.template)[1]}", 63)


def _cancelled(zone: str) -> Verdict:
    return Verdict(CANCELLED, "the check was cancelled", zone)
