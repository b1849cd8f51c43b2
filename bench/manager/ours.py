"""Our policy: the real loop with its real decision and memory, between the simulated GitHub and Compute Engine."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from gpu_manager.cli.share_loop import is_idle
from gpu_manager.github.rate_limits import RateLimits
from gpu_manager.loop import Manager, Pass
from gpu_manager.memory import Memory
from gpu_manager.model import (
    End,
    Insert,
    InsertError,
    Job,
    JobKey,
    Machine,
    OperationState,
    Pool,
    Run,
    Rung,
    RunKey,
    Runner,
)
from gpu_manager.pauses import Pauses
from gpu_manager.ports import GithubView

from . import world as simulated
from .availability import Place
from .prices import MACHINE_TYPE, usd_per_hour

# What one pass takes of requests to GitHub and Google. An assumption.
_PASS_SEC = 2.0
_EPOCH = 1.7e9
_REPOSITORY, _LABELS = "acme/kernels", frozenset({"self-hosted", "gpu", "l4"})
_PREEMPTED_WITHIN_SEC = 3600.0


@dataclass(frozen=True)
class Settings:
    """What a stack file chooses."""

    places: Sequence[Place]
    """The rungs, in order."""
    maximum: int
    hint: bool = False
    """Whether GitHub's webhook is received."""


class GpuCi(simulated.Policy):
    check_sec = simulated.CHECK_SEC
    idle_limit_sec = 600.0

    def __init__(self, world: simulated.World, settings: Settings) -> None:
        super().__init__(world)
        self.settings = settings
        rungs = tuple(
            Rung(place.zone, MACHINE_TYPE, place.market, "nvidia-l4", usd_per_hour(place)) for place in settings.places
        )
        pool = Pool("l4", "acme-ci", "template", rungs, settings.maximum, _LABELS, idle_sec=600, boot_sec=1200)
        self._cloud = _Compute(world)
        self._manager = Manager([pool], _Github(world), self._cloud, _Store(), lambda: _EPOCH + world.now)
        self._limits = RateLimits(lambda: world.now)
        self._last = 0.0
        self._interval_sec = 0.0
        self._asleep = False
        self._pauses = Pauses(lambda: world.now)
        self._next, self._due = 0, 0.0
        """The number of the pass that is to come, and its time. An earlier time takes the place of a later one."""

    def begin(self) -> None:
        self._step(self._next)

    def queued(self, job: simulated.Job) -> None:
        if self.settings.hint:
            self._pauses.hint()
            hinted = self.world.now + self._limits.hinted_interval_sec()
            if self._asleep or hinted < self._due:
                self._asleep = False
                self._schedule(hinted)

    def changed(self) -> None:
        """Take up the passes again that were left out because nothing could have changed."""
        if self._asleep:
            self._asleep = False
            self._sleep_until(self.world.now)

    def _sleep_until(self, when: float) -> None:
        """The first pass from then on, of those that come in even intervals."""
        passes = max(math.ceil((when - self._last) / self._interval_sec), 1)
        self._schedule(self._last + passes * self._interval_sec)

    def _schedule(self, when: float) -> None:
        self._due = when
        self.world.at(when, partial(self._step, self._next))

    def _step(self, number: int) -> None:
        if number != self._next:
            return
        self._next += 1
        done = self._manager.step()
        self._last = self.world.now
        active = self._pauses.hinted or not is_idle(done)
        self._interval_sec = self._limits.interval_sec(active) + _PASS_SEC
        self._asleep = _is_quiet(done)
        tries = [reason.next_try - _EPOCH for reason in done.decision.reasons.values() if reason.next_try is not None]
        if not self._asleep:
            self._sleep_until(self.world.now)
        elif tries:
            self._sleep_until(min(tries))


