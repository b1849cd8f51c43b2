"""Measurements for a Prometheus server on the same computer: http://127.0.0.1:PORT/metrics."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args
from wsgiref.simple_server import WSGIRequestHandler, make_server

from gpu_ci.machine_records import MachineRecord, Parts
from gpu_ci.monitoring.alerts import FAILED_REASONS
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

from ..budgets import Budgets
from ..decision.machines import JOB_DONE
from ..loop import PassResult
from ..model import InsertErrorKind, Pool
from ..ports import uptime
from .measure import CONCLUSIONS, Meter, Sample, conclusion_of

_REASON = re.compile("[a-z][a-z-]{1,30}")
_MOST_REASONS = 60
_SECONDS = (5, 15, 30, 60, 120, 240, 480, 900, 1800, 3600, 7200)


class _Handler(WSGIRequestHandler):
    """Answers one request of a connection, and reads no body. A client that sends nothing is cut off."""

    timeout = 5

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Log nothing: each scrape is a request."""


class Prometheus:
    """The metrics of one manager. docs/reference/runner-manager.md describes their names and labels."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._begun = uptime()
        self._complete_at: dict[int, float] = {}
        """The last pass of each loop that knew everything."""
        self._reasons = {JOB_DONE, *FAILED_REASONS}

        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(f"gpu_ci_{name}", about, labels, registry=self.registry)

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"gpu_ci_{name}", about, labels, registry=self.registry)

        def histogram(name: str, about: str) -> Histogram:
            return Histogram(f"gpu_ci_{name}", about, ("pool",), registry=self.registry, buckets=_SECONDS)

        self._queued = gauge("jobs_queued", "Number of jobs that wait for a runner.", "pool")
        self._age = gauge("queue_age_seconds", "Age of the oldest waiting job.", "pool")
        self._over = gauge("jobs_over_objective", "Number of jobs that wait longer than waitObjectiveSec.", "pool")
        self._machines = gauge("machines", "Number of machines by state.", "pool", "state")
        self._cost = gauge("usd_per_hour", "Catalog price of the machines that are on.", "pool")
        self._team = gauge("team_usd", "Catalog price of the team's machines in this month.", "team")
        self._budget = gauge("team_budget_usd", "Budget of the team for a month.", "team")
        self._left = gauge("github_requests_left", "Requests left of GitHub's limit for this hour.")
        self._since = gauge(
            "since_whole_pass_seconds", "Time since the last pass that knew jobs, runners and machines."
        )
        self._since.set_function(lambda: uptime() - min(self._complete_at.values(), default=self._begun))
        self._wait = histogram("job_wait_seconds", "Time from the creation of a job to its start.")
        self._spent = counter(
            "cost_usd", "Catalog price of machines that are gone, by what it was paid for.", "pool", "part"
        )
        self._jobs = counter("jobs", "Jobs that have ended, by GitHub's conclusion.", "pool", "conclusion")
        self._ended = counter("machines_ended", "Machines that are gone, by the reason of their end.", "pool", "reason")
        self._boot = histogram("machine_boot_seconds", "Time from the first listing of a machine to its runner.")
        self._inserts = counter("inserts", "Requested machines.", "pool")
        self._failed = counter("inserts_failed", "Requests for machines that Google refused.", "pool", "code")
        self._preempted = counter("preemptions", "Machines that Google preempted.", "pool")
        self._reruns = counter("reruns", "Reruns of jobs after a preemption.")

    def serve(self, port: int) -> int:
        """Serve on this port of 127.0.0.1, or on a free one for 0. Return the port. Raises OSError if it is taken."""
        app = make_wsgi_app(self.registry)

        def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            # A web page sends another host after DNS rebinding.
            if environ.get("HTTP_HOST") not in (f"127.0.0.1:{server.server_port}", f"localhost:{server.server_port}"):
                start_response("403 Forbidden", [])
                return []
            answer: Iterable[bytes] = app(environ, start_response)
            return answer

        server = make_server("127.0.0.1", port, guarded, handler_class=_Handler)
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        return int(server.server_port)

    def add(self, pools: Iterable[Pool]) -> None:
        """Create the counters and histograms of these pools with the value 0.

        A counter that begins with its first event has no increase for this event.
        """
        for pool in pools:
            for each in (self._wait, self._boot, self._inserts, self._preempted):
                each.labels(pool.name)
            for code in get_args(InsertErrorKind):
                self._failed.labels(pool.name, code)
            for part in Parts._fields:
                self._spent.labels(pool.name, part)
            for conclusion in CONCLUSIONS:
                self._jobs.labels(pool.name, conclusion)
            for reason in (JOB_DONE, *FAILED_REASONS):
                self._ended.labels(pool.name, reason)

    def take(self, meter: Meter, result: PassResult, samples: Sequence[Sample]) -> None:
        """Add the result of a pass. Call it after Meter.take, which measures the pass."""
        for sample in samples:
            self._count(sample)
        for new in result.records:
            self._add_record(new.record)
        if meter.github_requests_left is not None:
            self._left.set(meter.github_requests_left)
        self._complete_at.setdefault(id(meter), self._begun)
        if not result.complete:
            return
        self._complete_at[id(meter)] = uptime()
        for state in meter.states:
            self._queued.labels(state.pool).set(state.queued)
            self._age.labels(state.pool).set(state.queue_age_sec)
            self._over.labels(state.pool).set(state.over_objective)
            self._cost.labels(state.pool).set(state.usd_per_hour)
            for name, count in state.machines.items():
                self._machines.labels(state.pool, name).set(count)

    def set_budgets(self, budgets: Budgets) -> None:
        spent = budgets.spent
        for team in budgets.teams:
            self._team.labels(team.name).set(spent[team.name])
            self._budget.labels(team.name).set(team.usd_per_month)

    def _add_record(self, record: MachineRecord) -> None:
        for part, usd in record.parts(record.usd or 0.0)._asdict().items():
            self._spent.labels(record.pool, part).inc(usd)
        if record.job:
            self._jobs.labels(record.pool, conclusion_of(record)).inc()
        reason = record.end.reason if record.end else "unknown"
        # A job can write the reason of its machine's end, so the number of series is limited.
        if reason not in self._reasons and (len(self._reasons) == _MOST_REASONS or not _REASON.fullmatch(reason)):
            reason = "other"
        self._reasons.add(reason)
        self._ended.labels(record.pool, reason).inc()

    def _count(self, sample: Sample) -> None:
        if sample.kind == "wait":
            self._wait.labels(sample.pool).observe(sample.seconds)
        elif sample.kind == "boot":
            self._boot.labels(sample.pool).observe(sample.seconds)
        elif sample.kind == "insert":
            self._inserts.labels(sample.pool).inc()
        elif sample.kind == "insert-failed":
            self._failed.labels(sample.pool, sample.code).inc()
        elif sample.kind == "preempted":
            self._preempted.labels(sample.pool).inc()
        else:
            self._reruns.inc()
