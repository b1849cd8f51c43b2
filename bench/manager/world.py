"""The cloud and GitHub of the simulation: machines that boot, stop, start, are taken back and end, and runners that
take jobs.

What a policy decides is in its own module. What GitHub and the cloud do with it is here, and is the same for all.
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
"""From an event to its delivery."""
INSERT_ANSWER_SEC = 10.0
"""From instances.insert to the end of its operation, with a machine or without. An assumption."""
FLEET_ANSWER_SEC = 3.0
"""One request that looks at all zones of a region: RunsOn's page "Spot pricing" names 2 to 3 s for a fallback."""
BOOT_SEC = (120.0, 240.0)
"""From the insert to the registered runner: 2 to 5 minutes are named in terraform-aws-github-runner's issue 1784."""
START_SEC = (40.0, 70.0)
"""The same from the start of a stopped machine. An assumption: terraform-aws-github-runner's pull request 5204 names 10
to 30 s for stopped machines of AWS against 2 to 5 minutes; a machine with a GPU loads its driver, too."""
STOP_SEC = 30.0
"""From instances.stop to a machine that costs its disk alone; until then it costs all. An assumption."""
CHECK_SEC = 10.8
"""gpu-smoke's quick profile on a cold machine (bench/results/2026-11-23-h100-h200.md). Our machines alone run it, in
each boot."""
OFF_SEC = 10.0
"""From the end of a job to a machine that costs nothing."""
LOSS_SEEN_SEC = 30.0
"""From a preemption to GitHub's word that the job has failed. Google gives 30 s of notice."""
QUEUE_LIMIT_SEC = 24 * 3600.0
"""GitHub cancels a job that waited so long (docs.github.com, "Actions limits")."""

JobStatus = Literal["queued", "in_progress", "done", "cancelled", "failed", "expired"]


@dataclass
class Job:
    """A job through its attempts."""

    arrival: Arrival
    status: JobStatus = "queued"
    attempt: int = 1
    queued_at: float = 0.0
    began_at: float | None = None
    """Its first attempt."""
    done_at: float | None = None
    machine: Machine | None = None
    reruns: int = 0

    @property
    def number(self) -> int:
        return self.arrival.number


@dataclass
class Machine:
    """A machine and its one runner."""

    name: str
    place: Place
    created: float
    state: Literal["booting", "ready", "idle", "busy", "stopping", "stopped", "off"] = "booting"
    """Ready: it has booted, and has no runner. Stopped: it may be started again; off: it never runs again."""
    boots: int = 1
    """Those that have begun."""
    ready: int = 0
    """The last one that was whole."""
    idle_since: float | None = None
    ended: float | None = None
    """When it stopped to cost money."""
    stops: list[tuple[float, float | None]] = field(default_factory=list)
    """From when to when it was stopped."""
    job: Job | None = None
    """The one that it runs or ran."""
    taken_back: bool = False
    deleted: bool = False

    def seconds_stopped(self, until: float) -> float:
        """How long it has cost its disk alone."""
        ends = [(began, until if ended is None else ended) for began, ended in self.stops]
        return sum(max(min(ended, until) - began, 0.0) for began, ended in ends)

    def seconds_on(self, until: float) -> float:
        """How long it has cost all."""
        return (until if self.ended is None else self.ended) - self.created - self.seconds_stopped(until)


class Policy:
    """What reacts to webhooks, or polls. All methods are called at the time of the event plus the webhook's delay."""

    check_sec = 0.0
    """Added to a machine's boot."""
    idle_limit_sec: float | None = None
    """After so long without a job the agent on the machine switches it off."""

    def __init__(self, world: World) -> None:
        self.world = world

    def begin(self) -> None:
        """Called once, before the first event."""

    def booted(self, machine: Machine) -> None:
        """The machine has booted, and its agent does what the policy has told it: it registers its runner."""
        self.world.register(machine)

    def changed(self) -> None:
        """Called at once at any change of a job or a machine. For policies that poll, so that they need not poll
        while nothing changes; the time of the change is no information."""

    def queued(self, job: Job) -> None:
        """GitHub's event workflow_job with the action queued."""

    def completed(self, job: Job, machine: Machine | None) -> None:
        """The action completed, of any conclusion; the machine is None for a job that never began."""

    def taken_back(self, machine: Machine, job: Job | None) -> None:
        """The cloud has taken the machine back; the job is the one that it ran."""


