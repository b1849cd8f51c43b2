"""What one pass says of the queue, the machines and their cost. It asks nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpu_catalog.locations import region_of

from ..decision import jobs, standby
from ..loop import Pass
from ..memory import Memory
from ..model import Job, JobKey, Machine, Pool
from ..view import machine_status

STATES = ("booting", "idle", "busy", "stopping", "standby", "off")
"""Of machines."""


@dataclass(frozen=True)
class Sample:
    """One thing that happened, once."""

    kind: Literal["wait", "boot", "insert", "insert-failed", "preempted", "rerun"]
    pool: str
    subject: str
    """The job, machine or run."""
    seconds: float = 0.0
    """Of a wait: from the job's creation to its start. Of a boot: from the machine's first listing to its runner."""
    code: str = ""
    """Of a failed insert: no-capacity, over-quota or refused."""


@dataclass(frozen=True)
class PoolState:
    """One pool at the end of a pass."""

    pool: str
    queued: int
    """Jobs that wait for a runner, with or without a machine on its way."""
    queue_age_sec: float
    """Age of the oldest of them; 0 where none waits."""
    over_objective: int
    """Those that wait longer than the pool's waitObjectiveSec."""
    machines: dict[str, int]
    """By state; all of STATES."""
    usd_per_hour: float
    """Of the machines that are on, by the catalog's prices. Machines without a price count as 0."""


@dataclass
class Meter:
    """Measures one manager, pass by pass."""

    pools: Sequence[Pool]
    """All of the stack."""
    own: Collection[str] | None = None
    """Those of this manager's share; None for all."""
    states: list[PoolState] = field(default_factory=list)
    """Of the last pass that knew jobs, machines and runners."""
    github_requests_left: int | None = None
    _before: Memory | None = None
    """The memory after the last pass; None before the first one."""
    _running: set[JobKey] | None = None
    """Jobs that ran in the last pass that knew jobs."""

    def take(self, done: Pass) -> list[Sample]:
        """Take in a pass; what happened since the last one."""
        samples = [*self._of_events(done), *self._of_machines(done), *self._of_jobs(done)]
        self._before = done.decision.memory
        if done.seen.github_requests_left is not None:
            self.github_requests_left = done.seen.github_requests_left
        if done.whole:
            self.states = self._states(done)
        return samples

    def _of_events(self, done: Pass) -> Iterator[Sample]:
        for event in done.events:
            if event.kind in ("insert", "insert-failed", "rerun"):
                yield Sample(event.kind, event.pool, event.subject, code=event.code)  # type: ignore[arg-type]

    def _of_machines(self, done: Pass) -> Iterator[Sample]:
        """Boots and preemptions: what differs from the memory before."""
        if self._before is None:
            return
        taken = done.seen.preempted | {each.name for each in done.seen.machines or () if each.preempted}
        after = done.decision.memory.machines
        for name, known in self._before.machines.items():
            if not known.taken_back and (name in taken or (name in after and after[name].taken_back)):
                yield Sample("preempted", known.pool, name)
            if not known.registered and name in after and after[name].registered:
                yield Sample("boot", known.pool, name, done.seen.now - known.first_seen)

    def _of_jobs(self, done: Pass) -> Iterator[Sample]:
        """The waits of jobs that began to run since the last pass."""
        if done.seen.jobs is None or done.seen.machines is None:
            return
        pool_of = {machine.name: machine.pool for machine in done.seen.machines}
        running = {job.key: job for job in done.seen.jobs if job.status == "in_progress"}
        for key, job in running.items():
            if self._running is not None and key not in self._running and job.runner_name in pool_of:
                started = job.started_unix or done.seen.github_unix
                wait_sec = max(started - job.created_unix, 0.0)
                yield Sample("wait", pool_of[job.runner_name], f"{key.repository}#{key.job_id}", wait_sec)
        self._running = set(running)

    def _states(self, done: Pass) -> list[PoolState]:
        seen = done.seen
        ages: dict[str, list[float]] = {pool.name: [] for pool in self.pools}
        # Several pools may serve a job. It counts for the first one.
        for job, fitting in jobs.queue(self.pools, seen.jobs or (), seen.github_unix)[0]:
            ages[fitting[0].name].append(seen.github_unix - job.created_unix)
        runners = {runner.name for runner in seen.runners or ()}
        working = {job.runner_name: job for job in seen.jobs or () if job.status == "in_progress"}
        return [
            _state(
                pool,
                ages[pool.name],
                [machine for machine in seen.machines or () if machine.pool == pool.name],
                runners,
                working,
                done.decision.memory,
            )
            for pool in self.pools
            if self.own is None or pool.name in self.own
        ]


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
        usd_per_hour=sum(_usd_per_hour(pool, each) for each in machines if not each.off),
    )


def _machine_state(machine: Machine, registered: bool, job: Job | None, memory: Memory) -> str:
    found = machine_status(machine, registered, job, standby.is_kept_off(machine, memory))
    if found in STATES:
        return found
    return "booting" if machine.status in ("PROVISIONING", "STAGING") else "stopping"


def _usd_per_hour(pool: Pool, machine: Machine) -> float:
    """The price of a rung that could have made it: prices differ by region and not by zone."""
    region = region_of(machine.zone)
    for rung in pool.rungs:
        if (rung.region, rung.machine_type, rung.market) == (region, machine.machine_type, machine.market):
            return rung.usd_per_hour or 0.0
    return 0.0
