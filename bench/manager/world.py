"""The simulated cloud and GitHub: machines that boot, stop, start, end or are preempted, and runners that take jobs.

The decisions of a policy are in its own module. The reactions of GitHub and of the cloud are here and equal for all.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from .arrivals import Arrival
from .availability import Place, Series

WEBHOOK_SEC = 1.0
"""Seconds from an event to its delivery."""
INSERT_ANSWER_SEC = 10.0
"""Seconds from instances.insert to the end of its operation, with or without a machine. An assumption."""
FLEET_ANSWER_SEC = 3.0
"""One request that covers all zones of a region: RunsOn's page "Spot pricing" names 2 to 3 s for a fallback."""
BOOT_SEC = (120.0, 240.0)
"""Seconds from the insert to the registered runner: terraform-aws-github-runner's issue 1784 names 2 to 5 minutes."""
START_SEC = (40.0, 70.0)
"""Seconds from the start of a stopped machine to the registered runner. An assumption: terraform-aws-github-runner's
pull request 5204 names 10 to 30 s for stopped machines of AWS, compared with 2 to 5 minutes. A machine with a GPU must
load its driver too.
"""
STOP_SEC = 30.0
"""Seconds from instances.stop until only the disk costs money. Until then the machine has its full price. An
assumption.
"""
CHECK_SEC = 10.8
"""gpu-smoke's quick profile on a cold machine (bench/results/2026-11-23-h100-h200.md). Only our machines run it, in
each boot.
"""
OFF_SEC = 10.0
"""Seconds from the end of a job until its machine costs nothing."""
LOSS_SEEN_SEC = 30.0
"""Seconds from a preemption until GitHub reports the job as failed. Google's notice is 30 s."""
QUEUE_LIMIT_SEC = 24 * 3600.0
"""GitHub cancels a job that waited for this time (docs.github.com, "Actions limits")."""

JobStatus = Literal["queued", "in_progress", "done", "cancelled", "failed", "expired"]


@dataclass
class Job:
    """A job with all its attempts."""

    arrival: Arrival
    status: JobStatus = "queued"
    attempt: int = 1
    queued_at: float = 0.0
    began_at: float | None = None
    """The start of its first attempt."""
    done_at: float | None = None
    machine: Machine | None = None
    reruns: int = 0

    @property
    def number(self) -> int:
        return self.arrival.number


@dataclass
class Machine:
    """A machine with its one runner."""

    name: str
    place: Place
    created: float
    state: Literal["booting", "ready", "idle", "busy", "stopping", "stopped", "off"] = "booting"
    """ready: booted and without a runner; stopped: can start again; off: never runs again."""
    boots: int = 1
    """The number of boots that have begun."""
    ready: int = 0
    """The number of the last completed boot."""
    idle_since: float | None = None
    ended: float | None = None
    """When it stopped costing money."""
    stops: list[tuple[float, float | None]] = field(default_factory=list)
    """The start and end of each stop."""
    job: Job | None = None
    """The job that it runs or ran."""
    preempted: bool = False
    deleted: bool = False

    def seconds_stopped(self, until: float) -> float:
        """Return the seconds in which only its disk cost money."""
        ends = [(began, until if ended is None else ended) for began, ended in self.stops]
        return sum(max(min(ended, until) - began, 0.0) for began, ended in ends)

    def seconds_on(self, until: float) -> float:
        """Return the seconds in which it had its full price."""
        return (until if self.ended is None else self.ended) - self.created - self.seconds_stopped(until)


