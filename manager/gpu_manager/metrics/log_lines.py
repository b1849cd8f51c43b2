"""Writes measurements as lines of the log. Log-based metrics read them (components/gpu_ci/gcp/manager_metrics.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..clock import uptime
from ..loop import PassResult
from .measure import Meter, Sample

PERIOD_SEC = 60.0
"""Cloud Monitoring keeps one point a minute of a log-based metric (cloud.google.com/monitoring/api/metrics_gcp)."""


class Line(NamedTuple):
    """One line of the log with the event, its subject, and its own fields."""

    event: str
    subject: str
    fields: dict[str, Any]


class LogLines:
    """The lines of one share: each sample in its pass, and the state of every pool once a minute."""

    def __init__(self, meter: Meter, now: Callable[[], float] = uptime, share: int = 1) -> None:
        self._meter = meter
        self._share = share
        self._now = now
        self._begun = now()
        self._complete_at: float | None = None
        self._written_at = float("-inf")

    def of(self, result: PassResult, samples: Sequence[Sample]) -> Iterator[Line]:
        """Return the lines that a pass adds to the log."""
        for sample in samples:
            if sample.kind == "wait":
                yield Line("job-started", sample.subject, {"pool": sample.pool, "waitSec": round(sample.seconds, 1)})
            elif sample.kind == "boot":
                yield Line("boot", sample.subject, {"pool": sample.pool, "bootSec": round(sample.seconds, 1)})
            elif sample.kind == "preempted":
                yield Line("preempted", sample.subject, {"pool": sample.pool})
        now = self._now()
        if result.complete:
            self._complete_at = now
        if now - self._written_at < PERIOD_SEC:
            return
        self._written_at = now
        since = self._begun if self._complete_at is None else self._complete_at
        requests_left = self._meter.github_requests_left
        budget = {} if requests_left is None else {"githubRequestsLeft": requests_left}
        yield Line(
            "pass",
            "",
            {"share": self._share, "whole": result.complete, "sinceWholeSec": round(now - since, 1), **budget},
        )
        for state in self._meter.states if result.complete else ():
            yield Line(
                "pool",
                state.pool,
                {
                    "pool": state.pool,
                    "queued": state.queued,
                    "queueAgeSec": round(state.queue_age_sec, 1),
                    "jobsOverObjective": state.over_objective,
                    "machines": state.machines,
                    "usdPerHour": round(state.usd_per_hour, 4),
                },
            )
