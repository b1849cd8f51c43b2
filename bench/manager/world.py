"""The simulated cloud and GitHub, equal for all policies: machines boot, stop or are preempted, runners take jobs."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from .history import Arrival, Place, Series

# Seconds. Assumptions, unless a source is named.
WEBHOOK_SEC = 1.0
INSERT_ANSWER_SEC = 10.0
FLEET_ANSWER_SEC = 3.0  # a request for all zones of a region: RunsOn's page "Spot pricing" names 2 to 3 s
BOOT_SEC = (120.0, 240.0)  # from the insert to the runner: terraform-aws-github-runner #1784 names 2 to 5 minutes
START_SEC = (
    40.0,
    70.0,
)  # from the start of a stopped machine: terraform-aws-github-runner #5204 names 10 to 30 s on AWS
STOP_SEC, OFF_SEC = 30.0, 10.0  # until a stopped machine costs only its disk, and a machine that is off costs nothing
CHECK_SEC = 10.8  # gpu-smoke's quick profile on a cold machine (bench/results/2026-11-23-h100-h200.md)
LOSS_SEEN_SEC = 30.0  # from a preemption until GitHub reports the failed job; Google's notice is 30 s
QUEUE_LIMIT_SEC = 24 * 3600.0  # docs.github.com, "Actions limits"


@dataclass
class Job:
    """A job with all its attempts. States: queued, in_progress, done, cancelled, failed, expired."""

    arrival: Arrival
    status: str = "queued"
    attempt: int = 1
    queued_at: float = 0.0
    began_at: float | None = None
    """The start of its first attempt."""
    done_at: float | None = None
    machine: Machine | None = None

    @property
    def number(self) -> int:
        return self.arrival.number


@dataclass
class Machine:
    """A machine with its one runner. States: booting, ready (without a runner), idle, busy, stopping, stopped, off."""

    name: str
    place: Place
    created: float
    state: str = "booting"
    boots: int = 1
    ready: int = 0
    """The number of the last completed boot."""
    ended: float | None = None
    stops: list[tuple[float, float | None]] = field(default_factory=list)
    job: Job | None = None
    preempted: bool = False
    deleted: bool = False

    def seconds_stopped(self, until: float) -> float:
        return sum(max(min(until if ended is None else ended, until) - began, 0.0) for began, ended in self.stops)

    def seconds_on(self, until: float) -> float:
        return (until if self.ended is None else self.ended) - self.created - self.seconds_stopped(until)


class Policy:
    """A runner manager. The world calls each method after the delay of a webhook, except `booted` and `changed`."""

    check_sec = 0.0
    idle_limit_sec: float | None = None
    """Seconds without a job after which the agent switches the machine off."""

    def __init__(self, world: World) -> None:
        self.world = world

    def begin(self) -> None:
        """Handle the start of the history."""

    def booted(self, machine: Machine) -> None:
        """Handle a booted machine: its agent registers the runner."""
        self.world.register(machine)

    def changed(self) -> None:
        """Handle any change, at once. A policy that polls may only use it to skip polls without a change."""

    def queued(self, job: Job) -> None:
        """Handle GitHub's event workflow_job with the action queued."""

    def completed(self, job: Job) -> None:
        """Handle the action completed with any conclusion."""

    def preempted(self, job: Job | None) -> None:
        """Handle the preemption of a machine that ran this job."""


