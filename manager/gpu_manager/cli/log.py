"""The manager's log on standard output, as text for people or as JSON lines for Cloud Logging."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ..loop import Event, PassResult
from ..model import JobKey
from ..view import JobState, job_states

# Cloud Logging's names (cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry, LogSeverity).
_SEVERITY = {
    "lease-lost": "ERROR",
    "refused": "ERROR",
    "insert-failed": "WARNING",
    "start-failed": "WARNING",
    "preempted": "WARNING",
    "unavailable": "WARNING",
    "unknown-machine": "WARNING",
}


class Log:
    """Writes events and changes of a job's state to standard output, each once."""

    def __init__(self, as_json: bool, write: Callable[[str], Any] = sys.stdout.write, manager: str = "") -> None:
        self._as_json = as_json
        self._manager = manager
        self._write = write
        self._jobs: dict[JobKey, tuple[str, str, float | None]] = {}
        """The last reported state of each job."""
        self._last: set[Event] = set()
        self._waiting = ""

    def waiting(self, text: str) -> None:
        """Write why the manager does not start yet; each reason once."""
        if text != self._waiting:
            self._waiting = text
            self.line("wait", "the lease", text)

    def report(self, result: PassResult) -> None:
        """Write the changes since the last pass."""
        for event in result.events:
            # An event that repeats in each pass is written once.
            if event not in self._last or event.kind in ("insert", "start-machine", "delete", "rerun"):
                fields = {"pool": event.pool, "code": event.code}
                self.line(
                    event.kind, event.subject, event.detail, **{key: text for key, text in fields.items() if text}
                )
        self._last = set(result.events)
        if result.observation.jobs is None:
            return
        states: dict[JobKey, tuple[str, str, float | None]] = {}
        for state in job_states(result):
            job = state.job
            states[job.key] = _event_of(state)
            if self._jobs.get(job.key) != states[job.key]:
                kind, detail, next_try = states[job.key]
                wait_sec = 0 if next_try is None else next_try - result.observation.now
                detail += f"; next try in {wait_sec:.0f} s" if wait_sec > 0 else ""
                self.line(kind, f"{job.key.repository}#{job.key.job_id} {job.name}".strip(), detail)
        for key in self._jobs.keys() - states.keys():
            self.line("job-ended", f"{key.repository}#{key.job_id}", "no longer queued or running")
        self._jobs = states

    def line(self, kind: str, subject: str, detail: str, **fields: Any) -> None:
        """Write one line of the log. `fields` appear only in the JSON form.

        Cloud Logging extracts the fields severity, message, time and the labels from a line
        (cloud.google.com/logging/docs/structured-logging).
        """
        now = datetime.now(UTC)
        if self._as_json:
            row = {
                "severity": _SEVERITY.get(kind, "INFO"),
                "time": now.isoformat(timespec="milliseconds"),
                "message": f"{kind} {subject}{': ' if detail else ''}{detail}".strip(),
                "event": kind,
                "subject": subject,
                "detail": detail,
                **fields,
                "logging.googleapis.com/labels": {"gpu-ci-manager": self._manager},
            }
            self._write(json.dumps(row) + "\n")
        else:
            self._write(f"{time.strftime('%H:%M:%S')} {kind:14} {subject}{': ' if detail else ''}{detail}\n")
        sys.stdout.flush()


def _event_of(state: JobState) -> tuple[str, str, float | None]:
    """Return the kind and the detail of the log line about a job, and the time of the next try."""
    if state.reason:
        return "job-waits", f"{state.reason.code}: {state.reason.detail}", state.reason.next_try
    if state.job.runner_name:
        return "job-runs", f"on {state.machine}", None
    return "job-covered", f"machine {state.machine}", None
