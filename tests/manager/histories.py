"""A simulated world for the control loop: GitHub, Compute Engine, time and random faults, with rules that must hold.

Everything happens in virtual time. The world checks the rules at the moment at which one would be broken.
"""

from __future__ import annotations

import base64
import json
import random
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from cryptography.hazmat.primitives.serialization import pkcs7
from gpu_ci.machine_records import JobOfMachine, MachineRecord
from gpu_manager.decision.names import STANDBY, runner_name, slug
from gpu_manager.loop import Manager, PassResult
from gpu_manager.memory import Memory, from_json, to_json
from gpu_manager.model import (
    End,
    Insert,
    InsertError,
    Job,
    JobKey,
    Machine,
    NewRunner,
    Offer,
    OperationState,
    Pool,
    RanJob,
    Run,
    RunKey,
    Runner,
)
from gpu_manager.ports import GithubView, InsertRefused, Mailbox, Started, Unavailable

from tests.manager.machine_key import PRIVATE, certificate_of, published

REPOSITORIES = ("example-org/kernels", "example-org/models")
BOOT_SEC, IDLE_SEC = 300, 120
# All keys use one private key, because the creation of each takes a while.
CERTIFICATES = tuple(certificate_of(PRIVATE, number) for number in (1, 2))
# Seconds that a machine waits for its registration, and seconds beyond IDLE_SEC in which the manager removes it.
REGISTER_SEC, LATE_SEC = 120, 300
PASS_SEC = 10.0
MOST_TRIES = 10
ZONES = ("us-central1-a", "us-central1-b", "us-central1-c")


class Killed(BaseException):
    """The process is killed here, as with kill -9."""


class BrokenRuleError(AssertionError):
    """A rule of the manager was broken."""


def pool(
    name: str, most: int, *labels: str, market: str = "spot", registered_by: str = "manager", standby: int = 0
) -> Pool:
    """Return a pool of one machine type in three zones. With `spot` it also has standard rungs and rungs in another
    region.
    """
    markets = ("spot", "standard") if market == "spot" else (market,)
    near = [Offer(zone, "g2-standard-8", each, "nvidia-l4", 0.4) for each in markets for zone in ZONES]
    far = Offer("us-east1-b", "g2-standard-8", "spot", "nvidia-l4", 0.4, f"templates/{name}-east")
    rungs = tuple([*near[: len(ZONES)], far, *near[len(ZONES) :]] if market == "spot" else near)
    return Pool(
        name,
        "example",
        f"templates/{name}",
        rungs,
        most,
        frozenset(labels),
        boot_sec=BOOT_SEC,
        idle_sec=IDLE_SEC,
        registered_by=registered_by,
        standby=standby,
    )


def commit_of(job: JobKey) -> str:
    """Return the commit of a job. Each run has its own."""
    return f"{job.run_id:040x}"


@dataclass
class WorldJob:
    """A job at GitHub."""

    key: JobKey
    labels: frozenset[str]
    created: float
    duration: float
    status: str = "queued"
    conclusion: str = ""
    runner: str = ""
    """The name of its runner at GitHub."""
    instance: str = ""
    """Google's id of the machine to which it was assigned."""
    cancel_at: float | None = None
    cancelled: float | None = None
    """When a person cancelled it."""
    fails_at: float | None = None
    """When GitHub gives up its runner after the end of the machine."""
    zombie: bool = False
    """True for a job that GitHub never assigns to a runner."""
    started: float = 0.0
    completed: float = 0.0

    def complete(self, conclusion: str, now: float) -> None:
        self.status, self.conclusion, self.completed = "completed", conclusion, now


@dataclass
class Vm:
    """A machine at Google."""

    machine: Machine
    created: float
    boots_in: float
    runs_at: float
    job: WorldJob | None = None
    runner_id: int = 0
    idle_since: float | None = None
    off_at: float | None = None
    ended: str = "job-done"
    """The reason that it reports when it switches itself off."""
    listed_at: float = 0.0
    """When it first appears in a list, at the latest with its operation."""
    silent: bool = False
    """True if its agent never registers a runner and never switches the machine off."""
    waits_until: float | None = None
    """A flex-start machine is PENDING until this time. Then it gets its capacity, or Google deletes it."""
    in_vain: bool = False
    hung: bool = False
    """True if it hangs after its runner's registration: GitHub lists the runner as offline."""
    published_at: float | None = None
    """When it published its key, if the manager registers its runner."""
    sent: int = 0
    """The runner whose registration is in its metadata."""
    arrives_at: float = 0.0
    """When the metadata changes and the runner has started from it."""
    boots: int = 1
    """The number of boots, each with a new key."""
    stops_at: float | None = None
    starts_at: float | None = None
    """When a requested stop or start is done."""
    inserted_at: float = 0.0


