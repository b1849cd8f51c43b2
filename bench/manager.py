"""Compare the runner manager with a model of RunsOn on simulated histories: `make bench ARGS="--only manager"`.

gpu-ci: the real loop, decision and memory of the runner manager, with a simulated GitHub and Google. A machine
publishes its key after it has booted and checked its GPU. The manager reads keys as often as the real class allows, and
encrypts a real registration for the key.

RunsOn: runs-on.com/docs/costs/spot-pricing (spot first, standard seconds later), control-plane/housekeeping (an
interrupted job is run again once), runs-on/runs-on@3e98e5c cloudformation/template.yaml (`SpotCircuitBreaker` 2/15/30).
Its control plane is not public: the rest is assumed in its favour, such as a retry each minute. It has our prices.

We chose the parameters of the jobs, because we found no public record of GPU jobs. The availability of zones has the
shares, outages and correlations of skypilot-org/spot-traces@221da1a (availability/1-node/aws-02-15-2023: nine zones of
AWS, 45 days, one V100). That repository has no licence file, so no recording is included.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
import random
import statistics
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from gpu_catalog.locations import region_of
from gpu_catalog.prices import price
from gpu_ci.machine_records import JobOfMachine, MachineRecord
from gpu_manager import model
from gpu_manager.cli.run_command import is_idle
from gpu_manager.decision import names, warm
from gpu_manager.github.rate_limits import RateLimits
from gpu_manager.loop import Manager, PassResult
from gpu_manager.memory import Memory
from gpu_manager.model import End, Insert, InsertError, JobKey, Machine, NewRunner, Offer, OperationState, Pool, RunKey
from gpu_manager.ports import GithubView, Mailbox, Started
from gpu_manager.suppliers.compute_engine.channel import MachineKeys
from rich.console import Console
from rich.table import Table

from tests.manager.machine_key import PRIVATE, certificate_of, published

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
_STANDARD_SHARE = 0.97  # an assumption, because we found no recording of standard capacity
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


def jobs(seed: int, days: int) -> list[Job]:
    """Return the jobs of this number of days."""
    noise, found = random.Random(f"{seed} jobs"), list[Job]()
    for hour in range(24 * days):
        mean, second = _PUSHES_A_DAY[hour // 24 % 7] * _HOURS[hour % 24] / sum(_HOURS), 0.0
        while (second := second + noise.expovariate(mean / 3600.0)) < 3600.0:
            cancelled = noise.uniform(0, _CANCELLED_WITHIN_SEC) if noise.random() < _CANCELLED_SHARE else math.inf
            for _ in range(noise.choice(_JOBS)):
                length = min(_MEDIAN_SEC * math.exp(noise.gauss(0, _SPREAD)), _LONGEST_SEC)
                found.append(Job(len(found) + 1, hour * 3600.0 + second, length, cancelled))
    return found


def zones(seed: int, days: float) -> dict[Place, list[bool]]:
    """Return, step by step, if each of nine zones has any number of spot and standard machines, or none."""
    found = {}
    for market in ("spot", "standard"):
        noise, count = random.Random(f"{seed} {market}"), math.ceil(days * 86400 / STEP_SEC)
        common = _load(noise, count)
        regions = {region: _load(noise, count) for region in sorted({region_of(zone) for zone in SHARES})}
        for zone, spot_share in SHARES.items():
            share = spot_share if market == "spot" else _STANDARD_SHARE
            weights = (math.sqrt(_ALL), math.sqrt(_REGION), math.sqrt(1 - _ALL - _REGION))
            threshold, state, up = statistics.NormalDist().inv_cdf(1 - share), share > 0.5, []
            for values in zip(common, regions[region_of(zone)], _load(noise, count), strict=True):
                level = sum(weight * value for weight, value in zip(weights, values, strict=True))
                state = level > threshold + (-_HYSTERESIS if state else _HYSTERESIS)
                up.append(state)
            found[Place(zone, market)] = up
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
WEBHOOK_SEC, INSERT_ANSWER_SEC = 1.0, 10.0
FLEET_ANSWER_SEC = 3.0  # a request for all zones of a region: RunsOn's page "Spot pricing" names 2 to 3 s
BOOT_SEC = (120.0, 240.0)  # from the insert to the runner: terraform-aws-github-runner #1784 names 2 to 5 minutes
START_SEC = (40.0, 70.0)  # of a stopped machine: terraform-aws-github-runner #5204 names 10 to 30 s on AWS
STOP_SEC, OFF_SEC = 30.0, 10.0  # until a stopped machine costs only its disk, and a machine that is off costs nothing
LOSS_SEEN_SEC = 30.0  # from a preemption until GitHub reports the failed job; Google's notice is 30 s
PASS_SEC, RUNNER_SEC = 2.0, 5.0  # the requests of a pass; from the registration of a runner until it is online
QUEUE_LIMIT_SEC = 24 * 3600.0  # docs.github.com, "Actions limits"


@dataclass
class Job:
    """A job with all its attempts. Times are seconds since the first minute of a Monday."""

    number: int
    created: float
    duration_sec: float
    cancelled_after_sec: float = math.inf
    status: str = "queued"
    """GitHub's status, queued or in_progress, and then its conclusion: success, failure or cancelled."""
    attempt: int = 1
    queued_at: float = 0.0
    began_at: float = math.inf
    """The start of its first attempt."""
    machine: Vm | None = None

    @property
    def key(self) -> JobKey:
        return JobKey("acme/kernels", self.number, self.number * 10 + self.attempt, self.attempt)


