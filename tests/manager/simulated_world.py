"""A simulated world for the control loop: GitHub, Compute Engine, time and random faults, with rules that must hold.

Everything happens in virtual time. The world checks the rules at the moment at which one would be broken.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from gpu_manager.decision.names import STANDBY, runner_name
from gpu_manager.model import (
    End,
    InsertError,
    JobKey,
    Machine,
    Offer,
    Pool,
    RunKey,
)

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
    of_fork: bool = False
    """True if a machine may run it only while its run is in World.approved."""
    event: str = "push"
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
    detail: str = ""
    run: RunKey | None = None
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
    only: tuple[str, int, int] | None = None
    """The only run that it accepts."""


@dataclass
class Life:
    """What a machine really did, by the clock of all vendors. It stays when the machine is gone."""

    name: str
    on: list[list[float]] = field(default_factory=list)
    """The times at which it was switched on and off."""
    jobs: list[int] = field(default_factory=list)
    refused: int = 0
    """The job that it has refused, because it is of another run."""
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
    labels_of: dict[int, frozenset[str]] = field(default_factory=dict)
    """The labels of all runners by id."""
    by_manager: set[int] = field(default_factory=set)
    """The runners that the manager has registered."""
    preempted: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Names of machines and the time of their preemption, by Google's id."""
    broken: set[str] = field(default_factory=set)
    """The ids of the machines whose GPU failed."""
    reports: Counter[int] = field(default_factory=Counter)
    """The number of check runs by job."""
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
    timed_out: set[str] = field(default_factory=set)
    """The jobs of runs that the manager has cancelled."""
    approved: set[int] = field(default_factory=set)
    """The runs of forks that are approved now."""
    once_approved: set[int] = field(default_factory=set)
    written_at: dict[str, float] = field(default_factory=dict)
    """When each object of a mailbox was written."""
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

    def mailbox_id(self) -> str:
        """Return the id of a new machine with a mailbox."""
        return f"{self.chance.getrandbits(48):012x}"

    def stray_runners(self) -> set[str]:
        """Return the names of the runners at GitHub that only the manager could unregister."""
        return {name for number, name in self.registered.items() if number in self.by_manager}

    # -- what happens -------------------------------------------------------------------------------------------------

    def approve(self, run: int) -> None:
        self.approved.add(run)
        self.once_approved.add(run)

    def queue(
        self,
        labels: Collection[str],
        duration: float,
        *,
        zombie: bool = False,
        of_fork: bool = False,
        event: str = "",
        repository: str = "",
    ) -> WorldJob:
        """Queue a job. With an event, the job also has the label of its run."""
        run = self.number()
        key = JobKey(repository or REPOSITORIES[run % 2], run, self.number(), 1)
        labels = frozenset([*labels, f"run-{run}"] if event else labels)
        job = WorldJob(key, labels, self.now, duration, zombie=zombie, of_fork=of_fork, event=event or "push")
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
                self._outcome(vm)  # the GPU may have failed before
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
        """Return when the manager first listed the running machine in this boot, with the memory that it has now."""
        lists = self.lists[bisect(self.lists, max(vm.created, vm.runs_at, self.forgotten)) :]
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

    def register(self, name: str, labels: frozenset[str], *, by_manager: bool) -> int:
        """Register a runner at GitHub and return its id."""
        number = self.number()
        self.labels_of[number] = labels
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
                self._set(vm, "TERMINATED", End(vm.ended, vm.detail, run=vm.run))
            elif vm.off_at is None and not vm.runner_id and self.now >= vm.runs_at + vm.boots_in:
                self._ready(vm)
            elif vm.hung and vm.runner_id:
                if self.faults and self.chance.random() < self.hung_crash_rate:
                    self.crash(vm)
                elif self.now - max(
                    vm.runs_at + vm.boots_in, self.forgotten
                ) > 120 + 400 + REGISTER_SEC + self._warm_sec(vm):
                    raise BrokenRuleError(f"{machine.name}: hangs, and it is still there")
            elif vm.job and self.now >= vm.job.created and vm.job.status == "in_progress":
                vm.job.duration -= 1
                if vm.job.duration <= 0:
                    vm.job.complete(self._outcome(vm), self.now)
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

    def _warm_sec(self, vm: Vm) -> int:
        warm = next(each.warm for each in self.pools if each.name == vm.machine.pool)
        return warm.most_wait_sec if warm else 0

    def _outcome(self, vm: Vm) -> str:
        """Return how the job of a machine ends. It may fail because the GPU fails, or by itself, and succeed anyway."""
        if not self.faults or vm.job is None:
            return "success"
        breaks, fails = self.chance.random() < 0.2, self.chance.random() < 0.7
        if breaks:
            vm.ended, vm.detail = "gpu-fault", "Xid 79: the kernel's log has it"
            vm.run = RunKey(vm.job.key.repository, vm.job.key.run_id)
            self.broken.add(vm.machine.id)
        return "failure" if fails and (breaks or self.chance.random() < 0.1) else "success"

    def _idle_sec(self, vm: Vm) -> int:
        return IDLE_SEC + (LATE_SEC if vm.machine.registered_by == "manager" else 0)

    def _ready(self, vm: Vm) -> None:
        """Continue a machine that has checked its GPU: it registers its runner, or waits for the manager."""
        if vm.machine.registered_by != "manager":
            name = runner_name(vm.machine)
            labels = next(each.labels for each in self.pools if each.name == vm.machine.pool)
            if self.faults and self.chance.random() < 0.1:
                # The answer was lost. GitHub has that name, and the agent uses the next one.
                self.register(name, labels, by_manager=False)
                name += "-2"
            vm.runner_id, vm.idle_since = self.register(name, labels, by_manager=False), self.now
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
        elif not vm.sent and self.now - vm.published_at > REGISTER_SEC + self._warm_sec(vm):
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
            idle = [
                vm
                for vm in self.vms.values()
                if vm.runner_id in self.registered
                and vm.job is None
                and not vm.hung
                and job.labels <= self.labels_of[vm.runner_id]
            ]
            if idle:
                vm = self.chance.choice(idle)
                job.status, job.instance, job.started = "in_progress", vm.machine.id, self.now
                job.runner = self.registered[vm.runner_id]
                if vm.only is not None and vm.only != (job.key.repository, job.key.run_id, job.key.attempt):
                    # The agent ends the runner before the first step of the job.
                    self.lives[vm.machine.id].refused = job.key.job_id
                    job.fails_at = vm.off_at = self.now + 5
                    vm.runner_id, vm.idle_since, vm.ended = 0, None, "job-refused"
                    continue
                vm.job, vm.idle_since = job, None
                self.lives[vm.machine.id].jobs.append(job.key.job_id)
                if len(self.lives[vm.machine.id].jobs) > 1:
                    raise BrokenRuleError(f"{vm.machine.name}: takes a second job")
                if job.of_fork and job.key.run_id not in self.once_approved:
                    raise BrokenRuleError(f"{vm.machine.name}: runs a job that nobody has approved")

    def left_over(self) -> list[str]:
        """Return the names of machines that should be gone: all except each pool's machines on standby."""
        room = {each.name: each.kept for each in self.pools}
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