def _is_quiet(done: Pass) -> bool:
    """Whether further passes see and do the same until a job or a machine changes, or a reason's next try.

    The times that the decision waits for are those of pending inserts, lost jobs, idle runners and places without
    machines. A boot is over before its deadline.
    """
    memory = done.decision.memory
    waits = done.decision.actions or memory.pending or memory.lost
    idle = any(not runner.busy for runner in done.seen.runners or ())
    return not waits and not idle and all(machine.status == "RUNNING" for machine in done.seen.machines or ())


class _Store:
    def __init__(self) -> None:
        self._memory = Memory()

    def load(self) -> Memory:
        return self._memory

    def save(self, memory: Memory) -> None:
        self._memory = memory

    def may_act(self) -> bool:
        return True


class _Github:
    def __init__(self, world: simulated.World) -> None:
        self._world = world

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        return GithubView(
            unix=_EPOCH + self._world.now,
            jobs=tuple(_job(each) for each in self._world.active.values()),
            runners=tuple(
                Runner(number, machine.name, online=True, busy=machine.state == "busy")
                for number, machine in enumerate(self._world.alive.values(), 1)
                if machine.state in ("idle", "busy")
            ),
            runs={key: self._run(key) for key in runs},
        )

    def _run(self, key: RunKey) -> Run:
        job = next(each for each in self._world.jobs if each.number == key.run_id)
        ended = job.status not in ("queued", "in_progress")
        conclusion = {"done": "success", "failed": "failure"}.get(job.status, "cancelled") if ended else ""
        failed = (_key(job).job_id,) if conclusion == "failure" else ()
        status = "completed" if ended else "in_progress"
        return Run(key, job.attempt, status, conclusion, _EPOCH + job.arrival.created, failed)

    def remove_runner(self, runner: Runner) -> bool:
        machine = self._world.alive.get(runner.name)
        return machine is None or self._world.unregister(machine)

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        self._world.rerun(next(each for each in self._world.jobs if each.number == run.run_id))


class _Compute:
    def __init__(self, world: simulated.World) -> None:
        self._world = world
        self._operations: dict[str, tuple[float, InsertError | None]] = {}
        self._listed: dict[str, simulated.Machine] = {}
        self._jobs: dict[str, str] = {}

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        self._listed = {name: each for name, each in self._listed.items() if not each.deleted}
        return tuple(self._machine(each) for each in self._listed.values())

    def _machine(self, machine: simulated.Machine) -> Machine:
        started = self._world.now - machine.created >= simulated.INSERT_ANSWER_SEC
        status = "TERMINATED" if machine.ended is not None else "RUNNING" if started else "PROVISIONING"
        end = End("job-done") if status == "TERMINATED" and not machine.taken_back else None
        zone, market = machine.place
        return Machine(machine.name, "l4", zone, status, market, MACHINE_TYPE, "template", end, machine.taken_back)

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        done_at, error = self._operations[operation]
        done = self._world.now >= done_at
        return OperationState(done, error if done else None)

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return ()

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        now = self._world.now
        return frozenset(
            each.name
            for each in self._listed.values()
            if each.taken_back and each.ended is not None and now - each.ended < _PREEMPTED_WITHIN_SEC
        )

    def insert(self, pool: Pool, insert: Insert) -> str:
        machine = self._world.create(Place(insert.rung.zone, insert.rung.market), insert.machine)
        error = None if machine else InsertError("no-capacity", "ZONE_RESOURCE_POOL_EXHAUSTED")
        if machine:
            self._listed[machine.name] = machine
        operation = f"operation-{len(self._operations)}"
        self._operations[operation] = (self._world.now + simulated.INSERT_ANSWER_SEC, error)
        return operation

    def delete(self, project: str, zone: str, name: str) -> None:
        self._world.delete(self._listed[name])


def _key(job: simulated.Job) -> JobKey:
    return JobKey(_REPOSITORY, job.number, job.number * 10 + job.attempt, job.attempt)


def _job(job: simulated.Job) -> Job:
    running = job.machine.name if job.machine and job.status == "in_progress" else ""
    status = "queued" if job.status == "queued" else "in_progress"
    return Job(_key(job), _LABELS, status, _EPOCH + job.queued_at, runner_name=running)