@dataclass
class World:
    """One history with one policy."""

    places: Mapping[Place, Series]
    arrivals: Sequence[Arrival]
    until: float
    seed: int
    now: float = 0.0
    jobs: list[Job] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    active: dict[int, Job] = field(default_factory=dict)
    """Queued and running jobs by number, as GitHub lists them."""
    alive: dict[str, Machine] = field(default_factory=dict)
    policy: Policy = field(init=False)

    def __post_init__(self) -> None:
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._noise = random.Random(f"{self.seed} boots")

    def run(self, policy: Callable[[World], Policy]) -> World:
        """Run the whole history."""
        self.policy = policy(self)
        for arrival in self.arrivals:
            self.at(arrival.created, partial(self._arrive, Job(arrival)))
        for place, series in self.places.items():
            for when in series.outages() if place.market == "spot" else ():
                self.at(when, partial(self._preempt, place))
        self.policy.begin()
        while self._events and self._events[0][0] <= self.until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = self.until
        return self

    def at(self, when: float, event: Callable[[], object]) -> None:
        """Schedule an event. Events with the same time run in the order of the calls."""
        heapq.heappush(self._events, (when, next(self._order), event))

    def after(self, seconds: float, event: Callable[[], object]) -> None:
        self.at(self.now + seconds, event)

    def create(self, place: Place, name: str = "") -> Machine | None:
        """Create a machine, or return None if the place has no capacity."""
        if not self.places[place].at(self.now):
            return None
        machine = Machine(name or f"machine-{len(self.machines) + 1}", place, self.now)
        self.machines.append(machine)
        self._boot(machine, BOOT_SEC)
        return machine

    def start(self, machine: Machine) -> bool:
        """Start a stopped machine. Return False if its place has no capacity; the machine then stays stopped."""
        if not self.places[machine.place].at(self.now):
            return False
        machine.stops[-1] = (machine.stops[-1][0], self.now)
        machine.state, machine.boots = "booting", machine.boots + 1
        self._boot(machine, START_SEC)
        return True

    def stop(self, machine: Machine) -> None:
        """Stop a machine without a runner, to start it later."""
        machine.state = "stopping"
        self.after(STOP_SEC, lambda: self._stopped(machine))
        self.policy.changed()

    def end(self, machine: Machine, deleted: bool = False) -> None:
        """End the cost of a machine: it is switched off from inside, or deleted."""
        if machine.ended is None:
            if machine.state == "stopped":
                machine.stops[-1] = (machine.stops[-1][0], self.now)
            machine.ended, machine.state = self.now, "off"
            self.alive.pop(machine.name, None)
        machine.deleted = machine.deleted or deleted
        self.policy.changed()

    def _boot(self, machine: Machine, within_sec: tuple[float, float]) -> None:
        self.alive[machine.name] = machine
        seconds = self._noise.uniform(*within_sec) + self.policy.check_sec
        self.after(seconds, partial(self._booted, machine, machine.boots))
        self.policy.changed()

    def _booted(self, machine: Machine, boot: int) -> None:
        if machine.state == "booting" and machine.boots == boot:
            machine.state, machine.ready = "ready", boot
            self.policy.booted(machine)
            self.policy.changed()

    def _stopped(self, machine: Machine) -> None:
        if machine.state == "stopping":
            machine.state = "stopped"
            machine.stops.append((self.now, None))
            del self.alive[machine.name]
            self.policy.changed()

    def _preempt(self, place: Place) -> None:
        for machine in [each for each in self.alive.values() if each.place == place]:
            job = machine.job if machine.state == "busy" else None
            machine.preempted = True
            self.end(machine)
            if job:
                self.after(LOSS_SEEN_SEC, partial(self._end_job, job, job.attempt, "failed"))
            self.after(WEBHOOK_SEC, partial(self.policy.preempted, job))

    def register(self, machine: Machine) -> None:
        """Set the runner of a booted machine online."""
        if machine.state == "ready":
            machine.state = "idle"
            self._assign()
            if self.policy.idle_limit_sec is not None:
                self.after(self.policy.idle_limit_sec, lambda: machine.state == "idle" and self.end(machine))
            self.policy.changed()

    def rerun(self, job: Job) -> None:
        """Run a job again that failed or was cancelled."""
        job.attempt, job.machine = job.attempt + 1, None
        self._queue(job)

    def _arrive(self, job: Job) -> None:
        self.jobs.append(job)
        if job.arrival.cancelled_after_sec is not None:
            self.after(job.arrival.cancelled_after_sec, lambda: self._end_job(job, job.attempt, "cancelled"))
        self._queue(job)

    def _queue(self, job: Job) -> None:
        job.status, job.queued_at = "queued", self.now
        self.active[job.number] = job
        self.waiting.append(job)
        self.after(QUEUE_LIMIT_SEC, partial(self._expire, job, job.attempt))
        self._assign()
        self.after(WEBHOOK_SEC, lambda: self.policy.queued(job))
        self.policy.changed()

    def _assign(self) -> None:
        for machine in [each for each in self.alive.values() if each.state == "idle"]:
            if self.waiting:
                job = self.waiting.pop(0)
                job.status, job.machine, machine.state, machine.job = "in_progress", machine, "busy", job
                job.began_at = self.now if job.began_at is None else job.began_at
                self.after(job.arrival.duration_sec, partial(self._finish, job, job.attempt))

    def _finish(self, job: Job, attempt: int) -> None:
        if job.machine and not job.machine.preempted:
            self._end_job(job, attempt, "done")

    def _expire(self, job: Job, attempt: int) -> None:
        if job.status == "queued":
            self._end_job(job, attempt, "expired")

    def _end_job(self, job: Job, attempt: int, status: str) -> None:
        if job.attempt != attempt or job.status not in ("queued", "in_progress"):
            return
        if job in self.waiting:
            self.waiting.remove(job)
        job.status, machine = status, job.machine
        job.done_at = self.now if status == "done" else None
        del self.active[job.number]
        if machine and machine.ended is None:  # the runner takes one job, and then its machine switches itself off
            self.after(OFF_SEC, lambda: self.end(machine))
        self.after(WEBHOOK_SEC, lambda: self.policy.completed(job))
        self.policy.changed()
