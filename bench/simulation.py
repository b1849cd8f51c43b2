"""The simulated cloud and GitHub, equal for all policies: jobs of a week of CI, zones, machines and runners.

We chose the parameters of the jobs, because we found no public record of GPU jobs. The availability of zones has the
shares, outages and correlations of skypilot-org/spot-traces@221da1a (availability/1-node/aws-02-15-2023: nine zones of
AWS, 45 days, one V100). That repository has no licence file, so no recording is included.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import NormalDist
from typing import NamedTuple

from gpu_catalog.locations import region_of

STEP_SEC = 195.0
_PUSHES_A_DAY = (40.0,) * 5 + (8.0,) * 2
# The weight of each hour (UTC) in a day's pushes, the jobs of a push (a matrix), and the length of a job: half are
# shorter than 12 minutes, and one in twenty is longer than an hour.
_HOURS = (1, 1, 3, 1, 1, 1, 2, 4, 8, 10, 11, 9, 6, 8, 10, 11, 9, 7, 5, 3, 2, 2, 1, 1)
_JOBS = (1, 1, 2, 2, 3, 4)
_MEDIAN_SEC, _SPREAD, _LONGEST_SEC = 720.0, 1.0, 6 * 3600.0
# A newer push cancels the jobs of an earlier push within 15 minutes.
_CANCELLED_SHARE, _CANCELLED_WITHIN_SEC = 0.08, 900.0

# The share of time in which each recorded zone had spot machines. The regions have Google's names, for prices.
SHARES: Mapping[str, float] = {
    "us-east1-b": 0.47, "us-east1-c": 0.45, "us-east1-d": 0.59, "us-east1-a": 0.17, "us-west1-a": 0.76,
    "us-west1-b": 0.68, "us-central1-a": 0.88, "us-central1-b": 0.90, "us-central1-c": 0.89,
}  # fmt: skip
# An assumption, because we found no recording of standard capacity.
_STANDARD_SHARE = 0.97
# The load of a zone is a sum of noise with these time constants in hours and shares of variance. All zones, and the
# zones of a region, have a share of it in common.
_NOISE = ((1.5, 0.4), (8.0, 0.3), (60.0, 0.3))
_ALL, _REGION, _HYSTERESIS = 0.15, 0.5, 0.2


class Place(NamedTuple):
    """A zone and a market in which machines are requested."""

    zone: str
    market: str

    @property
    def region(self) -> str:
        return region_of(self.zone)


@dataclass(frozen=True)
class Series:
    """The availability of a place, step by step. A place has any number of machines, or none."""

    up: Sequence[bool]
    step_sec: float = STEP_SEC

    def at(self, now: float) -> bool:
        return self.up[min(int(now / self.step_sec), len(self.up) - 1)]

    def outages(self) -> Iterator[float]:
        """Yield the start of each outage."""
        return (step * self.step_sec for step in range(1, len(self.up)) if self.up[step - 1] and not self.up[step])


def jobs(seed: int, days: int) -> list[Job]:
    """Return the jobs of this number of days."""
    noise, found = random.Random(f"{seed} jobs"), list[Job]()
    for hour in range(24 * days):
        mean, second = _PUSHES_A_DAY[hour // 24 % 7] * _HOURS[hour % 24] / sum(_HOURS), 0.0
        while (second := second + noise.expovariate(mean / 3600.0)) < 3600.0:
            cancelled = noise.uniform(0, _CANCELLED_WITHIN_SEC) if noise.random() < _CANCELLED_SHARE else None
            for _ in range(noise.choice(_JOBS)):
                length = min(_MEDIAN_SEC * math.exp(noise.gauss(0, _SPREAD)), _LONGEST_SEC)
                found.append(Job(len(found) + 1, hour * 3600.0 + second, length, cancelled))
    return found


def zones(seed: int, days: float) -> dict[Place, Series]:
    """Return series for the spot and standard machines of nine zones."""
    found = {}
    for market in ("spot", "standard"):
        noise, count = random.Random(f"{seed} {market}"), math.ceil(days * 86400 / STEP_SEC)
        common = _load(noise, count)
        regions = {region: _load(noise, count) for region in sorted({region_of(zone) for zone in SHARES})}
        for zone, spot_share in SHARES.items():
            share = spot_share if market == "spot" else _STANDARD_SHARE
            weights = (math.sqrt(_ALL), math.sqrt(_REGION), math.sqrt(1 - _ALL - _REGION))
            threshold, state, up = NormalDist().inv_cdf(1 - share), share > 0.5, []
            for values in zip(common, regions[region_of(zone)], _load(noise, count), strict=True):
                level = sum(weight * value for weight, value in zip(weights, values, strict=True))
                state = level > threshold + (-_HYSTERESIS if state else _HYSTERESIS)
                up.append(state)
            found[Place(zone, market)] = Series(up)
    return found


def _load(noise: random.Random, count: int) -> list[float]:
    """Return a sum of Ornstein-Uhlenbeck processes of several speeds with a total variance of 1."""
    total = [0.0] * count
    for hours, share in _NOISE:
        decay, value = math.exp(-STEP_SEC / 3600 / hours), noise.gauss(0, 1)
        for step in range(count):
            total[step] += math.sqrt(share) * value
            value = decay * value + math.sqrt(1 - decay * decay) * noise.gauss(0, 1)
    return total


# Seconds. Assumptions, unless a source is named.
WEBHOOK_SEC = 1.0
INSERT_ANSWER_SEC = 10.0
FLEET_ANSWER_SEC = 3.0  # a request for all zones of a region: RunsOn's page "Spot pricing" names 2 to 3 s
BOOT_SEC = (120.0, 240.0)  # from the insert to the runner: terraform-aws-github-runner #1784 names 2 to 5 minutes
START_SEC = (40.0, 70.0)  # of a stopped machine: terraform-aws-github-runner #5204 names 10 to 30 s on AWS
STOP_SEC, OFF_SEC = 30.0, 10.0  # until a stopped machine costs only its disk, and a machine that is off costs nothing
CHECK_SEC = 10.8  # gpu-smoke's quick profile on a cold machine (bench/results/2026-11-23-h100-h200.md)
LOSS_SEEN_SEC = 30.0  # from a preemption until GitHub reports the failed job; Google's notice is 30 s
QUEUE_LIMIT_SEC = 24 * 3600.0  # docs.github.com, "Actions limits"


@dataclass
class Job:
    """A job with all its attempts. Times are seconds since the first minute of a Monday."""

    number: int
    created: float
    duration_sec: float
    cancelled_after_sec: float | None = None
    status: str = "queued"
    """GitHub's status, queued or in_progress, and then its conclusion: success, failure or cancelled."""
    attempt: int = 1
    queued_at: float = 0.0
    began_at: float | None = None
    """The start of its first attempt."""
    done_at: float = math.inf
    machine: Machine | None = None


