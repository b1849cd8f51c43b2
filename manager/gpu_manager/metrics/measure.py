"""Measures a pass: the queue, the machines and their cost. The results are samples and states of pools.

A sample is one event, such as a job that started after a wait. Log-based metrics read the lines of LogLines
(components/gpu_ci/gcp/manager_metrics.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_ci.machine_records import JobOfMachine, MachineRecord

from ..budgets import Budgets
from ..decision import jobs
from ..loop import PassResult
from ..memory import Memory
from ..model import Job, JobKey, Machine, Pool
from ..ports import uptime
from ..view import machine_status

STATES = ("waiting", "booting", "idle", "busy", "stopping", "standby", "off")
"""The states of machines. One that is waiting does not exist yet: Google still looks for capacity for it."""
CONCLUSIONS = ("success", "failure", "cancelled", "lost", "other")
"""How jobs end: GitHub's conclusions, and `lost` for a job whose machine the supplier took back."""
PERIOD_SEC = 60.0
"""Cloud Monitoring keeps one point a minute of a log-based metric (cloud.google.com/monitoring/api/metrics_gcp)."""


@dataclass(frozen=True)
class Sample:
    """One event, counted once."""

    kind: Literal["wait", "boot", "insert", "insert-failed", "preempted", "rerun"]
    pool: str
    subject: str
    """The job, machine or run."""
    seconds: float = 0.0
    """The duration of a wait, from a job's creation to its start, or of a boot, from a machine's first listing to its
    runner.
    """
    code: str = ""
    """The code of a failed insert: no-capacity, over-quota or refused."""


@dataclass(frozen=True)
class PoolState:
    """The state of one pool at the end of a pass."""

    pool: str
    queued: int
    """The number of jobs that wait for a runner, with or without a machine that starts."""
    queue_age_sec: float
    """The age of the oldest waiting job; 0 if none waits."""
    over_objective: int
    """The number of jobs that wait longer than the pool's waitObjectiveSec."""
    machines: dict[str, int]
    """The number of machines by state, for all of STATES."""
    usd_per_hour: float
    """The catalog price of the machines that are on. A machine without a price counts as 0."""


@dataclass
class Meter:
    """Measures the passes of one manager."""

    pools: Sequence[Pool]
    states: list[PoolState] = field(default_factory=list)
    """The states after the last pass that knew jobs, machines and runners."""
    github_requests_left: int | None = None
    _before: Memory | None = None
    """The memory after the last pass; None before the first one."""
    _running: set[JobKey] | None = None
    """The running jobs in the last pass that knew jobs."""

    def take(self, result: PassResult) -> list[Sample]:
        """Add a pass, and return the events since the last one."""
        samples = [*self._of_events(result), *self._of_machines(result), *self._of_jobs(result)]
        for new in result.records:
            if (job := new.record.job) is None:
                continue
            if not new.job_was_seen:
                samples.append(_wait_of(new.record, job))
            if not new.boot_was_seen:
                samples += _boot_of(new.record, job)
        self._before = result.decision.memory
        if result.observation.github_requests_left is not None:
            self.github_requests_left = result.observation.github_requests_left
        if result.complete:
            self.states = self._states(result)
        return samples

    def _of_events(self, result: PassResult) -> Iterator[Sample]:
        for event in result.events:
            if event.kind in ("insert", "insert-failed", "rerun"):
                yield Sample(event.kind, event.pool, event.subject, code=event.code)  # type: ignore[arg-type]

    def _of_machines(self, result: PassResult) -> Iterator[Sample]:
        """Return the boots and preemptions since the last pass, from the difference of the two memories."""
        if self._before is None:
            return
        after = result.decision.memory.machines
        for machine in result.observation.machines or ():
            entry = after.get(machine.name)
            # A machine that has its runner in the first list that contains it.
            if machine.name not in self._before.machines and entry and entry.registered and machine.on_unix:
                yield Sample("boot", entry.pool, machine.name, result.observation.now - machine.on_unix)
        for name, entry in self._before.machines.items():
            if not entry.taken_back and (
                name in result.observation.preempted or (name in after and after[name].taken_back)
            ):
                yield Sample("preempted", entry.pool, name)
            if not entry.registered and name in after and after[name].registered:
                yield Sample("boot", entry.pool, name, result.observation.now - entry.first_seen)

    def _of_jobs(self, result: PassResult) -> Iterator[Sample]:
        """Return the waits of jobs that started since the last pass."""
        if result.observation.jobs is None or result.observation.machines is None:
            return
        pool_of = {machine.name: machine.pool for machine in result.observation.machines}
        running = {job.key: job for job in result.observation.jobs if job.status == "in_progress"}
        for key, job in running.items():
            if self._running is not None and key not in self._running and job.runner_name in pool_of:
                started = job.started_unix or result.observation.github_unix
                wait_sec = max(started - job.created_unix, 0.0)
                yield Sample("wait", pool_of[job.runner_name], f"{key.repository}#{key.job_id}", wait_sec)
        self._running = set(running)

    def _states(self, result: PassResult) -> list[PoolState]:
        observation = result.observation
        ages: dict[str, list[float]] = {pool.name: [] for pool in self.pools}
        # A job that fits several pools counts for the first one.
        waiting, _ = jobs.queue(self.pools, observation.jobs or (), observation.github_unix, observation.over_budget)
        for job, fitting in waiting:
            ages[fitting[0].name].append(observation.github_unix - job.created_unix)
        runners = {runner.name for runner in observation.runners or ()}
        working = {job.runner_name: job for job in observation.jobs or () if job.status == "in_progress"}
        return [
            _state(
                pool,
                ages[pool.name],
                [machine for machine in observation.machines or () if machine.pool == pool.name],
                runners,
                working,
                result.decision.memory,
            )
            for pool in self.pools
        ]