@dataclass
class Life:
    """What a machine really did, by the clock of all vendors. It stays when the machine is gone."""

    name: str
    on: list[list[float]] = field(default_factory=list)
    """The times at which it was switched on and off."""
    jobs: list[int] = field(default_factory=list)
    listed: bool = False
    """True if the manager has seen it on or off in a list."""
    gone: float = 0.0


@dataclass
class World:
    """The whole simulated world."""

    seed: int
    pools: list[Pool]
    faults: bool = True
    now: float = 1_000_000.0
    jobs: dict[int, WorldJob] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    """The latest attempt of each run."""
    vms: dict[tuple[str, str], Vm] = field(default_factory=dict)
    operations: dict[str, tuple[float, InsertError | None, str]] = field(default_factory=dict)
    requests: dict[str, tuple[float, str]] = field(default_factory=dict)
    """When each insert was requested, with its operation."""
    inserted: dict[str, str] = field(default_factory=dict)
    """The id of the machine of each insert's operation."""
    forged: list[Machine] = field(default_factory=list)
    """Machines that an attacker has created with the labels of a pool, and with a key."""
    registered: dict[int, str] = field(default_factory=dict)
    """Names of all runners by id. GitHub keeps runners whose machine is gone."""
    registered_at: dict[int, float] = field(default_factory=dict)
    by_manager: set[int] = field(default_factory=set)
    """The runners that the manager has registered."""
    preempted: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Names of machines and the time of their preemption, by Google's id."""
    reruns: Counter[tuple[int, int]] = field(default_factory=Counter)
    machines_of_job: Counter[str] = field(default_factory=Counter)
    skew_sec: float = 0.0
    started: int = 0
    """The number of starts of machines on standby."""
    passes: list[float] = field(default_factory=list)
    """The times of the passes that knew everything."""
    lists: list[float] = field(default_factory=list)
    """The times of the passes that knew the machines."""
    lives: dict[str, Life] = field(default_factory=dict)
    """What each machine really did, by Google's id."""
    forgotten: float = 0.0
    """When the manager last lost its memory. Its waits start again from this time."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self._ids = 0
        # No page documents how long Compute Engine recognizes a repeated request by its id.
        self.knows_requests_sec = self.chance.choice((60.0, 60.0, 3600.0))
        # In some worlds rare combinations of faults are frequent. Machines end and leave their runners at GitHub. The
        # manager loses its memory and creates machines with the same names.
        rates = self.chance.choice(((0.0, 0.1, 0.05, 0.0), (0.001, 0.2, 0.05, 0.03), (0.004, 0.8, 0.4, 0.1)))
        self.crash_rate, self.forget_rate, self.hung_rate, self.hung_crash_rate = rates
        # GitHub's documentation names no order of its list of runners.
        self.newest_runners_first = self.chance.random() < 0.5

    def number(self) -> int:
        self._ids += 1
        return self._ids

    def instance_id(self) -> str:
        """Return Google's id of a new machine. It is new even if an earlier machine had the same name."""
        return f"{self.chance.randrange(10**12):012}{self.number():07}"

    def stray_runners(self) -> set[str]:
        """Return the names of the runners at GitHub that only the manager could unregister."""
        return {name for number, name in self.registered.items() if number in self.by_manager}

    # -- what happens -------------------------------------------------------------------------------------------------

    def queue(self, labels: Collection[str], duration: float, *, zombie: bool = False) -> WorldJob:
        run = self.number()
        key = JobKey(REPOSITORIES[run % 2], run, self.number(), 1)
        job = WorldJob(key, frozenset(labels), self.now, duration, zombie=zombie)
        self.jobs[job.key.job_id] = job
        self.attempts[run] = 1
        return job

    def cancel(self, job: WorldJob) -> None:
        if job.status == "completed":
            return
        job.complete("cancelled", self.now)
        job.cancelled = self.now
        for vm in self.vms.values():
            if vm.job is job:
                self._job_over(vm)

    def preempt(self, vm: Vm) -> None:
        """Preempt a spot machine: an operation reports it, and its job is lost."""
        self.preempted[vm.machine.id] = (vm.machine.name, self.now)
        if vm.job:
            # A runner that gets the notice in time cancels its job. For any other runner GitHub waits ten minutes.
            if self.chance.random() < 0.5:
                vm.job.fails_at = self.now + 600
            else:
                vm.job.complete(self.chance.choice(("failure", "cancelled")), self.now)
                self.registered.pop(vm.runner_id, None)
        elif vm.machine.registered_by == "machine" and self.chance.random() < 0.5:
            # An agent that gets the notice in time unregisters its runner.
            self.registered.pop(vm.runner_id, None)
        self.remove(vm)

    def _known_since(self, vm: Vm) -> float:
        """Return when the manager first listed the machine in this boot, with the memory that it has now."""
        lists = self.lists[bisect(self.lists, max(vm.created, self.forgotten)) :]
        return lists[0] if lists else self.now

    def _passes_since(self, when: float) -> int:
        return len(self.passes) - bisect(self.passes, when)

    def remove(self, vm: Vm) -> None:
        """Delete a machine."""
        del self.vms[(vm.machine.zone, vm.machine.name)]
        life = self.lives[vm.machine.id]
        life.gone = self.now + self.skew_sec
        if life.on and len(life.on[-1]) == 1:
            life.on[-1].append(life.gone)

    def forge(self) -> None:
        """Let an attacker create a machine, sometimes with the name of one of the manager's machines."""
        pool = self.chance.choice(self.pools)
        rung = pool.rungs[-1]
        names = [f"{pool.name}-0a1b2c3d", *(vm.machine.name for vm in self.vms.values())]
        self.forged.append(
            Machine(
                self.chance.choice(names), pool.name, rung.zone, "RUNNING", rung.market, rung.machine_type,
                pool.template_of(rung), id=self.instance_id(), registered_by="manager", job=STANDBY,
                key=published(CERTIFICATES[0]),
            )
        )  # fmt: skip

    def crash(self, vm: Vm) -> None:
        """End a machine by a fault of its host, or by a person. Its runner stays registered."""
        if vm.job:
            vm.job.fails_at = self.now + 600
        vm.job, vm.runner_id, vm.idle_since = None, 0, None
        if self.chance.random() < 0.5:
            self._set(vm, "TERMINATED")
        else:
            self.remove(vm)

    def register(self, name: str, *, by_manager: bool) -> int:
        """Register a runner at GitHub and return its id."""
        number = self.number()
        self.registered[number], self.registered_at[number] = name, self.now
        if by_manager:
            self.by_manager.add(number)
        return number

    def advance(self, seconds: float) -> None:
        """Let time pass, second by second."""
        for _ in range(round(seconds)):
            self.now += 1
            for vm in list(self.vms.values()):
                self._live(vm)
            self._assign()
            for job in list(self.jobs.values()):
                if job.fails_at is not None and self.now >= job.fails_at and job.status == "in_progress":
                    job.complete("failure", self.now)
                    gone = job.runner
                    self.registered = {number: name for number, name in self.registered.items() if name != gone}
                if job.cancel_at is not None and self.now >= job.cancel_at:
                    job.cancel_at = None
                    self.cancel(job)
            if self.faults and len(self.forged) < 2 and self.chance.random() < 0.002:
                self.forge()
            if self.faults and self.chance.random() < 0.002:
                spot = [vm for vm in self.vms.values() if vm.machine.market == "spot" and not vm.machine.off]
                if spot:
                    self.preempt(self.chance.choice(spot))
            if self.faults and self.chance.random() < self.crash_rate:
                started = [vm for vm in self.vms.values() if not vm.machine.off and not vm.machine.waits_for_capacity]
                if started:
                    self.crash(self.chance.choice(started))

    def _live(self, vm: Vm) -> None:
        machine = vm.machine
        if vm.stops_at is not None and self.now >= vm.stops_at and not machine.off:
            vm.stops_at, vm.published_at = None, None
            self._set(vm, "TERMINATED", End("stopped"))
        elif vm.starts_at is not None and self.now >= vm.starts_at:
            # The key of the previous boot stays published until this boot publishes its own.
            vm.starts_at, vm.created, vm.runs_at, vm.boots = None, self.now, self.now + 5, vm.boots + 1
            self._set(vm, "STAGING")
        elif machine.off or machine.status == "STOPPING":
            return
        elif machine.status == "PENDING":
            if vm.waits_until is not None and self.now >= vm.waits_until:
                if vm.in_vain:
                    self.remove(vm)
                else:
                    self._set(vm, "STAGING")
        elif machine.status == "STAGING" and self.now >= vm.runs_at:
            self._set(vm, "RUNNING")
        elif machine.status == "RUNNING" and not vm.silent:
            if vm.off_at is not None and self.now >= vm.off_at:
                self._set(vm, "TERMINATED", End(vm.ended))
            elif vm.off_at is None and not vm.runner_id and self.now >= vm.runs_at + vm.boots_in:
                self._ready(vm)
            elif vm.hung and vm.runner_id:
                if self.faults and self.chance.random() < self.hung_crash_rate:
                    self.crash(vm)
                elif self.now - max(vm.runs_at + vm.boots_in, self.forgotten) > 120 + 400 + REGISTER_SEC:
                    raise BrokenRuleError(f"{machine.name}: hangs, and it is still there")
            elif vm.job and self.now >= vm.job.created and vm.job.status == "in_progress":
                vm.job.duration -= 1
                if vm.job.duration <= 0:
                    vm.job.complete("success", self.now)
                    self._job_over(vm)
            elif vm.runner_id and vm.idle_since is not None and self.now - vm.idle_since > self._idle_sec(vm):
                # A runner that the manager registered stays at GitHub, and so does one whose agent gets no answer.
                if machine.registered_by == "machine" and not (self.faults and self.chance.random() < 0.2):
                    self.registered.pop(vm.runner_id, None)
                vm.runner_id, vm.ended = 0, "idle"
                vm.off_at = self.now + 5
        # A manager that has lost its memory counts from its next pass. Each of its requests to delete may be lost.
        elif vm.silent and self._passes_since(self._known_since(vm) + BOOT_SEC + 60 + PASS_SEC) > MOST_TRIES:
            raise BrokenRuleError(f"{machine.name}: no runner for {self.now - vm.created:.0f} s, and it is still there")

    def _idle_sec(self, vm: Vm) -> int:
        return IDLE_SEC + (LATE_SEC if vm.machine.registered_by == "manager" else 0)

    def _ready(self, vm: Vm) -> None:
        """Continue a machine that has checked its GPU: it registers its runner, or waits for the manager."""
        if vm.machine.registered_by != "manager":
            name = runner_name(vm.machine)
            if self.faults and self.chance.random() < 0.1:
                # The answer was lost. GitHub has that name, and the agent uses the next one.
                self.register(name, by_manager=False)
                name += "-2"
            vm.runner_id, vm.idle_since = self.register(name, by_manager=False), self.now
        elif vm.published_at is None:
            vm.published_at = self.now
            vm.machine = replace(vm.machine, key=published(CERTIFICATES[vm.boots % len(CERTIFICATES)]))
        elif vm.sent and self.now >= vm.arrives_at:
            vm.machine = replace(vm.machine, sealed=True)
            if self.now < vm.arrives_at + vm.boots_in / 10:
                return
            if vm.sent in self.registered:
                vm.runner_id, vm.idle_since = vm.sent, self.now
            else:
                self._set(vm, "TERMINATED", End("runner-failed"))
        elif not vm.sent and self.now - vm.published_at > REGISTER_SEC:
            self._set(vm, "TERMINATED", End("not-registered"))

    def busy(self, runner: str) -> bool:
        """Return True if GitHub has assigned a job to the runner of this name."""
        return any(job.status == "in_progress" and job.runner == runner for job in self.jobs.values())

    def _job_over(self, vm: Vm) -> None:
        self.registered.pop(vm.runner_id, None)
        vm.job, vm.runner_id, vm.idle_since = None, 0, None
        vm.off_at = self.now + self.chance.choice((3, 10, 40))

    def _set(self, vm: Vm, status: str, end: End | None = None) -> None:
        vm.machine = replace(vm.machine, status=status, end=end)
        intervals, when = self.lives[vm.machine.id].on, self.now + self.skew_sec
        if status == "STAGING":
            intervals.append([when])
            vm.machine = replace(vm.machine, on_unix=when)
        elif status == "TERMINATED" and len(intervals[-1]) == 1:
            intervals[-1].append(when)
            vm.machine = replace(vm.machine, off_unix=when)

    def _assign(self) -> None:
        for job in sorted(self.jobs.values(), key=lambda each: each.created):
            if job.status != "queued" or job.zombie:
                continue
            by_name = {each.name: each for each in self.pools}
            idle = [
                vm
                for vm in self.vms.values()
                if vm.runner_id in self.registered
                and vm.job is None
                and not vm.hung
                and job.labels <= by_name[vm.machine.pool].labels
            ]
            if idle:
                vm = self.chance.choice(idle)
                vm.job, vm.idle_since = job, None
                job.status, job.instance, job.started = "in_progress", vm.machine.id, self.now
                self.lives[vm.machine.id].jobs.append(job.key.job_id)
                job.runner = self.registered[vm.runner_id]

    def left_over(self) -> list[str]:
        """Return the names of machines that should be gone: all except each pool's machines on standby."""
        room = {each.name: each.standby for each in self.pools}
        found = []
        for vm in self.vms.values():
            on_standby = vm.machine.off and not vm.machine.sealed and room[vm.machine.pool] > 0
            room[vm.machine.pool] -= on_standby
            found += [] if on_standby else [vm.machine.name]
        return found

    # -- what the manager sees and asks -------------------------------------------------------------------------------

    def check_max(self) -> None:
        for each in self.pools:
            ours = [vm for vm in self.vms.values() if vm.machine.pool == each.name]
            alive = [vm for vm in ours if not vm.machine.off or vm.starts_at is not None]
            if len(alive) > each.max:
                raise BrokenRuleError(f"{each.name}: {len(alive)} machines, and its maximum is {each.max}")