@dataclass
class Machine:
    """A machine with its one runner. States: booting, ready (without a runner), idle, busy, stopping, stopped, off."""

    name: str
    number: int
    place: Place
    created: float
    requested: float
    """The time of the request that created it or started it again."""
    state: str = "booting"
    boots: int = 1
    ready: int = 0
    """The number of the last completed boot."""
    sealed: bool = False
    """True if the manager has sent it the registration of a runner."""
    ended: float = math.inf
    stops: list[list[float]] = field(default_factory=list)
    """The beginning and the end of each time in which it was stopped."""
    job: Job | None = None
    preempted: bool = False
    deleted: bool = False

    def seconds_stopped(self, until: float) -> float:
        return sum(max(min(ended, until) - began, 0.0) for began, ended in self.stops)

    def seconds_on(self, until: float) -> float:
        return min(self.ended, until) - self.created - self.seconds_stopped(until)


class Policy:
    """A runner manager. The world calls each method after the delay of a webhook."""

    check_sec = 0.0
    registers = False
    """True if the policy registers the runner of a booted machine. Otherwise the machine's agent does."""
    idle_limit_sec: float
    """Seconds without a job after which the agent switches the machine off."""

    def __init__(self, world: World) -> None:
        self.world = world

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
    jobs: Sequence[Job]
    until: float
    seed: int
    now: float = 0.0
    machines: list[Machine] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    active: dict[int, Job] = field(default_factory=dict)
    """Queued and running jobs by number, as GitHub lists them."""
    alive: dict[str, Machine] = field(default_factory=dict)
    policy: Policy = field(init=False)

    def __post_init__(self) -> None:
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._noise = random.Random(f"{self.seed} boots")

    def run(self, policy: Callable[[World], Policy]) -> World:
        """Run the whole history."""
        self.policy = policy(self)
        for job in self.jobs:
            self.at(job.created, partial(self._arrive, job))
        for place, series in self.places.items():
            for when in series.outages() if place.market == "spot" else ():
                self.at(when, partial(self._preempt, place))
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
        number = len(self.machines) + 1
        machine = Machine(name or f"machine-{number}", number, place, self.now, self.now)
        self.machines.append(machine)
        self._boot(machine, BOOT_SEC)
        return machine

    def start(self, machine: Machine) -> bool:
        """Start a stopped machine. Return False if its place has no capacity; the machine then stays stopped."""
        if not self.places[machine.place].at(self.now):
            return False
        machine.stops[-1][1] = machine.requested = self.now
        machine.state, machine.boots = "booting", machine.boots + 1
        self._boot(machine, START_SEC)
        return True

    def stop(self, machine: Machine) -> None:
        """Stop a machine without a runner, to start it later."""
        machine.state = "stopping"
        self.after(STOP_SEC, lambda: self._stopped(machine))

    def end(self, machine: Machine, deleted: bool = False) -> None:
        """End the cost of a machine: it is switched off from inside, or deleted."""
        if machine.state != "off":
            if machine.state == "stopped":
                machine.stops[-1][1] = self.now
            machine.ended, machine.state = self.now, "off"
            self.alive.pop(machine.name, None)
        machine.deleted = machine.deleted or deleted

    def _boot(self, machine: Machine, within_sec: tuple[float, float]) -> None:
        self.alive[machine.name] = machine
        seconds = self._noise.uniform(*within_sec) + self.policy.check_sec
        self.after(seconds, partial(self._booted, machine, machine.boots))

    def _booted(self, machine: Machine, boot: int) -> None:
        if machine.state == "booting" and machine.boots == boot:
            machine.state, machine.ready = "ready", boot
            if not self.policy.registers:
                self.register(machine)

    def _stopped(self, machine: Machine) -> None:
        if machine.state == "stopping":
            machine.state = "stopped"
            machine.stops.append([self.now, math.inf])
            del self.alive[machine.name]

    def _preempt(self, place: Place) -> None:
        for machine in [each for each in self.alive.values() if each.place == place]:
            job = machine.job if machine.state == "busy" else None
            machine.preempted = True
            self.end(machine)
            if job:
                self.after(LOSS_SEEN_SEC, partial(self._end_job, job, job.attempt, "failure"))
            self.after(WEBHOOK_SEC, partial(self.policy.preempted, job))

    def register(self, machine: Machine) -> None:
        """Set the runner of a booted machine online."""
        if machine.state == "ready":
            machine.state = "idle"
            self._assign()
            limit_sec = self.policy.idle_limit_sec
            self.after(limit_sec, lambda: self.end(machine) if machine.state == "idle" else None)

    def rerun(self, job: Job) -> None:
        """Run a job again that failed or was cancelled."""
        job.attempt, job.machine = job.attempt + 1, None
        self._queue(job)

    def _arrive(self, job: Job) -> None:
        if job.cancelled_after_sec is not None:
            self.after(job.cancelled_after_sec, lambda: self._end_job(job, job.attempt, "cancelled"))
        self._queue(job)

    def _queue(self, job: Job) -> None:
        job.status, job.queued_at = "queued", self.now
        self.active[job.number] = job
        self.waiting.append(job)
        self._assign()
        self.after(WEBHOOK_SEC, lambda: self.policy.queued(job))

    def _assign(self) -> None:
        for machine in [each for each in self.alive.values() if each.state == "idle"]:
            if self.waiting:
                job = self.waiting.pop(0)
                job.status, job.machine, machine.state, machine.job = "in_progress", machine, "busy", job
                job.began_at = self.now if job.began_at is None else job.began_at
                self.after(job.duration_sec, partial(self._finish, job, job.attempt))

    def _finish(self, job: Job, attempt: int) -> None:
        if job.machine and not job.machine.preempted:
            self._end_job(job, attempt, "success")

    def _end_job(self, job: Job, attempt: int, status: str) -> None:
        if job.attempt != attempt or job.status not in ("queued", "in_progress"):
            return
        if job in self.waiting:
            self.waiting.remove(job)
        job.status, machine = status, job.machine
        job.done_at = self.now if status == "success" else math.inf
        del self.active[job.number]
        if machine and machine.state != "off":  # the runner takes one job, and then its machine switches itself off
            self.after(OFF_SEC, lambda: self.end(machine))
        self.after(WEBHOOK_SEC, lambda: self.policy.completed(job))
