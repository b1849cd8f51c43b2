"""The control loop: observe, decide, remember, act, and again. It may be killed at any point."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from . import registration
from .assignment import ownership
from .clock import uptime
from .decision import capacity, commit_statuses, jobs, reruns
from .decision.decide import Decision, decide
from .decision.names import machine_of
from .memory import Memory, Pending
from .model import (
    Action,
    CommitStatus,
    Delete,
    Insert,
    InsertError,
    Machine,
    Observation,
    OperationState,
    Pool,
    Register,
    RemoveRunner,
    Rung,
    Runner,
    Start,
    Stop,
)
from .ports import Compute, Github, InsertRefused, Refused, Unavailable

T = TypeVar("T")

# What was observed longer ago than this is no ground for an action any more.
STALE_SEC = 30.0


class Store(Protocol):
    """Where the memory is kept between passes."""

    def load(self) -> Memory:
        """The last one saved; an empty one where there is none."""

    def save(self, memory: Memory) -> None:
        """Keep it. It is whole or unchanged, however the process ends. Unavailable or Refused where it is not kept."""

    def may_act(self) -> bool:
        """Whether no other manager can act before an action that begins now has ended."""


@dataclass(frozen=True)
class Event:
    """Something that the manager did or met, for its log."""

    kind: str
    """insert, start-machine, stop-machine, register, delete, remove-runner, rerun, commit-status, insert-failed,
    start-failed, unknown-machine, unavailable or refused."""
    subject: str
    """The machine, run, commit or source."""
    detail: str = ""
    pool: str = ""
    code: str = ""
    """Of a failed insert or start: no-capacity, over-quota or refused."""


@dataclass
class Pass:
    """What one round of the loop saw and did."""

    seen: Observation
    decision: Decision
    events: list[Event] = field(default_factory=list)
    saved: bool = True
    """Whether the memory was kept, without which nothing is done."""

    @property
    def whole(self) -> bool:
        """Whether everything was known, so that every waiting job was served."""
        return self.saved and None not in (self.seen.jobs, self.seen.machines, self.seen.runners)


class Manager:
    """Runs passes. Only one manager of a name may run at a time."""

    def __init__(
        self,
        pools: Sequence[Pool],
        github: Github,
        compute: Compute,
        store: Store,
        now: Callable[[], float] = uptime,
        *,
        own: Sequence[str] | None = None,
        writes_statuses: bool = False,
    ) -> None:
        """`now` measures durations alone. What time it is, GitHub says. `own` are the pools of this share, or all."""
        self._writes_statuses = writes_statuses
        self._pools = list(pools)
        self._own = [pool for pool in pools if own is None or pool.name in own]
        self._by_name = {pool.name: pool for pool in self._own}
        self._owns = ownership(pools, own)
        self._github = github
        self._compute = compute
        self._store = store
        self._now = now
        self._unlisted: set[str] = set()

    def step(self) -> Pass:
        """One pass. Nothing that GitHub or Google answers raises; what failed is among the events."""
        memory = self._store.load()
        events: list[Event] = []
        seen = self._observe(memory, events)
        observed = self._now()
        if seen is None:
            events.append(Event("unavailable", "GitHub", "has not answered since the start; nothing is decided"))
            return Pass(Observation(time.time(), time.time(), None, None, None), Decision((), memory, {}, {}), events)
        self._notice(seen, memory, events)
        decision = decide(self._pools, seen, memory, self._by_name)
        listed = seen.machines is not None and not any(each.name in self._unlisted for each in seen.machines)
        decision.memory.begun = memory.begun or listed
        statuses = (
            commit_statuses.due(self._pools, seen, decision.reasons, decision.memory, self._by_name)
            if self._writes_statuses
            else []
        )
        # Before the actions: after a crash the next pass knows what may have begun.
        if not self._save(decision.memory, events):
            return Pass(seen, decision, events, saved=False)
        for action in decision.actions:
            if not self._store.may_act():
                events.append(Event("unavailable", "the lease", "was not renewed in time; the rest is decided anew"))
                break
            if self._now() - observed > STALE_SEC and not isinstance(action, Insert | Start):
                # A slow call or a stopped process has made the observation old. The next pass decides anew.
                events.append(Event("unavailable", "this pass", "took too long; the rest is decided anew"))
                break
            events += self._act(action, decision.memory, lambda: seen.now + self._now() - observed)
        events += self._write(statuses, decision.memory)
        self._save(decision.memory, events)
        return Pass(seen, decision, events)

    def _save(self, memory: Memory, events: list[Event]) -> bool:
        """Whether the memory is kept; where it is not, an event."""
        try:
            self._store.save(memory)
        except (Unavailable, Refused) as error:
            events.append(Event(_kind(error), "the memory", str(error)))
            return False
        return True

    def _notice(self, seen: Observation, memory: Memory, events: list[Event]) -> None:
        """Events of what the observation says, before anything is decided."""
        for name, state in seen.operations.items():
            if state.error:
                events.append(_failed(name, memory.pending[name], state.error))
        if memory.begun:
            for machine in seen.machines or ():
                if machine.pool in self._by_name and machine.name not in memory.machines.keys() | memory.pending.keys():
                    detail = "this manager has not started it: does another one of its name run with another --state?"
                    events.append(Event("unknown-machine", machine.name, detail, machine.pool))

    def _observe(self, memory: Memory, events: list[Event]) -> Observation | None:
        """None before GitHub's first answer, as the time is not known.

        GitHub last: a job that was taken since the machines were listed is then seen as taken.
        """
        operations: dict[str, OperationState] = {}
        for name, pending in memory.pending.items():
            if pending.operation and (pool := self._by_name.get(pending.pool)):
                zone, operation = pending.rung.zone, pending.operation
                state = self._ask(events, lambda: self._compute.operation(pool, zone, operation))  # noqa: B023
                if state is not None:
                    operations[name] = state
        preempted = self._ask(events, lambda: self._compute.preempted(self._own))
        # Before the machines: an insert that ends in between is in one of the lists.
        starting = () if memory.begun else self._ask(events, lambda: self._compute.starting(self._own))
        machines = self._ask(events, lambda: self._compute.machines(self._pools))
        machines = self._with_starting(machines, starting)
        # A sweep may take minutes. A deadline that was over before it began was over for each of its answers.
        begun = self._now()
        view = self._github.observe(reruns.wanted(memory))
        if view.unix is None:
            events += [Event("unavailable", "GitHub", problem) for problem in view.problems]
            return None
        now = view.unix - (self._now() - begun)
        events += [Event("unavailable", "GitHub", problem) for problem in view.problems]
        # Runners are known by their machines from here on.
        names = {name: remembered.id for name, remembered in memory.machines.items()}
        names |= {name: known.machine_id for name, known in memory.registrations.items()}
        names |= {machine.name: machine.id for machine in machines or ()}
        # A preemption names the id too. A machine whose id is not known yet has only just been asked for.
        ids = {name: number for name, number in names.items() if number}
        jobs, runners = view.jobs, view.runners
        return Observation(
            now=now,
            github_unix=view.unix,
            jobs=jobs and tuple(replace(job, runner_name=machine_of(job.runner_name, names)) for job in jobs),
            runners=runners and _one_a_machine(replace(each, name=machine_of(each.name, names)) for each in runners),
            machines=machines,
            operations=operations,
            runs=view.runs,
            preempted=frozenset(machine_of(each, ids) for each in preempted or ()),
            github_requests_left=view.requests_left,
            github_limited_until=None if view.limited_sec is None else view.unix + view.limited_sec,
        )

    def _with_starting(
        self, listed: tuple[Machine, ...] | None, starting: tuple[Machine, ...] | None
    ) -> tuple[Machine, ...] | None:
        """What a manager without memory has to count as well: machines whose insert is on its way."""
        if listed is None or starting is None:
            return None
        listed = tuple(machine for machine in listed if self._owns(machine.pool))
        names = {machine.name for machine in listed}
        unlisted = tuple(machine for machine in starting if machine.name not in names)
        self._unlisted = {machine.name for machine in unlisted}
        return listed + unlisted

    def _ask(self, events: list[Event], question: Callable[[], T]) -> T | None:
        """The answer; None and an event where Google gives none."""
        try:
            return question()
        except (Unavailable, Refused) as error:
            events.append(Event(_kind(error), "Compute Engine", str(error)))
            return None

    def _act(self, action: Action, memory: Memory, now: Callable[[], float]) -> list[Event]:
        try:
            if isinstance(action, Insert):
                return [self._insert(action, memory, now)]
            if isinstance(action, Start):
                return [self._start(action, memory, now)]
            if isinstance(action, Stop):
                self._compute.stop(action.machine)
                detail = "it is ready, and no queued job needs it"
                return [Event("stop-machine", action.machine.name, detail, action.machine.pool)]
            if isinstance(action, Delete):
                machine = action.machine
                self._compute.delete(machine.project, machine.zone, machine.name)
                return [Event("delete", machine.name, action.why, machine.pool)]
            if isinstance(action, RemoveRunner):
                return self._remove(action, memory)
            if isinstance(action, Register):
                return self._register(action, memory, now)
            self._github.rerun(action.run, action.job_id)
            what = "all failed jobs" if action.job_id is None else f"job {action.job_id}"
            return [Event("rerun", f"{action.run.repository} run {action.run.run_id}", what)]
        except (Unavailable, Refused) as error:
            return [Event(_kind(error), _subject(action), str(error))]

    def _write(self, statuses: Sequence[CommitStatus], memory: Memory) -> list[Event]:
        """Write commit statuses. One that cannot be written is an event, and is tried again in a minute."""
        events: list[Event] = []
        for status in statuses:
            try:
                self._github.commit_status(status)
            except (Unavailable, Refused) as error:
                events.append(Event(_kind(error), "commit status", str(error)))
                if isinstance(error, Unavailable):
                    # Each request may last half a minute, and the next pass starts machines.
                    break
            else:
                commit_statuses.written(status, memory)
                subject = f"{status.repository}@{status.sha[:12]}"
                events.append(Event("commit-status", subject, f"{status.state}: {status.description}"))
        return events

    def _insert(self, action: Insert, memory: Memory, now: Callable[[], float]) -> Event:
        pending = memory.pending[action.machine]
        try:
            operation = self._compute.insert(self._by_name[action.pool], action)
        except InsertRefused as refusal:
            jobs.failed(action.machine, refusal.error, memory, now())
            return _failed(action.machine, pending, refusal.error)
        if operation:
            memory.pending[action.machine] = replace(pending, operation=operation)
        else:
            # It was there already: an earlier request had begun it.
            memory.pending[action.machine] = replace(pending, done_since=now())
        return Event("insert", action.machine, _bought(action.rung), action.pool)

    def _start(self, action: Start, memory: Memory, now: Callable[[], float]) -> Event:
        machine, pending = action.machine, memory.pending[action.machine.name]
        try:
            operation = self._compute.start(machine, action.request_id)
        except InsertRefused as refusal:
            jobs.failed(machine.name, refusal.error, memory, now())
            return _failed(machine.name, pending, refusal.error)
        memory.pending[machine.name] = replace(pending, operation=operation)
        return Event("start-machine", machine.name, _bought(action.rung), machine.pool)

    def _register(self, action: Register, memory: Memory, now: Callable[[], float]) -> list[Event]:
        machine = action.machine
        # A sweep may have taken longer than the pause before the next request.
        memory.registrations[machine.name].asked = now()
        try:
            runner = registration.register(machine, self._by_name[machine.pool], self._github, self._compute)
        except registration.UnusableKey:
            raise
        except Refused as error:
            capacity.not_registered(machine.pool, str(error), memory, now())
            raise
        return [Event("register", machine.name, f"runner {runner}", machine.pool)] if runner else []

    def _remove(self, action: RemoveRunner, memory: Memory) -> list[Event]:
        """The machine goes only once GitHub has let go of its runner, which it refuses for one that runs a job."""
        name = action.machine.name if action.machine else action.runner.name
        if not self._github.remove_runner(action.runner):
            return [Event("remove-runner", name, "it has just taken a job, and stays")]
        if action.machine is None:
            return [Event("remove-runner", name, action.why)]
        memory.machines[name].condemned = True
        self._compute.delete(action.machine.project, action.machine.zone, name)
        pool = action.machine.pool
        return [Event("remove-runner", name, action.why, pool), Event("delete", name, action.why, pool)]


def _one_a_machine(runners: Iterable[Runner]) -> tuple[Runner, ...]:
    """The runner of each machine that has or gets the job.

    An agent whose registration got no answer has registered another runner, and the first one never connects. Taken for
    the machine's, it would look hung, and its machine would be deleted with the job of the other one.
    """
    worst_first = sorted(runners, key=lambda each: (each.busy, each.online, each.id))
    return tuple({each.name: each for each in worst_first}.values())


def _failed(machine: str, pending: Pending, error: InsertError) -> Event:
    """An insert or a start that Google has refused."""
    kind = "start-failed" if pending.is_start else "insert-failed"
    return Event(kind, machine, f"{pending.rung.zone}: {error.message}", pending.pool, error.kind)


def _bought(rung: Rung) -> str:
    return f"{rung.machine_type} {rung.market} in {rung.zone}"


def _kind(error: Exception) -> str:
    return "unavailable" if isinstance(error, Unavailable) else "refused"


def _subject(action: Action) -> str:
    if isinstance(action, Insert):
        return action.machine
    if isinstance(action, RemoveRunner):
        return action.machine.name if action.machine else action.runner.name
    if isinstance(action, Delete | Register | Start | Stop):
        return action.machine.name
    return f"{action.run.repository} run {action.run.run_id}"