class Faulty:
    """Calls with random faults: before the action, after it, or with the end of the manager."""

    def __init__(self, world: World, rate: float, kill_rate: float) -> None:
        self.world, self.rate, self.kill_rate = world, rate, kill_rate

    def before(self) -> None:
        if self.world.chance.random() < self.kill_rate:
            raise Killed
        if self.world.chance.random() < self.rate:
            raise Unavailable("the request was lost")

    def after(self) -> None:
        if self.world.chance.random() < self.kill_rate:
            raise Killed
        if self.world.chance.random() < self.rate:
            raise Unavailable("the answer was lost")


class FakeGithub:
    def __init__(self, world: World, faulty: Faulty) -> None:
        self.world, self.faulty = world, faulty
        self.last: dict[str, tuple[Job, ...]] = {}

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        world, lost = self.world, self.world.chance.random
        rate = self.faulty.rate
        if lost() < self.faulty.kill_rate:
            raise Killed
        # Single repositories cannot be read, and keep their last jobs, as in the adapter.
        unread = frozenset(each for each in REPOSITORIES if lost() < rate)
        runner_ids = {name: number for number, name in world.registered.items()}
        found_jobs = [
            Job(
                job.key,
                job.labels,
                job.status,  # type: ignore[arg-type]
                job.created + world.skew_sec,
                job.conclusion,
                job.runner,
                name=f"job-{job.key.run_id}",
                runner_id=runner_ids.get(job.runner, 0),
            )
            for job in world.jobs.values()
            if job.status != "completed"
        ]
        for repository in set(REPOSITORIES) - unread:
            self.last[repository] = tuple(job for job in found_jobs if job.key.repository == repository)
        jobs = tuple(job for repository in sorted(self.last) for job in self.last[repository])
        working = {vm.runner_id for vm in world.vms.values() if not vm.hung}
        runners = [
            Runner(number, name, online=number in working, busy=world.busy(name))
            for number, name in world.registered.items()
            # A list may lack a runner that has just been registered.
            if world.now - world.registered_at[number] > 10 or lost() >= rate
        ]
        if world.newest_runners_first:
            runners.reverse()
        found = {key: self._run(key) for key in runs if lost() >= rate}
        return GithubView(
            world.now + world.skew_sec,
            None if lost() < rate else jobs,
            None if lost() < rate else tuple(runners),
            found,
            unread,
        )

    def _run(self, key: RunKey) -> Run:
        jobs = [job for job in self.world.jobs.values() if job.key.run_id == key.run_id]
        attempt = self.world.attempts[key.run_id]
        latest = [job for job in jobs if job.key.attempt == attempt]
        done = all(job.status == "completed" for job in latest)
        bad = tuple(job.key.job_id for job in latest if job.conclusion not in ("success", ""))
        cancelled = any(job.conclusion == "cancelled" for job in latest)
        conclusion = ("cancelled" if cancelled else "failure" if bad else "success") if done else ""
        return Run(key, attempt, "completed" if done else "in_progress", conclusion, self.world.now, bad)

    def register(self, pool: Pool, name: str) -> NewRunner:
        """Register a runner as the adapter does: a taken name is freed first, unless its runner has a job."""
        if not any(name.endswith(f"-{number}") for number in self.world.inserted.values()):
            raise BrokenRuleError(f"{name}: gets a runner, and no insert returned its id")
        self.faulty.before()
        for number, known in list(self.world.registered.items()):
            if known != name:
                continue
            if self.world.busy(name):
                raise Unavailable("it has a job")
            del self.world.registered[number]
            self.faulty.before()
        made = NewRunner(self.world.register(name, by_manager=True), name, "secret")
        self.faulty.after()
        return made

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        self.faulty.before()
        if runner.id in self.world.registered:
            if self.world.busy(self.world.registered[runner.id]):
                return False
            del self.world.registered[runner.id]
        for vm in self.world.vms.values():
            if vm.runner_id == runner.id:
                if vm.job is not None:
                    return False
                vm.runner_id, vm.off_at = 0, None if vm.hung else self.world.now + 20
        self.faulty.after()
        return True

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        self.faulty.before()
        attempt = self.world.attempts[run.run_id]
        latest = [job for job in self.world.jobs.values() if job.key[1] == run.run_id and job.key.attempt == attempt]
        if any(job.status != "completed" for job in latest):
            raise Unavailable("the run is already running")
        if any(self._cancelled_by_a_person(job) for job in latest):
            raise BrokenRuleError(f"run {run.run_id}: was cancelled by a person, and is run again")
        self.world.reruns[(run.run_id, attempt)] += 1
        self.world.attempts[run.run_id] = attempt + 1
        for job in latest:
            if job.conclusion != "success":
                key = JobKey(run.repository, run.run_id, self.world.number(), attempt + 1)
                self.world.jobs[key.job_id] = WorldJob(key, job.labels, self.world.now, job.duration + 5)
        self.faulty.after()

    def ran(self, run: RunKey) -> tuple[RanJob, ...]:
        self.faulty.before()
        skew, now = self.world.skew_sec, self.world.now

        def time(unix: float) -> datetime:
            return datetime.fromtimestamp(unix + skew, UTC)

        return tuple(
            RanJob(
                job.runner,
                JobOfMachine(
                    repository=run.repository, run=run.run_id, attempt=job.key.attempt, id=job.key.job_id,
                    created=time(job.created), started=time(job.started),
                    completed=time(job.completed) if job.status == "completed" else None, conclusion=job.conclusion,
                ),
            )
            for job in self.world.jobs.values()
            if job.runner and (job.key.repository, job.key.run_id) == tuple(run) and job.started <= now
        )  # fmt: skip

    def _cancelled_by_a_person(self, job: WorldJob) -> bool:
        """Return True if a person certainly cancelled the job. Within minutes of a preemption the cause is unclear."""
        _, taken = self.world.preempted.get(job.instance, ("", None))
        return job.cancelled is not None and (taken is None or taken + 240 < job.cancelled)


