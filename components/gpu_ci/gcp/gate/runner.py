"""Runs the smoke check of a gate: starts one check machine, waits for its verdict, and deletes the machine.

A check machine is a Compute Engine VM from the gate's instance template, with the metadata `gpu-ci-role: check`. At
boot, the boot agent checks the GPU and reports the verdict on the serial port and as a guest attribute (verdict.py).
The gate runner tries the zones of the pool in order, until a zone has capacity for the machine.

The build of a host image (gcp/host_image) runs its builder machine and its check machine with the same code.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Any, TypeVar

from ...naming import fit, machine_prefix
from ..template_links import region_and_name_of_template
from .compute_api import GONE, OFF_OR_GONE, ApiError, ComputeApi, state_of
from .stopped import delete_stopped
from .verdict import CANCELLED, FAIL, NO_CAPACITY, NO_VERDICT, PASS, STEPS, Channel, Verdict
from .waiting import Clock, Pace, RealClock

_OPERATION_EVERY_SEC = 2.0
"""The interval between two requests for the status of an operation."""
_QUOTA_PAUSE_SEC = 5.0
"""The pause before the next request of a machine while a deleted machine may still count against its quota."""
_PROGRESS_EVERY_SEC = 5.0
"""The interval between two progress messages."""
_SILENT_SEC = 60.0
"""After this time without a new step, progress messages include the last line of the serial port."""
_START_WITHIN_SEC = 600.0
"""The maximum time for a zone to start the machine. The deadline of the check begins with the machine's start."""
_STOP_WITHIN_SEC = 90.0
"""A machine that is stopping may still report its verdict. After this time the machine counts as stopped."""
_DELETE_WITHIN_SEC = 180.0
"""After this time the gate stops waiting for a deletion. Google deletes the machine later, at the latest when the
maximum run duration of the machine is over."""

# Compute Engine knows a new service account after some seconds, sometimes a minute ("IAM is eventually consistent",
# cloud.google.com/iam/docs/overview#consistency). Each pause between two requests is twice as long as the one before.
_ACCOUNT_WITHIN_SEC = 90.0
_FIRST_ACCOUNT_PAUSE_SEC, _LONGEST_ACCOUNT_PAUSE_SEC = 1.0, 10.0

# A rate limit resets in the next minute (cloud.google.com/compute/api-quota). A stack with many new templates can
# exceed 1,500 reads a minute per region. If Google gives no other answer for this time, the check fails with the error.
_ANSWER_WITHIN_SEC = 120.0
# Google itself never refuses a connection, but a proxy refuses connections for some seconds while it restarts. In the
# sandbox, all connections are refused after the process that emulates Google was killed.
_CONNECT_WITHIN_SEC = 10.0

# The states of a machine in Compute Engine (discovery document compute v1, Instance.status). A flex-start machine is
# PENDING while it waits for capacity.
_STARTING = ("PENDING", "PROVISIONING", "STAGING")
_STOPPING = ("PENDING_STOP", "STOPPING", "SUSPENDING", "DEPROVISIONING")

# The values that differ between two markets (discovery document compute v1, Scheduling). Google restarts only machines
# that are not preemptible.
_SCHEDULING: Mapping[str, Mapping[str, Any]] = {
    "spot": {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False},
    "standard": {"provisioningModel": "STANDARD", "preemptible": False},
}

ROLE = "gpu-ci-role"
GATE_LABEL = "gpu-ci-gate"

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class CheckSpec:
    """The inputs of one check: the template, and the zones for its check machine."""

    gate: str
    """A value unique to the gate, such as its URN. A label of the check machine contains it."""
    project: str
    template: str
    zones: Sequence[str]
    pool: str
    labels: dict[str, str] = field(default_factory=dict)
    deadline_sec: int = 1200
    on_no_capacity: str = "fail"
    role: str = "check"
    """The role of the machine, in its name and in its metadata."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """More metadata of the machine."""
    market: str = ""
    """`spot` or `standard`, whatever the template says. Empty for the market of the template."""
    image: str = ""
    """Another boot image than the template's, as projects/<project>/global/images/<name>."""
    steps: Mapping[str, str] = field(default_factory=lambda: STEPS)
    """A description of each step that the machine reports."""
    spare_sec: int = 300
    """The time from the deadline until Google deletes the machine."""
    after_pass: Callable[[str, str, str], None] = lambda zone, name, number: None  # noqa: ARG005 - does nothing
    """Called with zone, name and id of a machine that passed, before the machine is deleted. It may raise ApiError."""

    @property
    def noun(self) -> str:
        """The name of the machine in messages."""
        return f"{self.role} machine"


