"""Submits a training job once for each run, waits for its end, and cancels it.

Vertex AI has no idempotency key. So each job has a label with the hash of its run, and a job is created only if the
list has none with this label. If a list was late, the oldest job stays, and the others are cancelled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from gpu_ci.delivery.rollout.loop import Clock
from gpu_ci.gcp.gate.google_service import ApiError
from gpu_ci.gcp.gate.vertex_api import VertexApi, is_conflict

RUN, SETTINGS = "gpu-ci-run", "gpu-ci-settings"
"""The labels of a job: the hash of its run, and the hash of its settings."""
POLL_SEC = 45.0
LATE_SEC = 60.0
"""The time after which a list is taken to have each job. Google documents none."""
_LOOK_SEC = 10.0
_PROGRESS_SEC = 300.0
_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC = 2.0, 60.0
_MOST_ATTEMPTS = 8
_MOST_TROUBLES = 30

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")
"""The states in which a job stays."""

Job = Mapping[str, Any]
Say = Callable[[str], None]
Result = TypeVar("Result")


class OtherSettingsError(Exception):
    """The run has a job with other settings. The text is the name of the job."""


class End(NamedTuple):
    """A job, and whether the time was over before its end."""

    job: Job
    is_time_over: bool


def hash_of(value: Any) -> str:
    """Return a hash as the value of a label, of a value that JSON can represent."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:40]


def state_of(job: Job) -> str:
    """Return the state without its prefix, such as RUNNING."""
    return str(job.get("state", "")).removeprefix("JOB_STATE_") or "UNSPECIFIED"


class Jobs:
    """The training jobs of a project and location. All methods raise ApiError."""

    def __init__(self, api: VertexApi, parent: str, clock: Clock, say: Say) -> None:
        """`parent` is projects/PROJECT/locations/LOCATION. `say` gets the progress."""
        self._api, self._parent, self._clock, self._say = api, parent, clock, say

    def submit(self, run: str, name: str, spec: Mapping[str, Any]) -> Job:
        """Return the job of a run, which is created if there is none.

        Args:
            run: The hash of the run.
            name: The display name.
            spec: The field jobSpec.

        Raises:
            OtherSettingsError: The run has a job with another spec.
        """
        labels = {RUN: run, SETTINGS: hash_of(spec)}
        body = {"displayName": name, "labels": labels, "jobSpec": dict(spec)}
        is_unsure = False
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            if found := self.look(run, LATE_SEC if is_unsure else 0.0):
                if found[0].get("labels", {}).get(SETTINGS) != labels[SETTINGS]:
                    raise OtherSettingsError(found[0]["name"])
                self._say(f"the run has a job: {found[0]['name']}")
                return self._keep_first(found)
            try:
                created = self._api.create_job(self._parent, body)
            except ApiError as error:
                if not error.not_yet or attempt == _MOST_ATTEMPTS:
                    raise
                # Google does not execute a request above a rate or a quota. After any other error, it may have.
                is_unsure = is_unsure or error.status != 429
                self._say(f"no job yet: {error}")
                self._clock.sleep(_pause(attempt))
                continue
            return self._first_of(created)
        raise AssertionError

    def look(self, run: str, patience_sec: float) -> list[Job]:
        """Return the jobs of a run, the oldest first. Wait so long for the first one."""
        until = self._clock.now() + patience_sec
        while True:
            found = self._retried(lambda: self._listed(run))
            if found or self._clock.now() >= until:
                return found
            self._clock.sleep(_LOOK_SEC)

    def of_name(self, name: str) -> list[Job]:
        """Return a job, and the other jobs of its run, the oldest first."""
        return self._retried(lambda: self._with_others(self._api.job(name)))

    def wait(self, name: str, until: float) -> End:
        """Return the job when it has ended, or at a time in seconds since 1970. Report each new state."""
        job: Job = {"name": name}
        said, said_at, troubles = "", 0.0, 0
        while True:
            pause = POLL_SEC
            try:
                # The oldest job of the run: a late list may show a second one only now.
                job = self._keep_first(self._with_others(self._api.job(job["name"])))
                troubles = 0
                text = f"{state_of(job)}: {job['name']}"
            except ApiError as error:
                troubles += 1
                if not error.not_yet or troubles == _MOST_TROUBLES:
                    raise
                pause, text = max(POLL_SEC, _pause(troubles)), f"the state of the job is unknown: {error}"
            now = self._clock.now()
            if text != said or now - said_at >= _PROGRESS_SEC:
                said, said_at = text, now
                self._say(text)
            if state_of(job) in ENDED or now >= until:
                return End(job, state_of(job) not in ENDED)
            self._clock.sleep(min(pause, until - now))

    def cancel(self, jobs: Sequence[Job]) -> list[Job]:
        """Cancel jobs, and return them when each has ended or is being cancelled, or after a minute."""
        until = self._clock.now() + LATE_SEC
        names = [each["name"] for each in jobs]
        for each in jobs:
            self._cancel(each)
        while True:
            found: list[Job] = [self._retried(partial(self._api.job, name)) for name in names]
            if all(_is_ending(each) for each in found) or self._clock.now() >= until:
                return found
            self._clock.sleep(_LOOK_SEC)

    def _first_of(self, created: Job) -> Job:
        """Return the oldest job of the run of a new job, when a list has the new one. Cancel the others.

        Then the list also has each older job, and a repeated submit finds them.
        """
        until = self._clock.now() + 2 * LATE_SEC
        try:
            while True:
                found = self._retried(lambda: self._listed(created["labels"][RUN]))
                if created["name"] in [each["name"] for each in found]:
                    return self._keep_first(found)
                if self._clock.now() >= until:
                    break
                self._clock.sleep(_LOOK_SEC)
            self._say("the list does not have the job yet: do not submit it again")
        except ApiError as error:  # the job exists, whatever the list says
            self._say(f"the other jobs of the run are unknown: {error}")
        return created

    def _with_others(self, job: Job) -> list[Job]:
        """Return a job, whose state in the list may be old, and the other jobs of its run. The oldest is first."""
        run = job.get("labels", {}).get(RUN)
        others = self._listed(run) if run else []
        return _oldest_first([job, *(each for each in others if each["name"] != job["name"])])

    def _listed(self, run: str) -> list[Job]:
        return _oldest_first(self._api.jobs(self._parent, RUN, run))

    def _keep_first(self, jobs: Sequence[Job]) -> Job:
        first, *others = jobs
        for each in others:
            if not _is_ending(each):
                self._say(f"{each['name']} is a second job of the run, and is cancelled")
                self._cancel(each)
        return first

    def _cancel(self, job: Job) -> None:
        if _is_ending(job):
            return
        try:
            self._retried(lambda: self._api.cancel_job(job["name"]))
        except ApiError as error:
            if not is_conflict(error):  # it has ended meanwhile
                raise

    def _retried(self, call: Callable[[], Result]) -> Result:
        """Return the answer of a call that is safe to repeat."""
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            try:
                return call()
            except ApiError as error:
                if not error.not_yet or attempt == _MOST_ATTEMPTS:
                    raise
                self._clock.sleep(_pause(attempt))
        raise AssertionError


def _oldest_first(jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda each: (each.get("createTime", ""), each["name"]))


def _is_ending(job: Job) -> bool:
    return state_of(job) in (*ENDED, "CANCELLING")


def _pause(attempt: int) -> float:
    return min(_LONGEST_PAUSE_SEC, _FIRST_PAUSE_SEC * 2.0 ** (attempt - 1))