class FakeCompute:
    TITLE = "Compute Engine"

    def __init__(self, world: World, faulty: Faulty, stockouts: float) -> None:
        self.world, self.faulty, self.stockouts = world, faulty, stockouts
        self._asked: set[str] = set()

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        self.faulty.before()
        listed = [vm.machine for vm in self.world.vms.values() if self.world.now >= vm.listed_at]
        return (*self._seen(listed), *self.world.forged)

    def _seen(self, machines: Iterable[Machine]) -> tuple[Machine, ...]:
        """Return the machines, of which the manager may write a record from now on."""
        found = tuple(machines)
        for machine in found:
            self.world.lives[machine.id].listed |= not machine.waits_for_capacity
        return found

    def owns(self, machine: Machine) -> bool:
        if machine.id not in self._asked:
            self.faulty.before()
            self._asked.add(machine.id)
        return machine.id in self.world.inserted.values()

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        self.faulty.before()
        busy = {name for until, _, name in self.world.operations.values() if self.world.now < until}
        return self._seen(vm.machine for vm in self.world.vms.values() if vm.machine.name in busy)

    def operation(self, pool: Pool, offer: Offer, operation: str) -> OperationState:
        self.faulty.before()
        until, error, _ = self.world.operations[operation]
        return OperationState(True, error) if self.world.now >= until else OperationState(False)

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        self.faulty.before()
        taken = self.world.preempted.items()
        return frozenset(f"{name}-{number}" for number, (name, when) in taken if self.world.now - when < 3600)

    def start(self, pool: Pool, insert: Insert) -> Started:
        self.faulty.before()
        world, rung = self.world, insert.rung
        asked, known = world.requests.get(insert.request_id, (0.0, ""))
        if known and world.now - asked < world.knows_requests_sec:
            return Started(known, world.inserted[known])
        if existing := world.vms.get((rung.zone, insert.machine)):
            return Started("", existing.machine.id)
        operation = f"operation-{world.number()}"
        until, error = world.now + world.chance.choice((0, 3, 15)), None
        if world.chance.random() < self.stockouts:
            kind = world.chance.choice(("no-capacity", "no-capacity", "over-quota", "refused"))
            others = tuple(world.chance.sample(ZONES, 1)) if world.chance.random() < 0.3 else ()
            error = InsertError(kind, f"{rung.zone} has none", others, "L4" if kind == "over-quota" else "")
            if world.chance.random() < 0.3:
                raise InsertRefused(error)
        world.requests[insert.request_id] = (world.now, operation)
        world.operations[operation] = (until, error, insert.machine)
        world.inserted[operation] = world.instance_id()
        if error is None:
            machine = Machine(
                insert.machine,
                pool.name,
                rung.zone,
                "STAGING",
                rung.market,
                rung.machine_type,
                pool.template_of(rung),
                job=slug(insert.job.key) if insert.job else STANDBY,
                id=world.inserted[operation],
                registered_by=pool.registered_by,
            )
            silent = world.faults and world.chance.random() < 0.05
            boots_in = world.chance.choice((20, 60, 150))
            hung = world.faults and world.chance.random() < world.hung_rate
            vm = Vm(machine, world.now, boots_in, until, silent=silent, hung=hung, inserted_at=world.now)
            vm.listed_at = until if world.chance.random() < 0.3 else world.now
            world.lives[machine.id] = Life(machine.name)
            world._set(vm, "STAGING")
            if rung.market == "flex-start":
                self._waits(vm, operation)
            world.vms[(rung.zone, insert.machine)] = vm
            world.machines_of_job[machine.job] += 1
            world.check_max()
        self.faulty.after()
        return Started(operation, world.inserted[operation])

    def _waits(self, vm: Vm, operation: str) -> None:
        """Start the search for capacity. No page documents if the operation ends with the wait or with the request."""
        chance = self.world.chance
        vm.machine = replace(vm.machine, status="PENDING", on_unix=0.0)
        self.world.lives[vm.machine.id].on.clear()
        vm.waits_until = vm.created = self.world.now + (chance.choice((10, 200, 1800)) if self.world.faults else 10)
        vm.runs_at = vm.waits_until + 15
        vm.in_vain = chance.random() < self.stockouts
        if chance.random() < 0.5:
            error = InsertError("no-capacity", "none within the wait") if vm.in_vain else None
            self.world.operations[operation] = (vm.waits_until, error, vm.machine.name)

    @property
    def channel(self) -> FakeCompute:
        return self

    def listen(self, machines: Sequence[Machine]) -> tuple[Machine, ...]:
        return tuple(machines)

    def mailbox(self, machine: Machine) -> Mailbox:
        self.faulty.before()
        vm = self.world.vms.get((machine.zone, machine.name))
        if vm is None or vm.machine.id != machine.id:
            raise Unavailable("it is gone, or another machine has its name")
        return Mailbox(vm.machine.sealed, _fingerprint(vm.machine))

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
        """Accept new metadata at once, and apply it a little later."""
        self.faulty.before()
        vm = self.world.vms.get((machine.zone, machine.name))
        if vm is None:
            raise Unavailable("it is gone")
        if mailbox.version != _fingerprint(vm.machine):
            return False
        if vm.machine.sealed:
            raise BrokenRuleError(f"{machine.name}: a second registration")
        certificate = CERTIFICATES[vm.boots % len(CERTIFICATES)]
        try:
            opened = json.loads(pkcs7.pkcs7_decrypt_der(base64.b64decode(registration), certificate, PRIVATE, []))
        except ValueError:
            if self.world.forgotten < vm.inserted_at:
                raise BrokenRuleError(f"{machine.name}: sealed to the key of an earlier boot") from None
            # A manager that lost its memory cannot know this. The machine cannot decrypt the registration, and ends.
            opened = {"runnerId": -1, "machine": runner_name(vm.machine)}
        assert opened["machine"] == runner_name(vm.machine)
        vm.sent, vm.arrives_at = opened["runnerId"], self.world.now + self.world.chance.choice((0, 2, 8))
        self.faulty.after()
        return True

    def stop(self, machine: Machine) -> None:
        self.faulty.before()
        vm = self.world.vms.get((machine.zone, machine.name))
        if vm is not None and not vm.machine.off:
            if vm.sent or vm.runner_id or vm.job:
                raise BrokenRuleError(f"{machine.name}: stopped although it has a runner")
            if vm.stops_at is None:
                vm.stops_at = self.world.now + self.world.chance.choice((2, 8, 25))
                if self.world.chance.random() < 0.7:
                    self.world._set(vm, "STOPPING")
        self.faulty.after()

    def start_again(self, machine: Machine, request_id: str) -> str:
        self.faulty.before()
        world, vm = self.world, self.world.vms.get((machine.zone, machine.name))
        asked, known = world.requests.get(request_id, (0.0, ""))
        if known and world.now - asked < world.knows_requests_sec:
            return known
        if vm is None:
            raise InsertRefused(InsertError("refused", "it is gone"))
        operation = f"operation-{world.number()}"
        until, error = world.now + world.chance.choice((0, 3, 15)), None
        if not vm.machine.off or vm.starts_at is not None:
            # Google does not start a machine that is on.
            world.operations[operation] = (until, None, machine.name)
            return operation
        if world.chance.random() < self.stockouts:
            error = InsertError("no-capacity", f"{machine.zone} has none")
            if world.chance.random() < 0.3:
                raise InsertRefused(error)
        world.requests[request_id] = (world.now, operation)
        world.operations[operation] = (until, error, machine.name)
        if error is None:
            vm.starts_at, vm.boots_in = until, world.chance.choice((5, 20))
            vm.silent = world.faults and world.chance.random() < 0.05
            world.started += 1
            world.check_max()
        self.faulty.after()
        return operation

    def delete(self, machine: Machine) -> None:
        self.faulty.before()
        vm = self.world.vms.get((machine.zone, machine.name))
        if vm is not None:
            if vm.job is not None:
                raise BrokenRuleError(f"{machine.name}: deleted while it runs job {vm.job.key.job_id}")
            self.world.remove(vm)
        self.faulty.after()