class GateRunner:
    """Runs one check. If another thread sets `cancel`, the check ends early, and its machine is deleted."""

    def __init__(
        self,
        api: ComputeApi,
        log: Callable[[str], None],
        cancel: Event,
        clock: Clock | None = None,
        suffix: Callable[[], str] = lambda: secrets.token_hex(3),
        pace: Pace | None = None,
        vendor: str = "Google",
    ) -> None:
        """Create a runner. `log` prints progress, and `suffix` returns the random end of the machine's name."""
        self._suffix = suffix
        self._context = _Context(api, log, cancel, clock or RealClock(), pace or Pace(), vendor)

    def run(self, spec: CheckSpec) -> Verdict:
        """Return the verdict. Raise ApiError for an error that would occur in every zone."""
        with self._context.pace.gate():
            return self._run(spec)

    def _run(self, spec: CheckSpec) -> Verdict:
        self.remove_leftovers(spec)
        body = self._machine_body(spec)
        # The link of a template may end with its id, such as `?uniqueId=1`. instances.insert does not accept such a
        # link (discovery document compute v1, sourceInstanceTemplate).
        spec = replace(spec, template=spec.template.partition("?")[0])
        without_capacity: list[str] = []
        suggested: list[str] = []
        for zone in dict.fromkeys(spec.zones):
            if self._context.cancel.is_set():
                return _cancelled(zone)
            self._context.log(f"starting a {spec.noun} in {zone}")
            try:
                verdict = self._check_in(zone, spec, body)
            except ApiError as error:
                if not error.no_capacity:
                    raise
                suggested += error.zones_available
                text = f"{zone} has no capacity for the machine{self._suggestion(error.zones_available)}"
                verdict = Verdict(NO_CAPACITY, text, zone)
            if verdict.outcome != NO_CAPACITY:
                return verdict
            without_capacity.append(zone)
            self._context.log(verdict.summary)
        others = [zone for zone in dict.fromkeys(suggested) if zone not in without_capacity]
        tried = ", ".join(without_capacity)
        text = f"no zone had capacity for the {spec.noun}: {tried}{self._suggestion(others)}"
        return Verdict(NO_CAPACITY, text, zones_available=tuple(others))

    def _check_in(self, zone: str, spec: CheckSpec, body: dict[str, Any]) -> Verdict:
        """Check in one zone. Above a quota, try again after another gate has deleted its machine, which frees quota."""
        context, pace = self._context, self._context.pace
        while True:
            deleted, existed = pace.machine_requested(), True
            try:
                return _ZoneCheck(spec, zone, body, context).run()
            except ApiError as error:
                existed = not (error.over_quota or error.no_capacity)
                if not error.over_quota:
                    raise
                refusal = error
            finally:
                if existed:
                    pace.machine_deleted(context.clock.now())
                else:
                    pace.machine_refused()
            if pace.deleted_since(deleted) is None:
                context.log(f"{refusal} Waiting until the {spec.noun} of another pool is deleted")
            while (is_freed := pace.deleted_since(deleted)) is None and not context.cancel.is_set():
                context.clock.wait(context.cancel, _OPERATION_EVERY_SEC)
            if is_freed is False:
                if not pace.may_free_quota(context.clock.now()):
                    raise refusal
                context.log(f"{refusal} Waiting until {context.vendor} frees the quota of a deleted machine")
                context.clock.wait(context.cancel, _QUOTA_PAUSE_SEC)

    def _suggestion(self, zones: Sequence[str]) -> str:
        """Return the zones with capacity that the cloud names, as the end of a sentence."""
        return f"; {self._context.vendor} suggests {', '.join(zones)}" if zones else ""

    def remove_leftovers(self, spec: CheckSpec) -> None:
        """Delete the check machines of an earlier run of this gate that was interrupted."""
        context = self._context
        for zone in dict.fromkeys(spec.zones):
            find = partial(context.api.instances, spec.project, zone, GATE_LABEL, _gate_label(spec))
            for name in context.retry_rate_limited(find):
                context.log(f"deleting {name}, left in {zone} by an earlier check")
                context.pace.machine_requested()
                context.delete_machine(spec.project, zone, name)
                context.pace.machine_deleted(context.clock.now())

    def remove_stopped(self, spec: CheckSpec) -> None:
        """Delete the runner manager's stopped machines that were created from this template."""
        context = self._context
        delete_stopped(context.api, spec.project, spec.template, context.log, context.clock)

    def _machine_body(self, spec: CheckSpec) -> dict[str, Any]:
        """Return the fields of the machine that differ from the template.

        A block such as `metadata` replaces the whole block of the template. So it repeats the template's values.
        """
        region, name = region_and_name_of_template(spec.template)
        read_template = partial(self._context.api.template, spec.project, region, name)
        properties = self._context.retry_rate_limited(read_template)
        own = {ROLE: spec.role, **spec.metadata}
        items = [item for item in properties.get("metadata", {}).get("items", []) if item["key"] not in own]
        return {
            "name": f"{machine_prefix(spec.pool, spec.role)}{self._suffix()}",
            "labels": {**properties.get("labels", {}), **spec.labels, GATE_LABEL: _gate_label(spec)},
            "metadata": {"items": [*items, *({"key": key, "value": own[key]} for key in own)]},
            **({"disks": _disks(properties, spec.image)} if spec.image else {}),
            # At this limit, Google deletes the machine, in case the gate was killed.
            "scheduling": {
                **properties.get("scheduling", {}),
                **_SCHEDULING.get(spec.market, {}),
                "instanceTerminationAction": "DELETE",
                "maxRunDuration": {"seconds": str(spec.deadline_sec + spec.spare_sec)},
            },
        }