def _wait_of(record: MachineRecord, job: JobOfMachine) -> Sample:
    """Return the wait of a job that began and ended between two passes."""
    wait_sec = max((job.started - job.created).total_seconds(), 0.0)
    return Sample("wait", record.pool, f"{job.repository}#{job.id}", wait_sec)


def _boot_of(record: MachineRecord, job: JobOfMachine) -> Iterator[Sample]:
    """Yield the boot of a machine whose runner no pass saw: until its job started, which is soon after its runner."""
    begin = max((begin for begin, _ in record.on if begin <= job.started), default=None)
    if begin is not None:
        yield Sample("boot", record.pool, record.machine, (job.started - begin).total_seconds())


def conclusion_of(record: MachineRecord) -> str:
    """Return how the job of a machine ended, as one of CONCLUSIONS."""
    conclusion = record.job.conclusion if record.job else ""
    if record.is_lost:
        return "lost"
    return conclusion if conclusion in CONCLUSIONS else "other"


def _state(
    pool: Pool, ages: list[float], machines: list[Machine], runners: set[str], working: dict[str, Job], memory: Memory
) -> PoolState:
    counted = Counter(_machine_state(each, each.name in runners, working.get(each.name), memory) for each in machines)
    objective = pool.wait_objective_sec
    return PoolState(
        pool=pool.name,
        queued=len(ages),
        queue_age_sec=max(ages, default=0.0),
        over_objective=sum(objective is not None and age > objective for age in ages),
        machines={state: counted[state] for state in STATES},
        usd_per_hour=sum(_usd_per_hour(pool, each) for each in machines if not (each.off or each.waits_for_capacity)),
    )


def _machine_state(machine: Machine, registered: bool, job: Job | None, memory: Memory) -> str:
    if machine.waits_for_capacity:
        return "waiting"
    found = machine_status(machine, registered, job, memory)
    if found in STATES:
        return found
    if found == "warm":
        return "idle"
    return "booting" if machine.status in ("PROVISIONING", "STAGING") else "stopping"


def _usd_per_hour(pool: Pool, machine: Machine) -> float:
    """Return the price of a rung that matches the machine. Prices differ by region but not by zone."""
    for rung in pool.rungs:
        if (rung.region, rung.machine_type, rung.market) == (machine.region, machine.machine_type, machine.market):
            return rung.usd_per_hour or 0.0
    return 0.0


class LogLines:
    """The lines of the log: samples and costs in their pass, and the states of pools and budgets once a minute."""

    def __init__(
        self, meter: Meter, now: Callable[[], float] = uptime, share: int = 1, budgets: Budgets | None = None
    ) -> None:
        self._meter = meter
        self._budgets = budgets
        self._share = share
        self._now = now
        self._begun = now()
        self._complete_at: float | None = None
        self._written_at = float("-inf")

    def of(self, result: PassResult, samples: Sequence[Sample]) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Return the lines that a pass adds to the log: the event, its subject, and its own fields."""
        for sample in samples:
            if sample.kind == "wait":
                yield "job-started", sample.subject, {"pool": sample.pool, "waitSec": round(sample.seconds, 1)}
            elif sample.kind == "boot":
                yield "boot", sample.subject, {"pool": sample.pool, "bootSec": round(sample.seconds, 1)}
            elif sample.kind == "preempted":
                yield "preempted", sample.subject, {"pool": sample.pool}
        for record in (new.record for new in result.records):
            for part, usd in record.parts(record.usd or 0.0)._asdict().items():
                if usd:
                    yield "cost", record.machine, {"pool": record.pool, "part": part, "usd": round(usd, 6)}
        now = self._now()
        if result.complete:
            self._complete_at = now
        if now - self._written_at < PERIOD_SEC:
            return
        self._written_at = now
        since = self._begun if self._complete_at is None else self._complete_at
        requests_left = self._meter.github_requests_left
        budget = {} if requests_left is None else {"githubRequestsLeft": requests_left}
        # The metric of whole passes has the label `share`: the number of the supplier's loop.
        whole: dict[str, Any] = {"whole": result.complete, "sinceWholeSec": round(now - since, 1)}
        yield "pass", "", {"share": self._share, **whole, **budget}
        for state in self._meter.states if result.complete else ():
            fields = {
                "pool": state.pool,
                "queued": state.queued,
                "queueAgeSec": round(state.queue_age_sec, 1),
                "jobsOverObjective": state.over_objective,
                "machines": state.machines,
                "usdPerHour": round(state.usd_per_hour, 4),
            }
            yield "pool", state.pool, fields
        spent = self._budgets.spent if self._budgets else {}
        for team in self._budgets.teams if self._budgets else ():
            ratio = spent[team.name] / team.usd_per_month
            yield "team", team.name, {"team": team.name, "usd": round(spent[team.name], 4), "budgetRatio": ratio}