def _fingerprint(machine: Machine) -> str:
    """Return the fingerprint of a machine's metadata. It differs for all machines, even for two of one name."""
    return f"{machine.id} {machine.sealed}"


class FileStore:
    """A store with the memory as bytes, which remain after a kill."""

    def __init__(self, world: World) -> None:
        self.content, self.world = b"", world
        self.lines: dict[str, MachineRecord] = {}

    def load(self) -> Memory:
        return from_json(self.content) if self.content else Memory()

    def save(self, memory: Memory) -> None:
        self.content = to_json(memory)

    def add(self, records: Iterable[MachineRecord]) -> None:
        for each in records:
            assert self.lines.setdefault(each.key, each) == each or self.world.forgotten, "two records of one machine"

    def may_act(self) -> bool:
        return True


@dataclass
class History:
    """One history: a world, a manager that may be killed, and its passes."""

    world: World
    fault_rate: float = 0.0
    kill_rate: float = 0.0
    stockouts: float = 0.0
    passes: list[PassResult] = field(default_factory=list)
    kills: int = 0

    def __post_init__(self) -> None:
        self.store = FileStore(self.world)
        self.faulty = Faulty(self.world, self.fault_rate, self.kill_rate)
        self.start()

    def start(self) -> None:
        """Start a new manager on a computer with another clock time, and sometimes without its memory."""
        github = FakeGithub(self.world, self.faulty)
        compute = FakeCompute(self.world, self.faulty, self.stockouts)
        if self.world.faults and self.world.chance.random() < self.world.forget_rate:
            self.store.content, self.world.forgotten = b"", self.world.now
        ahead_sec = self.world.chance.choice((0.0, 3600.0, -3600.0))
        self.manager = Manager(self.world.pools, github, compute, self.store, lambda: self.world.now + ahead_sec)

    def run(self, passes: int) -> None:
        """Run this number of passes, ten seconds apart."""
        for _ in range(passes):
            try:
                self.passes.append(self.manager.step())
                last = self.passes[-1]
                self.world.passes += [self.world.now] if last.complete else []
                self.world.lists += [self.world.now] if last.saved and last.observation.machines is not None else []
            except Killed:
                self.kills += 1
                self.start()
            self.world.advance(PASS_SEC)

    def calm_down(self) -> None:
        """Stop all faults."""
        self.world.faults = False
        self.faulty.rate = self.faulty.kill_rate = 0.0
        self.stockouts = 0.0
        self.start()