@dataclass
class Vm:
    """A machine with its one runner. States: booting, ready (without a runner), idle, busy, stopping, stopped, off."""

    name: str
    number: int
    place: Place
    created: float
    state: str = "booting"
    boots: int = 1
    ready: int = 0
    """The number of the last completed boot."""
    label: str = ""
    """The label that the manager gave it for its job."""
    sealed: bool = False
    """True if the manager has sent it the registration of a runner."""
    ended: float = math.inf
    stops: list[list[float]] = field(default_factory=list)
    """The beginning and the end of each time in which it was stopped."""
    job: Job | None = None
    preempted: bool = False

    @property
    def runner(self) -> str:
        """The name of its runner, which has the machine's number."""
        return f"{self.name}-{self.number}"

    def seconds_stopped(self, until: float) -> float:
        return sum(max(min(ended, until) - began, 0.0) for began, ended in self.stops)

    def seconds_on(self, until: float) -> float:
        return min(self.ended, until) - self.created - self.seconds_stopped(until)


class Policy:
    """A runner manager. The world calls each method after the delay of a webhook."""

    check_sec = 0.0
    requests: float | None = None
    """The requests to GitHub's REST API that read jobs and runners; None if it reads none."""
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


class World:
    """One history with one policy."""

    def __init__(
        self, places: Mapping[Place, Sequence[bool]], jobs: Sequence[Job], seed: int, step_sec: float = STEP_SEC
    ) -> None:
        self.places, self.jobs, self.step_sec, self.now = places, jobs, step_sec, 0.0
        self.machines: list[Vm] = []
        self.active: dict[int, Job] = {}
        """Queued and running jobs by number, as GitHub lists them."""
        self.alive: dict[str, Vm] = {}
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._noise = random.Random(f"{seed} boots")

    def run(self, policy: Callable[[World], Policy], until: float, drain_sec: float = 0.0) -> World:
        """Run the history until a time, and for at most `drain_sec` longer while there are jobs and machines."""
        self.policy = policy(self)
        for job in self.jobs:
            self.at(job.created, partial(self._queue, job))
            self.at(job.created + job.cancelled_after_sec, partial(self._end_job, job, "cancelled"))
        for place, up in self.places.items():
            for step in range(1, len(up)) if place.market == "spot" else ():
                if up[step - 1] and not up[step]:
                    self.at(step * self.step_sec, partial(self._preempt, place))
        while self.next_event <= until + (drain_sec if self.active or self.alive else 0.0):
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = max(self.now, until)
        return self

    @property
    def next_event(self) -> float:
        """The time of the next event."""
        return self._events[0][0] if self._events else math.inf

    @property
    def waiting(self) -> list[Job]:
        return [job for job in self.active.values() if job.status == "queued"]

    def at(self, when: float, event: Callable[[], object]) -> None:
        """Schedule an event. Events with the same time run in the order of the calls."""
        heapq.heappush(self._events, (when, next(self._order), event))

    def after(self, seconds: float, event: Callable[[], object]) -> None:
        self.at(self.now + seconds, event)

    def _has_capacity(self, place: Place) -> bool:
        return self.places[place][min(int(self.now / self.step_sec), len(self.places[place]) - 1)]

    def create(self, place: Place, name: str = "") -> Vm | None:
        """Create a machine, or return None if the place has no capacity."""
        if not self._has_capacity(place):
            return None
        number = len(self.machines) + 1
        machine = Vm(name or f"machine-{number}", number, place, self.now)
        self.machines.append(machine)
        self._boot(machine, BOOT_SEC)
        return machine

    def start(self, machine: Vm) -> bool:
        """Start a stopped machine. Return False if its place has no capacity; the machine then stays stopped."""
        if not self._has_capacity(machine.place):
            return False
        machine.stops[-1][1], machine.state, machine.boots = self.now, "booting", machine.boots + 1
        self._boot(machine, START_SEC)
        return True

    def stop(self, machine: Vm) -> None:
        """Stop a machine without a runner, to start it later."""
        machine.state = "stopping"
        self.after(STOP_SEC, lambda: self._stopped(machine))

    def end(self, machine: Vm) -> None:
        """End the cost of a machine: it is switched off from inside, or deleted."""
        if machine.state != "off":
            if machine.state == "stopped":
                machine.stops[-1][1] = self.now
            machine.ended, machine.state = self.now, "off"
            self.alive.pop(machine.name, None)

    def _boot(self, machine: Vm, within_sec: tuple[float, float]) -> None:
        self.alive[machine.name] = machine
        seconds = self._noise.uniform(*within_sec) + self.policy.check_sec
        self.after(seconds, partial(self._booted, machine, machine.boots))

    def _booted(self, machine: Vm, boot: int) -> None:
        if machine.state == "booting" and machine.boots == boot:
            machine.state, machine.ready = "ready", boot
            if not self.policy.registers:
                self.register(machine)

    def _stopped(self, machine: Vm) -> None:
        if machine.state == "stopping":
            machine.state = "stopped"
            machine.stops.append([self.now, math.inf])
            del self.alive[machine.name]

    def _preempt(self, place: Place) -> None:
        for machine in [each for each in self.alive.values() if each.place == place]:
            machine.preempted = True
            self.end(machine)
            if machine.job:
                self.after(LOSS_SEEN_SEC, partial(self._end_job, machine.job, "failure", machine.job.attempt))
            self.after(WEBHOOK_SEC, partial(self.policy.preempted, machine.job))

    def register(self, machine: Vm) -> None:
        """Set the runner of a booted machine online."""
        if machine.state == "ready":
            machine.state = "idle"
            self._assign()
            self.after(self.policy.idle_limit_sec, lambda: self.end(machine) if machine.state == "idle" else None)

    def rerun(self, job: Job) -> None:
        """Run a job again that failed or was cancelled."""
        job.attempt, job.machine = job.attempt + 1, None
        self._queue(job)

    def _queue(self, job: Job) -> None:
        job.status, job.queued_at = "queued", self.now
        self.active[job.number] = job
        self._assign()
        self.after(WEBHOOK_SEC, lambda: self.policy.queued(job))

    def _assign(self) -> None:
        idle = [each for each in self.alive.values() if each.state == "idle"]
        for machine, job in zip(idle, self.waiting, strict=False):
            job.status, job.machine, machine.state, machine.job = "in_progress", machine, "busy", job
            job.began_at = min(job.began_at, self.now)
            self.after(job.duration_sec, partial(self._end_job, job, "success", job.attempt))

    def _end_job(self, job: Job, status: str, attempt: int | None = None) -> None:
        machine = job.machine
        lost = status == "success" and machine and machine.preempted
        if attempt not in (None, job.attempt) or job.number not in self.active or lost:
            return
        job.status = status
        del self.active[job.number]
        if machine and machine.state != "off":  # the runner takes one job, and then its machine switches itself off
            self.after(OFF_SEC, lambda: self.end(machine))
        self.after(WEBHOOK_SEC, lambda: self.policy.completed(job))