class Policy:
    """A runner manager, which reacts to webhooks or polls. The world calls each method after the webhook's delay."""

    check_sec = 0.0
    """Seconds that are added to a machine's boot."""
    idle_limit_sec: float | None = None
    """Seconds without a job after which the agent switches the machine off."""

    def __init__(self, world: World) -> None:
        self.world = world

    def begin(self) -> None:
        """Handle the start of the history, before the first event."""

    def booted(self, machine: Machine) -> None:
        """Handle a booted machine: its agent registers the runner."""
        self.world.register(machine)

    def changed(self) -> None:
        """Handle a change of a job or a machine. The world calls it without a delay.

        A policy that polls uses it only to skip polls without a change, and must not use the time of the call.
        """

    def queued(self, job: Job) -> None:
        """Handle GitHub's event workflow_job with the action queued."""

    def completed(self, job: Job, machine: Machine | None) -> None:
        """Handle the action completed with any conclusion. A job that never started has no machine (None)."""

    def preempted(self, machine: Machine, job: Job | None) -> None:
        """Handle the preemption of a machine that ran this job."""


@dataclass
class World:
    """One history with one policy."""

    places: Mapping[Place, Series]
    arrivals: Sequence[Arrival]
    until: float
    """The end of the history. The cost of running machines counts up to this time."""
    seed: int
    depth: int | None = None
    """The most machines of a place; None for any number."""
    start_sec: tuple[float, float] = START_SEC
    now: float = 0.0
    jobs: list[Job] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)
    """All machines that ever existed."""
    policy: Policy = field(init=False)

    def __post_init__(self) -> None:
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._noise = random.Random(f"{self.seed} boots")
        self.waiting: list[Job] = []
        self.active: dict[int, Job] = {}
        """Queued and running jobs by number, as GitHub lists them."""
        self.alive: dict[str, Machine] = {}
        """The machines that are on, by name."""
        self._idle: list[Machine] = []

    def run(self, policy: Callable[[World], Policy]) -> None:
        """Run the whole history."""
        self.policy = policy(self)
        for arrival in self.arrivals:
            self.at(arrival.created, partial(self._arrive, Job(arrival)))
        for place, series in self.places.items():
            if place.market == "spot":
                for when in series.outages():
                    self.at(when, partial(self._preempt, place))
        self.policy.begin()
        while self._events and self._events[0][0] <= self.until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = self.until

    def at(self, when: float, event: Callable[[], None]) -> None:
        """Schedule an event. Events with the same time run in the order of the calls."""
        heapq.heappush(self._events, (when, next(self._order), event))

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        self.at(self.now + seconds, event)

    # --- the cloud

    def available(self, place: Place) -> bool:
        if not self.places[place].at(self.now):
            return False
        return self.depth is None or sum(each.place == place for each in self.alive.values()) < self.depth

    def create(self, place: Place, name: str = "") -> Machine | None:
        """Create a machine, or return None if the place has no capacity."""
        if not self.available(place):
            return None
        machine = Machine(name or f"machine-{len(self.machines) + 1}", place, self.now)
        self.machines.append(machine)
        self.alive[machine.name] = machine
        self._boot(machine, BOOT_SEC)
        return machine

    def stop(self, machine: Machine) -> None:
        """Stop a machine without a runner, to start it later."""
        if machine.state != "ready":
            raise ValueError(f"{machine.name} is {machine.state}")
        machine.state = "stopping"
        self.after(STOP_SEC, lambda: self._stopped(machine))
        self.policy.changed()

    def start(self, machine: Machine) -> bool:
        """Start a stopped machine. Return False if its place has no capacity; the machine then stays stopped."""
        if machine.state != "stopped":
            raise ValueError(f"{machine.name} is {machine.state}")
        if not self.available(machine.place):
            return False
        machine.stops[-1] = (machine.stops[-1][0], self.now)
        machine.state, machine.boots = "booting", machine.boots + 1
        self.alive[machine.name] = machine
        self._boot(machine, self.start_sec)
        return True

    def _boot(self, machine: Machine, within_sec: tuple[float, float]) -> None:
        boot_sec = self._noise.uniform(*within_sec) + self.policy.check_sec
        self.after(boot_sec, partial(self._booted, machine, machine.boots))
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

    def delete(self, machine: Machine) -> None:
        """Delete the machine in any state, which ends its cost."""
        self._end(machine)
        machine.deleted = True
        self.policy.changed()

    def end(self, machine: Machine) -> None:
        """Switch the machine off from inside, which ends its cost."""
        self._end(machine)
        self.policy.changed()

    def _end(self, machine: Machine) -> None:
        if machine.ended is None:
            if machine.state == "stopped":
                machine.stops[-1] = (machine.stops[-1][0], self.now)
            machine.ended, machine.state = self.now, "off"
            self.alive.pop(machine.name, None)
            if machine in self._idle:
                self._idle.remove(machine)

    def _preempt(self, place: Place) -> None:
        for machine in [each for each in self.alive.values() if each.place == place]:
            job = machine.job if machine.state == "busy" else None
            machine.preempted = True
            self._end(machine)
            if job:
                self.after(LOSS_SEEN_SEC, partial(self._fail, job, machine))
            self.after(WEBHOOK_SEC, partial(self.policy.preempted, machine, job))
            self.policy.changed()

    # --- GitHub

    def unregister(self, machine: Machine) -> bool:
        """Return True if the runner is gone. GitHub refuses to unregister a runner that runs a job."""
        if machine.state == "busy":
            return False
        if machine in self._idle:
            self._idle.remove(machine)
        return True

    def rerun(self, job: Job) -> None:
        """Run a job again that failed, or that was cancelled by a preemption."""
        if job.status not in ("failed", "cancelled"):
            raise ValueError(f"job {job.number} is {job.status}")
        job.attempt, job.reruns, job.machine = job.attempt + 1, job.reruns + 1, None
        self._queue(job)

    def _arrive(self, job: Job) -> None:
        self.jobs.append(job)
        if job.arrival.cancelled_after_sec is not None:
            self.after(job.arrival.cancelled_after_sec, lambda: self._cancel(job))
        self._queue(job)

    def _queue(self, job: Job) -> None:
        job.status, job.queued_at = "queued", self.now
        self.active[job.number] = job
        self.waiting.append(job)
        self.after(QUEUE_LIMIT_SEC, partial(self._expire, job, job.attempt))
        self._assign()
        self.after(WEBHOOK_SEC, lambda: self.policy.queued(job))
        self.policy.changed()

    def register(self, machine: Machine) -> None:
        """Set the runner of a booted machine online."""
        if machine.state == "ready":
            machine.state, machine.idle_since = "idle", self.now
            self._idle.append(machine)
            self._assign()
            if self.policy.idle_limit_sec is not None:
                self.after(self.policy.idle_limit_sec, lambda: self._end_idle(machine))
            self.policy.changed()

    def _end_idle(self, machine: Machine) -> None:
        if machine.state == "idle":
            self.end(machine)

    def _assign(self) -> None:
        while self.waiting and self._idle:
            job, machine = self.waiting.pop(0), self._idle.pop(0)
            job.status, job.machine, machine.state, machine.job = "in_progress", machine, "busy", job
            if job.began_at is None:
                job.began_at = self.now
            self.after(
                job.arrival.duration_sec,
                partial(self._finish, job, job.attempt),
            )

    def _finish(self, job: Job, attempt: int) -> None:
        if job.status == "in_progress" and job.attempt == attempt and job.machine and not job.machine.preempted:
            job.status, job.done_at = "done", self.now
            self._completed(job)

    def _cancel(self, job: Job) -> None:
        if job.status in ("queued", "in_progress"):
            if job in self.waiting:
                self.waiting.remove(job)
            job.status = "cancelled"
            self._completed(job)

    def _expire(self, job: Job, attempt: int) -> None:
        if job.status == "queued" and job.attempt == attempt:
            self.waiting.remove(job)
            job.status = "expired"
            self._completed(job)

    def _fail(self, job: Job, machine: Machine) -> None:
        if job.status == "in_progress" and job.machine is machine:
            job.status = "failed"
            self._completed(job)

    def _completed(self, job: Job) -> None:
        machine = job.machine
        del self.active[job.number]
        if machine and machine.ended is None:
            # The runner takes one job, and then its machine switches itself off.
            self.after(OFF_SEC, lambda: self.end(machine))
        self.after(WEBHOOK_SEC, lambda: self.policy.completed(job, machine))
        self.policy.changed()