@dataclass
class World:
    """One history, as one policy lives it."""

    places: Mapping[Place, Series]
    arrivals: Sequence[Arrival]
    until: float
    """The end of the history: machines that still run are counted up to here."""
    seed: int
    depth: int | None = None
    """How many machines a place has at most; None for any number."""
    start_sec: tuple[float, float] = START_SEC
    now: float = 0.0
    jobs: list[Job] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)
    """All that ever were."""
    policy: Policy = field(init=False)

    def __post_init__(self) -> None:
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._noise = random.Random(f"{self.seed} boots")
        self.waiting: list[Job] = []
        self.active: dict[int, Job] = {}
        """Queued and running jobs by number, as GitHub lists them."""
        self.alive: dict[str, Machine] = {}
        """Those that are on, by name."""
        self._idle: list[Machine] = []

    def run(self, policy: Callable[[World], Policy]) -> None:
        """Live the whole history."""
        self.policy = policy(self)
        for arrival in self.arrivals:
            self.at(arrival.created, partial(self._arrive, Job(arrival)))
        for place, series in self.places.items():
            if place.market == "spot":
                for when in series.outages():
                    self.at(when, partial(self._take_back, place))
        self.policy.begin()
        while self._events and self._events[0][0] <= self.until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = self.until

    def at(self, when: float, event: Callable[[], None]) -> None:
        """Do it then; in the order of the calls where two have the same time."""
        heapq.heappush(self._events, (when, next(self._order), event))

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        self.at(self.now + seconds, event)

    # --- the cloud

    def available(self, place: Place) -> bool:
        if not self.places[place].at(self.now):
            return False
        return self.depth is None or sum(each.place == place for each in self.alive.values()) < self.depth

    def create(self, place: Place, name: str = "") -> Machine | None:
        """A machine, or None where the place has none."""
        if not self.available(place):
            return None
        machine = Machine(name or f"machine-{len(self.machines) + 1}", place, self.now)
        self.machines.append(machine)
        self.alive[machine.name] = machine
        self._boot(machine, BOOT_SEC)
        return machine

    def stop(self, machine: Machine) -> None:
        """Stop a machine that has no runner, to start it later."""
        if machine.state != "ready":
            raise ValueError(f"{machine.name} is {machine.state}")
        machine.state = "stopping"
        self.after(STOP_SEC, lambda: self._stopped(machine))
        self.policy.changed()

    def start(self, machine: Machine) -> bool:
        """Start a stopped machine. False where its place has none: it stays stopped."""
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
        """Stop paying for it, whatever it does."""
        self._end(machine)
        machine.deleted = True
        self.policy.changed()

    def end(self, machine: Machine) -> None:
        """It switches itself off, and costs nothing any more."""
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

    def _take_back(self, place: Place) -> None:
        for machine in [each for each in self.alive.values() if each.place == place]:
            job = machine.job if machine.state == "busy" else None
            machine.taken_back = True
            self._end(machine)
            if job:
                self.after(LOSS_SEEN_SEC, partial(self._fail, job, machine))
            self.after(WEBHOOK_SEC, partial(self.policy.taken_back, machine, job))
            self.policy.changed()

    # --- GitHub

    def unregister(self, machine: Machine) -> bool:
        """Whether the runner is gone now: GitHub refuses that for one that runs a job."""
        if machine.state == "busy":
            return False
        if machine in self._idle:
            self._idle.remove(machine)
        return True

    def rerun(self, job: Job) -> None:
        """Run a job again that failed, or was cancelled while its machine was taken back."""
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
        """The runner of a machine that has booted is online."""
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
        if job.status == "in_progress" and job.attempt == attempt and job.machine and not job.machine.taken_back:
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
            # The runner takes one job. Its machine switches itself off.
            self.after(OFF_SEC, lambda: self.end(machine))
        self.after(WEBHOOK_SEC, lambda: self.policy.completed(job, machine))
        self.policy.changed()