@dataclass(frozen=True)
class _Context:
    """The API, the log and the clock of a runner, with the requests that are repeated after a rate limit."""

    api: ComputeApi
    log: Callable[[str], None]
    cancel: Event
    clock: Clock
    pace: Pace
    vendor: str

    def wait_for_next_poll(self, cancel: Event | None = None) -> None:
        """Wait as long as the shared pace of all gates requires. The wait ends early if the event is set."""
        self.clock.wait(cancel or self.cancel, self.pace.seconds(self.clock.now()))

    def slow_down(self, rate_limited: bool) -> None:
        """Let all gates pause if Google's rate limit rejected a request."""
        if rate_limited:
            self.pace.refused(self.clock.now())

    def retry_rate_limited(self, request: Callable[[], Answer], *, cleanup: bool = False) -> Answer:
        """Repeat a request while Google's rate limit rejects it.

        A cancellation ends the retries. With `cleanup`, the retries go on after a cancellation.

        Raises:
            ApiError: Google rejects the request for another reason, or longer than _ANSWER_WITHIN_SEC.
        """
        until = self.clock.now() + _ANSWER_WITHIN_SEC
        while True:
            try:
                return request()
            except ApiError as error:
                is_cancelled = self.cancel.is_set() and not cleanup
                if not error.rate_limited or is_cancelled or self.clock.now() >= until:
                    raise
                self.slow_down(True)
                self.wait_for_next_poll(Event() if cleanup else None)

    def delete_machine(self, project: str, zone: str, name: str, creation: str = "") -> None:
        """Delete a machine, and wait until it is deleted. An error is only logged, so that the verdict is not lost.

        `creation` is the operation that creates the machine, or empty if this operation has ended.
        """
        until = self.clock.now() + _DELETE_WITHIN_SEC
        try:
            # Google may reject the deletion of a machine whose creation has not ended.
            if creation and not self._wait_for_operation(project, zone, creation, until):
                self.log(f"{name} in {zone} is still being created")
            deletion = self.retry_rate_limited(lambda: self.api.delete(project, zone, name), cleanup=True)
            if not self._wait_for_operation(project, zone, deletion, until):
                self.log(f"{name} in {zone} is still being deleted")
        except ApiError as error:
            if not error.missing:
                self.log(f"could not delete {name} in {zone} ({error}); {self.vendor} deletes it at its time limit")

    def _wait_for_operation(self, project: str, zone: str, operation: str, until: float) -> bool:
        """Return True if the operation ended in time, with or without error. A cancellation does not end the wait."""
        try:
            while not self.retry_rate_limited(lambda: self.api.done(project, zone, operation), cleanup=True):
                if self.clock.now() >= until:
                    return False
                self.clock.wait(Event(), _OPERATION_EVERY_SEC)
        except ApiError as error:
            if not error.missing:
                self.log(str(error))
        return True