MACHINE_TYPE, MAXIMUM, STANDBY, WARM, WARM_SEC = "g2-standard-8", 16, 3, 2, 14400
# Of the organization, for requests to GitHub. Each job is a run of its own. The groups, their repositories and runners
# are three requests, and with scale sets all repositories are read every ten minutes (github/sweep.py).
REPOSITORIES, _GROUP_REQUESTS, _ALL_EVERY_SEC = 30, 3.0, 600.0
_WORK = model.Schedule(days=("mon", "tue", "wed", "thu", "fri"), start="07:00", end="19:00", time_zone="UTC")
_EPOCH = 1_699_833_600.0
"""A Monday, 00:00 UTC, because the histories begin on a Monday."""


def _time(sec: float) -> datetime:
    return datetime.fromtimestamp(_EPOCH + sec, UTC)


_LABELS = frozenset({"self-hosted", "gpu", "l4"})


@cache
def usd_per_hour(place: Place) -> float:
    found = price(MACHINE_TYPE, place.region, place.market)
    assert found, f"the catalog has no {place.market} price of {MACHINE_TYPE} in {place.region}"
    return found.usd_per_hour


class GpuCi(Policy):
    """The runner manager of gpu-ci with one pool."""

    check_sec = 10.8  # gpu-smoke's quick profile on a cold machine (bench/results/2026-11-23-h100-h200.md)
    idle_limit_sec, registers = 900.0, True
    requests: float

    def __init__(self, world: World, places: Sequence[Place], standby: int = 0, warm: int = 0) -> None:
        super().__init__(world)
        rungs = tuple(Offer(each.zone, MACHINE_TYPE, each.market, "nvidia-l4", usd_per_hour(each)) for each in places)
        self._pool = pool = Pool(
            "l4", "acme-ci", "template", rungs, MAXIMUM, _LABELS, idle_sec=600, boot_sec=1200,
            registered_by="manager", standby=standby, warm=model.Warm(warm, _WORK, WARM_SEC) if warm else None,
        )  # fmt: skip
        self.cloud = _Cloud(world)
        cloud: Any = self.cloud
        self.records: list[MachineRecord] = []
        store: Any = SimpleNamespace(value=Memory(), may_act=lambda: True, add=self.records.extend)
        store.load, store.save = lambda: store.value, partial(setattr, store, "value")
        self._manager = Manager([pool], cloud, cloud, store, lambda: _EPOCH + world.now)
        self._limits = RateLimits(lambda: world.now)
        self._began, self._active, self.requests = -math.inf, 0, 0.0
        self._skipped = deque[float]()
        """The times of passes that are only counted."""
        self._step_at(0.0)

    def _step_at(self, when: float) -> None:
        self._next = when
        self.world.at(when, lambda: self._step() if self.world.now == self._next else None)

    def _step(self) -> None:
        self._count_skipped()
        self._active = len(self.world.active)
        self._count(self.world.now)
        result = self._manager.step()
        pause_sec = self._limits.interval_sec(not is_idle(result)) + PASS_SEC
        passes = max(math.ceil((self._quiet_until(result) - self._began) / pause_sec), 1)
        self._skipped = deque(self._began + number * pause_sec for number in range(1, passes))
        self._step_at(self._began + passes * pause_sec)

    def _count_skipped(self) -> None:
        """Count the requests of the passes that would have begun since the last one, and done nothing."""
        while self._skipped and self._skipped[0] < self.world.now:
            self._count(self._skipped.popleft())

    def _count(self, began: float) -> None:
        """Count the requests of a pass."""
        self._began, self.requests = began, self.requests + self._requests_of_pass(began)

    def _quiet_until(self, result: PassResult) -> float:
        """Return the time of the next event, or of a limit, if this pass and equal ones do nothing until then."""
        world, memory, pool = self.world, result.decision.memory, self._pool
        on = [memory.machines.get(each.name) for each in world.alive.values() if each.state != "busy"]
        kept = [each for each in on if each and each.warm_sec and each.surplus_since is None]
        waiting = [each.running_since - _EPOCH for each in kept if each.running_since]
        wanted = pool.standby + warm.size(pool, _EPOCH + world.now)
        stopped = sum(each.state == "stopped" for each in self.cloud.listed())
        acts = result.decision.actions or memory.pending or memory.lost or memory.ended or len(waiting) != len(on)
        jobs_wait = result.decision.assigned or result.decision.reasons
        may_create = wanted and (len(waiting) + stopped < wanted or memory.cooldowns or memory.preemptions)
        if acts or jobs_wait or may_create:
            return 0.0
        # A schedule begins and ends at full hours.
        return min(world.next_event, (world.now // 3600 + 1) * 3600, *(each + WARM_SEC for each in waiting))

    def _requests_of_pass(self, when: float) -> float:
        """Return the requests of a sweep: two lists of each repository, and three in every fifth (github/sweep.py)."""
        return _GROUP_REQUESTS + 2.6 * REPOSITORIES + self._active


class WithScaleSets(GpuCi):
    """The runner manager with demand: scaleSets. A message begins a pass, which reads the known runs only."""

    def queued(self, job: Job) -> None:
        self._count_skipped()
        if self._began < self.world.now:
            self._step_at(min(self._next, max(self.world.now, self._began + PASS_SEC)))

    def _requests_of_pass(self, when: float) -> float:
        whole = int(when / _ALL_EVERY_SEC) > int(self._began / _ALL_EVERY_SEC) if self._began >= 0 else True
        return _GROUP_REQUESTS + 2.0 * self._active + (5.0 * REPOSITORIES if whole else 0.0)


class _Cloud:
    """GitHub and Compute Engine, with the jobs and machines of the simulation.

    It implements ports.Github, Supplier and Channel.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._operations: list[tuple[float, InsertError | None]] = []
        self._vms: dict[str, Vm] = {}
        self._runners: dict[int, str] = {}
        """The last runner of each job."""
        self._keys = MachineKeys(lambda: world.now)

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        self._runners |= {each.number: each.machine.runner for each in self._world.active.values() if each.machine}
        runners = tuple(
            model.Runner(each.number, each.runner, each.state in ("idle", "busy"), each.state == "busy")
            for each in self._world.alive.values()
            if each.sealed
        )
        jobs = tuple(
            model.Job(
                each.key, _LABELS, "in_progress" if each.machine else "queued", _EPOCH + each.queued_at,
                runner_name=each.machine.name if each.machine else "",
                runner_id=each.machine.number if each.machine else 0,
            )
            for each in self._world.active.values()
        )  # fmt: skip
        return GithubView(_EPOCH + self._world.now, jobs, runners, {key: self._run(key) for key in runs})

    def _run(self, key: RunKey) -> model.Run:
        job = self._world.jobs[key.run_id - 1]
        ended = job.number not in self._world.active
        status: model.RunStatus = "completed" if ended else "in_progress"
        failed = (job.key.job_id,) if job.status == "failure" else ()
        return model.Run(key, job.attempt, status, job.status if ended else "", _EPOCH + job.created, failed)

    def register(self, pool: Pool, name: str) -> NewRunner:
        return NewRunner(int(name.rpartition("-")[2]), name, "the configuration of a runner")

    def remove_runner(self, runner: model.Runner | NewRunner) -> bool:
        machine = self._world.alive.get(runner.name.rpartition("-")[0])
        return machine is None or machine.state != "busy"

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        self._world.rerun(self._world.jobs[run.run_id - 1])

    def ran(self, run: RunKey) -> tuple[model.RanJob, ...]:
        """Return the last attempt of the job if it has or had a runner. Jobs take minutes, so a pass sees each."""
        job = self._world.jobs[run.run_id - 1]
        if not (runner := self._runners.get(job.number)):
            return ()
        ended = job.number not in self._world.active
        found = JobOfMachine(
            repository=run.repository, run=run.run_id, attempt=job.attempt, id=job.key.job_id,
            created=_time(job.created), started=_time(job.began_at), conclusion=job.status if ended else "",
            completed=_time(self._world.now) if ended else None,
        )  # fmt: skip
        return (model.RanJob(runner, found),)

    def listed(self) -> list[Vm]:
        """Return the machines. Google deletes a preempted machine, because its template requires it."""
        return [each for each in self._vms.values() if not each.preempted]

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return tuple(self._machine(each) for each in self.listed())

    @property
    def channel(self) -> _Cloud:
        return self

    def listen(self, machines: Sequence[Machine]) -> tuple[Machine, ...]:
        return self._keys.with_keys(machines, self._guest_attribute)

    def _machine(self, machine: Vm) -> Machine:
        (zone, market), status, end = machine.place, "RUNNING", None
        if machine.state in ("stopped", "off"):
            status, end = "TERMINATED", End("stopped" if machine.state == "stopped" else "job-done")
        elif machine.state == "stopping":
            status = "STOPPING"
        return Machine(
            machine.name, "l4", zone, status, market, MACHINE_TYPE, "template", end, job=machine.label,
            id=str(machine.number), registered_by="manager", sealed=machine.sealed,
        )  # fmt: skip

    def _guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        """Return the last published value of the machine, which remains after a stop."""
        machine = self._vms[name]
        content = {"machine": machine.runner, "certificate": _certificate(machine.ready)}
        return json.dumps(content) if machine.ready else ""

    def operation(self, pool: Pool, offer: Offer, operation: str) -> OperationState:
        done_at, error = self._operations[int(operation)]
        return OperationState(True, error) if self._world.now >= done_at else OperationState(False, None)

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return ()

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        since = self._world.now - 3600
        return frozenset(each.name for each in self._vms.values() if each.preempted and each.ended > since)

    def owns(self, machine: Machine) -> bool:
        return True

    def boot(self, machines: Sequence[Machine]) -> None:
        """Do nothing: Compute Engine boots its machines."""

    def start(self, pool: Pool, insert: Insert) -> Started:
        machine = self._world.create(Place(insert.rung.zone, insert.rung.market), insert.machine)
        if machine:
            self._vms[machine.name] = machine
            machine.label = names.slug(insert.job.key) if insert.job else names.STANDBY
        return Started(self._operation(machine is not None), str(machine.number) if machine else "")

    def start_again(self, machine: Machine, request_id: str) -> str:
        return self._operation(self._world.start(self._vms[machine.name]))

    def _operation(self, worked: bool) -> str:
        """Create an operation whose answer comes later, with or without a machine."""
        error = None if worked else InsertError("no-capacity", "ZONE_RESOURCE_POOL_EXHAUSTED")
        self._operations.append((self._world.now + INSERT_ANSWER_SEC, error))
        return str(len(self._operations) - 1)

    def stop(self, machine: Machine) -> None:
        self._world.stop(self._vms[machine.name])

    def mailbox(self, machine: Machine) -> Mailbox:
        return Mailbox(registered=False)

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
        listed = self._vms[machine.name]
        listed.sealed = True
        self._world.after(RUNNER_SEC, lambda: self._world.register(listed))
        return True

    def delete(self, machine: Machine) -> None:
        self._world.end(self._vms.pop(machine.name))


@cache
def _certificate(boot: int) -> str:
    """Return the certificate of a boot, a different one for each boot. All machines share them, without an effect."""
    return published(certificate_of(PRIVATE, boot + 1))


class RunsOn(Policy):
    idle_limit_sec = 600.0
    queue_sec, again_sec, replace_sec = 1.0, 60.0, 30.0
    breaker_count, breaker_within_sec, breaker_open_sec = 2, 900.0, 1800.0

    def __init__(self, world: World, places: Sequence[Place]) -> None:
        super().__init__(world)
        self._places, self._spot_from, self._interrupted = places, 0.0, list[float]()

    def queued(self, job: Job) -> None:
        self.world.after(self.queue_sec, lambda: self._launch(job, spot=job.attempt == 1))

    def _launch(self, job: Job, spot: bool) -> None:
        if job.status == "queued":
            spot = spot and self.world.now >= self._spot_from
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, "spot" if spot else "standard"))

    def _fleet(self, job: Job, market: str) -> None:
        if any(self.world.create(place) for place in self._places if place.market == market):
            return
        if market == "spot":
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, "standard"))
        else:
            self.world.after(self.again_sec, lambda: self._launch(job, spot=True))

    def preempted(self, job: Job | None) -> None:
        now = self.world.now
        self._interrupted = [when for when in self._interrupted if now - when <= self.breaker_within_sec] + [now]
        if len(self._interrupted) >= self.breaker_count:
            self._spot_from = now + self.breaker_open_sec
        if job is None:  # the oldest waiting job has no machine now
            self.world.after(self.replace_sec, self._replace)

    def _replace(self) -> None:
        if self.world.waiting:
            self._launch(self.world.waiting[0], spot=True)

    def completed(self, job: Job) -> None:
        if job.status == "failure" and job.attempt == 1:
            self.world.rerun(job)


_DRAIN_DAYS = 2  # jobs of the last day may continue, or wait until GitHub cancels them
# docs.cloud.google.com/compute/disks-image-pricing: 100 GiB of a balanced disk, 730 hours a month. It counts while the
# machine is stopped. As in the catalog, disks of machines that are on do not count, for any policy.
_DISK_USD_PER_HOUR = 100 * 0.10 / 730
REGIONS = tuple(dict.fromkeys(Place(zone, "").region for zone in SHARES))
# Name -> the policy, from the places of a region and from those of all regions. All policies buy spot machines first,
# and standard machines after a stockout.
POLICIES: dict[str, Callable[[World, Sequence[Place], Sequence[Place]], Policy]] = {
    "gpu-ci, one region": lambda world, near, _: GpuCi(world, near),
    "gpu-ci, three regions": lambda world, _, everywhere: GpuCi(world, everywhere),
    "gpu-ci, three regions, scale sets": lambda world, _, everywhere: WithScaleSets(world, everywhere),
    f"gpu-ci, three regions, standby {STANDBY}": lambda world, _, everywhere: GpuCi(world, everywhere, STANDBY),
    f"gpu-ci, three regions, warm {WARM} on workdays 07 to 19": lambda world, _, everywhere: GpuCi(
        world, everywhere, warm=WARM
    ),
    "RunsOn": lambda world, near, _: RunsOn(world, near),
}


def simulate(name: str, region: str, seed: int, days: int) -> World:
    """Return the world at the end of a history."""
    everywhere = [Place(zone, market) for market in ("spot", "standard") for zone in SHARES]
    everywhere.sort(key=lambda place: (place.market, place.region != region))
    near = [place for place in everywhere if place.region == region]
    world = World(zones(seed, days + _DRAIN_DAYS), jobs(seed, days), seed)
    return world.run(lambda own: POLICIES[name](own, near, everywhere), days * 86400.0, _DRAIN_DAYS * 86400.0)


def usd(world: World, days: int) -> float:
    """Return what the machines of a history cost."""
    return sum(
        machine.seconds_on(world.now) / 3600 * usd_per_hour(machine.place)
        + machine.seconds_stopped(days * 86400.0) / 3600 * _DISK_USD_PER_HOUR
        for machine in world.machines
    )


def bench_manager(seeds: int, days: int, console: Console) -> None:
    """Simulate each policy on each history in each region, and print a row for each.

    A job that never began counts with a wait of a day. `lost` are jobs whose machine was preempted and that were not
    run again.
    """
    table = Table(
        "policy", "median wait", "95th percentile", "done", "lost", "USD per job hour", "requests an hour",
        title=f"{seeds} histories of {days} days in each of {len(REGIONS)} regions",
    )  # fmt: skip
    for name in POLICIES:
        worlds = [simulate(name, region, seed, days) for region in REGIONS for seed in range(1, seeds + 1)]
        found = [job for world in worlds for job in world.jobs if job.status != "cancelled"]
        waits = sorted(min(job.began_at - job.created, QUEUE_LIMIT_SEC) for job in found)
        done = [job for job in found if job.status == "success"]
        hours = sum(job.duration_sec for job in done) / 3600
        requests, total_sec = [world.policy.requests for world in worlds], sum(world.now for world in worlds)
        table.add_row(
            name, f"{statistics.median(waits):.0f} s", f"{waits[int(0.95 * (len(waits) - 1))]:.0f} s",
            f"{len(done)} of {len(found)}", str(sum(job.status == "failure" for job in found)),
            f"{sum(usd(world, days) for world in worlds) / hours:.3f}",
            "-" if None in requests else f"{sum(each or 0 for each in requests) / total_sec * 3600:.0f}",
        )  # fmt: skip
        console.print(f"{name}: median wait {statistics.median(waits):.0f} s")
    console.print(table)