class _ZoneCheck:
    """The check in one zone: creates the machine, polls it until there is a verdict, and deletes it.

    There are two time limits. First, the machine must start within _START_WITHIN_SEC. Then, it must report a verdict
    within the deadline of the check.
    """

    def __init__(self, spec: CheckSpec, zone: str, body: dict[str, Any], context: _Context) -> None:
        now = context.clock.now()
        self._spec, self._zone, self._body, self._context = spec, zone, body, context
        self._machine = (spec.project, zone, str(body["name"]))
        self._channel = Channel(context.api, self._machine, context.clock.now, context.log)
        self._is_requested = False
        self._creation = self._id = ""
        """The operation that creates the machine, until it has ended, and Google's id of the machine."""
        self._account_pause_sec = _FIRST_ACCOUNT_PAUSE_SEC
        self._state, self._answered_at, self._is_answered = "PROVISIONING", now, False
        """The last known state, the time of Google's last answer about the machine, and if it was the last request."""
        self._verdict: Verdict | None = None
        self._has_started = False
        self._limit_began, self._limit_sec = now, _START_WITHIN_SEC
        self._stopping_since: float | None = None
        self._step, self._step_since = "", now
        self._progress_at = now

    def run(self) -> Verdict:
        """Return the verdict. Raise ApiError if Google rejects the machine, or a request about it."""
        context = self._context
        try:
            while not context.cancel.is_set():
                if not self._create():
                    continue
                if verdict := self._poll():
                    if verdict.outcome == PASS:
                        self._spec.after_pass(self._zone, self._machine[2], self._id)
                    return verdict
                context.wait_for_next_poll()
            return _cancelled(self._zone)
        finally:
            context.delete_machine(*self._machine, self._creation)

    def _create(self) -> bool:
        """Request the machine, or check if its creation has ended. Return True if `run` can poll the machine.

        If Google does not accept the service account yet, wait and return False. The next call requests the machine
        again.
        """
        context, project, zone = self._context, self._spec.project, self._zone
        try:
            if not self._is_requested:
                insert = partial(context.api.insert, project, zone, self._body, self._spec.template)
                requested = context.retry_rate_limited(insert)
                self._creation, self._id = requested.name, requested.target_id
                self._is_requested = True
            if self._creation:
                operation, self._creation = self._creation, ""  # if `done` raises, the operation has ended
                if not context.retry_rate_limited(partial(context.api.done, project, zone, operation)):
                    self._creation = operation
                self._answered_at = context.clock.now()
        except ApiError as error:
            if not error.about_account or context.clock.now() - self._limit_began >= _ACCOUNT_WITHIN_SEC:
                raise
            context.log(f"Google does not accept the machine's service account yet ({error}); trying again")
            context.clock.wait(context.cancel, self._account_pause_sec)
            self._account_pause_sec = min(2 * self._account_pause_sec, _LONGEST_ACCOUNT_PAUSE_SEC)
            self._is_requested = False
            return False
        return True

    def _poll(self) -> Verdict | None:
        """Read the state and the reports of the machine. Return the verdict, or None if the check goes on."""
        context, channel = self._context, self._channel
        rate_limited = False if self._creation else self._read_state()
        # The reports are read after the state. If the state is off, the machine has made all its reports.
        is_readable = not rate_limited and self._state not in _STARTING
        if is_readable and (verdict := self._reported(last=self._state in OFF_OR_GONE)):
            return self._preempted() if verdict.reason == "preempted" else verdict
        context.slow_down(channel.rate_limited)
        now = context.clock.now()
        if self._has_stopped(now):
            return self._stopped()
        if not self._has_started and self._state not in _STARTING:
            self._has_started, self._step_since = True, now
            self._limit_began, self._limit_sec = now, self._spec.deadline_sec
        if channel.step != self._step:
            self._step, self._step_since = channel.step, now
        if now - self._limit_began >= self._limit_sec:
            return self._timed_out()
        self._report_progress(now)
        return None

    def _reported(self, last: bool) -> Verdict | None:
        """Return the verdict, if the machine of this name is still the requested one after the verdict was read.

        Others may delete the machine, and create one of the same name that reports any verdict.
        """
        self._verdict = self._verdict or self._channel.verdict(last)
        if self._verdict:
            self._read_state()
        if self._state == GONE:
            self._verdict = None
        return self._verdict if self._is_answered else None

    def _read_state(self) -> bool:
        """Read the state of the machine. Return True if Google's rate limit rejected the request.

        After a temporary error, the last known state stays. Raise ApiError if temporary errors last too long.
        """
        context = self._context
        self._is_answered = False
        try:
            self._state, self._answered_at = state_of(context.api, self._machine, self._id), context.clock.now()
            self._is_answered = True
        except ApiError as error:
            within_sec = _CONNECT_WITHIN_SEC if error.connection_refused else _ANSWER_WITHIN_SEC
            if not error.not_yet or context.clock.now() - self._answered_at >= within_sec:
                raise
            context.slow_down(error.rate_limited)
            return error.rate_limited
        return False

    def _has_stopped(self, now: float) -> bool:
        """Return True if the machine is off and all its reports have been read, or if its stop takes too long."""
        if self._state not in (*_STOPPING, *OFF_OR_GONE):
            return False
        if self._stopping_since is None:
            self._stopping_since = now
        all_read = self._state in OFF_OR_GONE and self._channel.settled
        return all_read or now - self._stopping_since >= _STOP_WITHIN_SEC

    def _stopped(self) -> Verdict:
        """Return the verdict for a machine that stopped or was deleted without a verdict.

        A deleted Spot machine was preempted, so the next zone is tried. A machine of another market was deleted by a
        user, or by a later deployment that cleans up. The check then fails, and starts no other machine.
        """
        if self._context.cancel.is_set():
            return _cancelled(self._zone)
        if self._state != GONE:
            return self._without_verdict(f"the {self._spec.noun} stopped without a verdict")
        if self._body["scheduling"].get("provisioningModel") == "SPOT":
            return self._preempted()
        text = f"the {self._spec.noun} was deleted before it had a verdict"
        return Verdict(FAIL, text, self._zone, NO_VERDICT)

    def _preempted(self) -> Verdict:
        text = f"{self._zone} preempted the {self._spec.noun} before its verdict"
        return Verdict(NO_CAPACITY, text, self._zone)

    def _timed_out(self) -> Verdict:
        """Return the verdict for a machine that did not start, or did not report a verdict, within the time limit."""
        zone = self._zone
        if not self._has_started:
            text = f"{zone} did not start the {self._spec.noun} within {self._limit_sec:.0f} s"
            return Verdict(NO_CAPACITY, text, zone)
        if verdict := self._reported(last=True):
            return verdict
        step = self._channel.step
        what = self._spec.steps.get(step, "unknown step")
        last = f"its last step was {step}: {what}" if step else "it reported no step"
        text = f"no verdict within {self._spec.deadline_sec} s of the start; {last}"
        return self._without_verdict(text, NO_VERDICT)

    def _without_verdict(self, text: str, reason: str = "") -> Verdict:
        """Return a fail verdict that quotes the last line of the serial port, if there is one."""
        return Verdict(FAIL, f"{text}{self._last_line()}{self._channel.rejections()}", self._zone, reason)

    def _report_progress(self, now: float) -> None:
        if now - self._progress_at < _PROGRESS_EVERY_SEC:
            return
        self._progress_at = now
        step = f", step {self._step}" if self._step else ""
        is_silent = self._has_started and now - self._step_since >= _SILENT_SEC
        last_line = self._last_line() if is_silent else ""
        self._context.log(
            f"{self._spec.noun} in {self._zone} is {self._state.lower()}{step}, {now - self._limit_began:.0f} s of "
            f"{self._limit_sec:.0f} s{last_line}"
        )

    def _last_line(self) -> str:
        """Return the last line of the serial port as the end of a sentence, or ""."""
        line = self._channel.last_line
        return f"; last line on its serial port: {line}" if line else ""


def _disks(properties: Mapping[str, Any], image: str) -> list[dict[str, Any]]:
    """Return the disks of a template with another image for its boot disk."""
    return [
        {**disk, "initializeParams": {**disk.get("initializeParams", {}), "sourceImage": image}}
        if disk.get("boot")
        else disk
        for disk in properties["disks"]
    ]


def _cancelled(zone: str) -> Verdict:
    return Verdict(CANCELLED, "the check was cancelled", zone)


def _gate_label(spec: CheckSpec) -> str:
    """Return the label value that identifies the check machines of one gate and template.

    The URN of a gate is not unique: stacks of two Pulumi backends can have the same name and use the same Google
    project. A gate must not delete the machines of another gate with the same URN. So the label includes the name of
    the template, which is unique.
    """
    return fit(f"{spec.gate} {region_and_name_of_template(spec.template)[1]}", 63)
