"""The control loop of one supplier. Each pass observes GitHub and the supplier, decides, saves the memory, and acts.

The process may be killed at any point: the next one continues with the saved memory. `gpu_manager/__init__.py` defines
the terms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeVar

from gpu_ci.machine_records import MachineRecord

from . import registration
from .budgets import Budgets
from .decision import capacity, faults, jobs, records, reruns, timeouts
from .decision.decide import Decision, decide
from .decision.names import machine_of, slug
from .memory import Memory, Pending
from .model import (
    Action,
    Cancel,
    Delete,
    Insert,
    InsertError,
    Job,
    JobKey,
    Machine,
    Observation,
    Offer,
    OperationState,
    Pool,
    RanJob,
    Register,
    RemoveRunner,
    Report,
    RunKey,
    Runner,
    Start,
    Stop,
)
from .ports import Github, InsertRefused, Refused, Supplier, Unavailable, uptime

T = TypeVar("T")

# After this age of the observation, a pass carries out only inserts and starts.
STALE_SEC = 30.0


class Store(Protocol):
    """The storage of the memory between passes."""

    def load(self) -> Memory:
        """Return the last saved memory, or an empty one if none was saved."""

    def save(self, memory: Memory) -> None:
        """Save the memory. After a crash the stored memory is either the old or the new one.

        Raises:
            Unavailable, Refused: The memory was not saved.
        """

    def add(self, records: Iterable[MachineRecord]) -> None:
        """Store records of machines. A record whose key is stored already is ignored.

        Raises:
            Unavailable, Refused: Some of the records were not stored.
        """

    def may_act(self) -> bool:
        """Return True if the manager may begin an action now: no other manager can act before the action has ended."""


@dataclass(frozen=True)
class Event:
    """One line of the manager's log: an action that it carried out, or a problem that it found."""

    kind: str
    """insert, start-machine, stop-machine, register, delete, remove-runner, rerun, cancel, check-run, gpu-fault,
    insert-failed, start-failed, unknown-machine, unavailable or refused."""
    subject: str
    """The machine, run, commit or service that the event is about."""
    detail: str = ""
    pool: str = ""
    code: str = ""
    """The code of a failed insert or start: no-capacity, over-quota or refused."""


class NewRecord(NamedTuple):
    """The record of a machine that is gone, when it was stored."""

    record: MachineRecord
    job_was_seen: bool
    """True if a pass saw the job while it ran."""
    boot_was_seen: bool
    """True if a pass saw the machine with its runner."""


@dataclass
class PassResult:
    """The observation, the decision and the log events of one pass."""

    observation: Observation
    decision: Decision
    events: list[Event] = field(default_factory=list)
    records: list[NewRecord] = field(default_factory=list)
    saved: bool = True
    """True if the memory was saved. If the save fails, no action is carried out."""

    @property
    def complete(self) -> bool:
        """True if the pass has read jobs, machines and runners, and saved the memory. It then considered every job."""
        return self.saved and None not in (self.observation.jobs, self.observation.machines, self.observation.runners)


class Manager:
    """Runs passes. Only one manager with the same name may run at a time."""

    def __init__(
        self,
        pools: Sequence[Pool],
        github: Github,
        supplier: Supplier,
        store: Store,
        now: Callable[[], float] = uptime,
        *,
        name: str = "",
        budgets: Budgets | None = None,
        is_of_another: Callable[[Job], bool] = lambda _: False,
    ) -> None:
        """Create a manager.

        Args:
            pools: The manager's pools.
            github: The client of GitHub.
            supplier: The supplier of the machines of all pools.
            store: The storage of the memory.
            now: The clock for durations. The time of day comes from GitHub's answers.
            name: The name of the manager, for records of machines.
            budgets: The budgets of teams, of all loops of the process.
            is_of_another: Returns True for a job for which another manager of the stack starts the machine.
        """
        self._name = name
        self._budgets = budgets or Budgets((), lambda _: ())
        self._is_of_another = is_of_another
        self._pools = list(pools)
        self._pools_by_name = {pool.name: pool for pool in pools}
        self._github = github
        self._supplier = supplier
        self._store = store
        self._now = now
        self._unlisted_machines: set[str] = set()
        self._runner_ids: set[int] | None = None
        """The runners in the pools' groups, also those that still have a job; None before the first list."""

    def step(self) -> PassResult:
        """Run one pass. Failed requests to GitHub and the supplier raise nothing; they are listed in the events."""
        memory = self._store.load()
        events: list[Event] = []
        observation = self._observe(memory, events)
        observed_at = self._now()
        if observation is None:
            events.append(Event("unavailable", "GitHub", "has not answered since the start; this pass does nothing"))
            return PassResult(
                Observation(time.time(), time.time(), None, None, None), Decision((), memory, {}, {}), events
            )
        self._add_observed_events(observation, memory, events)
        decision = decide(self._pools, observation, memory)
        # With an empty memory, `_observe` also reads the pending inserts, until a list contains each of these machines.
        list_is_complete = observation.machines is not None and not self._unlisted_machines
        decision.memory.begun = memory.begun or list_is_complete
        # The memory is saved before the actions, so that after a crash the next pass knows which actions may
        # have begun.
        if not self._save(decision.memory, events):
            return PassResult(observation, decision, events, saved=False)
        events += _fault_events(memory.faults, decision.memory)
        for action in decision.actions:
            if not self._store.may_act():
                events.append(
                    Event("unavailable", "the lease", "was not renewed; the remaining actions wait for the next pass")
                )
                break
            if self._now() - observed_at > STALE_SEC and not isinstance(action, Insert | Start):
                # The observation is too old, after a slow call or while the process was suspended. The next pass
                # decides again.
                events.append(
                    Event("unavailable", "this pass", "took too long; the remaining actions wait for the next pass")
                )
                break
            events += self._carry_out(action, decision.memory, lambda: observation.now + self._now() - observed_at)
        known = set(decision.memory.faults)
        stored = self._store_records(observation, decision.memory, events)
        events += _fault_events(known, decision.memory)
        self._save(decision.memory, events)
        return PassResult(observation, decision, events, records=stored)

    def _store_records(self, observation: Observation, memory: Memory, events: list[Event]) -> list[NewRecord]:
        """Store the records of machines that are gone, and return them. Those without an answer of GitHub wait.

        A record that is stored twice, because the manager was killed before it saved the memory, has the same key.
        """
        made: dict[str, NewRecord] = {}
        answers: dict[RunKey, tuple[RanJob, ...]] = {}
        unanswered = False
        for key, history in list(memory.ended.items()):
            is_late = records.is_late(history, observation.now)
            runs = [] if is_late else records.runs_to_read(history)
            new = [run for run in runs if run not in answers]
            is_too_much = len(answers) + len(new) > max(records.MOST_QUESTIONS, len(runs))
            if runs and (unanswered or is_too_much or not records.may_ask(history, observation)):
                continue
            try:
                answers |= {run: self._github.ran(run) for run in new}
            except Unavailable as error:
                events.append(Event("unavailable", "GitHub", f"the job of {history.machine}: {error}"))
                unanswered = True
                continue
            jobs = [job for run in runs for job in answers[run]]
            history.asked = observation.now
            job = records.job_of(history, jobs)
            if is_late or records.is_complete(history, job):
                try:
                    record = records.make(history, job, self._name, self._pools[0].supplier)
                    made[key] = NewRecord(
                        record, job_was_seen=history.job is not None, boot_was_seen=history.registered
                    )
                    if history.end and history.end.fault and job:
                        # Also of a job that began and ended between two passes, such as one that its machine refused.
                        seen = JobKey(job.repository, job.run, job.id, job.attempt)
                        faults.add(seen, history.machine, history.pool, history.end.fault, memory, observation.now)
                except (ValueError, OverflowError, OSError):  # such times would stop every further pass
                    events.append(Event("refused", "the records", f"{history.machine}: its times cannot be"))
                    del memory.ended[key]
        try:
            if made:
                self._store.add([each.record for each in made.values()])
        except (Unavailable, Refused) as error:
            events.append(Event(_error_kind(error), "the records", str(error)))
            return []
        for key in made:
            del memory.ended[key]
        self._budgets.add(each.record for each in made.values())
        self._budgets.count(id(self), memory, observation.now)
        return list(made.values())

    def _save(self, memory: Memory, events: list[Event]) -> bool:
        """Save the memory and return True, or add an event and return False."""
        try:
            self._store.save(memory)
        except (Unavailable, Refused) as error:
            events.append(Event(_error_kind(error), "the memory", str(error)))
            return False
        return True

    def _add_observed_events(self, observation: Observation, memory: Memory, events: list[Event]) -> None:
        """Add the events that follow from the observation alone."""
        for name, state in observation.operations.items():
            if state.error:
                events.append(_failure_event(name, memory.pending[name], state.error))
        if memory.begun:
            for machine in observation.machines or ():
                known = machine.name in memory.machines or machine.name in memory.pending
                if machine.pool in self._pools_by_name and not known:
                    detail = "not started by this manager: does another manager of this name run with another --state?"
                    events.append(Event("unknown-machine", machine.name, detail, machine.pool))

    def _observe(self, memory: Memory, events: list[Event]) -> Observation | None:
        """Read GitHub and the supplier. Return None before GitHub's first answer, until which the time is unknown.

        GitHub is read last. A job that GitHub assigns while the machines are listed is therefore seen as assigned.
        """
        operations: dict[str, OperationState] = {}
        for name, pending in memory.pending.items():
            if pending.operation and (pool := self._pools_by_name.get(pending.pool)):
                offer, operation = pending.rung, pending.operation
                state = self._answer(events, lambda: self._supplier.operation(pool, offer, operation))  # noqa: B023
                if state is not None:
                    operations[name] = state
                elif events[-1].kind == "unavailable":
                    break  # each further question would take its whole time limit
        preempted = self._answer(events, lambda: self._supplier.preempted(self._pools))
        # Pending inserts are read before the machines. An insert that ends in between is in at least one of the lists.
        starting = () if memory.begun else self._answer(events, lambda: self._supplier.starting(self._pools))
        if starting is None:
            events[-1] = replace(events[-1], detail=f"no machine can start before a pass has read {events[-1].detail}")
        remembered = {entry.id for entry in memory.machines.values()} | {each.id for each in memory.pending.values()}
        remembered |= {state.id for state in operations.values()}
        machines = self._answer(events, lambda: self._own_machines(remembered, events))
        machines = self._with_starting(machines, starting)
        # A sweep may take minutes. `now` is the time at its start, so that a deadline before `now` has passed for each
        # of its answers.
        sweep_began = self._now()
        github_view = self._github.observe(reruns.runs_to_read(memory) | faults.runs_to_read(memory))
        if github_view.unix is None:
            events += [Event("unavailable", "GitHub", problem) for problem in github_view.problems]
            return None
        now = github_view.unix - (self._now() - sweep_began)
        events += [Event("unavailable", "GitHub", problem) for problem in github_view.problems]
        # The observation names each runner after its machine.
        names = {name: remembered.id for name, remembered in memory.machines.items()}
        names |= {name: known.machine_id for name, known in memory.registrations.items()}
        names |= {machine.name: machine.id for machine in machines or ()}
        # A preemption is reported with the machine's id. A machine with an unknown id was requested moments ago.
        ids = {name: number for name, number in names.items() if number}
        problems = self._budgets.update(id(self), memory, now)
        events += [Event("unavailable", "the records", problem) for problem in problems]
        events += [Event("budget", team, text) for team, text in self._budgets.reports()]
        jobs, runners = github_view.jobs, github_view.runners
        if runners is not None:
            kept = (self._runner_ids or set()) & {job.runner_id for job in jobs or ()}
            self._runner_ids = {each.id for each in runners} | kept
        return Observation(
            now=now,
            github_unix=github_view.unix,
            jobs=jobs
            and tuple(
                replace(job, runner_name=machine_of(job.runner_name, names) if self._is_of_pools(job) else "")
                for job in jobs
                # A job that has a runner may have this manager's machine.
                if job.runner_name or not self._is_of_another(job)
            ),
            unread=github_view.unread,
            runners=runners
            and _one_runner_per_machine(replace(each, name=machine_of(each.name, names)) for each in runners),
            machines=machines,
            operations=operations,
            runs=github_view.runs,
            preempted=frozenset(machine_of(each, ids) for each in preempted or ()),
            over_budget=self._budgets.stopped(),
            cost_caps=self._budgets.cost_caps(),
            github_requests_left=github_view.requests_left,
            github_limited_until=None
            if github_view.limited_sec is None
            else github_view.unix + github_view.limited_sec,
        )

    def _own_machines(self, ids: Collection[str], events: list[Event]) -> tuple[Machine, ...]:
        """Return the machines that this manager has started, and add an event for each other machine with its label.

        Others can set labels, too, and would receive the jobs of a registered runner. `ids` are machines whose insert
        the manager remembers. Any other one may be left from a manager that lost its memory.
        """
        own = []
        for machine in self._supplier.list(self._pools):
            if (machine.id and machine.id in ids) or self._supplier.owns(machine):
                own.append(machine)
            elif machine.pool in self._pools_by_name:
                detail = "not inserted by this manager's account; it gets no runner and counts for nothing: delete it"
                events.append(Event("unknown-machine", machine.name, detail, machine.pool))
        self._supplier.boot(own)
        return self._supplier.channel.listen(own)

    def _is_of_pools(self, job: Job) -> bool:
        """Return True if the job's runner is in a runner group of the pools.

        An administrator of a repository may register another runner with the name of a machine.
        """
        return self._runner_ids is None or job.runner_id in self._runner_ids

    def _with_starting(
        self, listed: tuple[Machine, ...] | None, starting: tuple[Machine, ...] | None
    ) -> tuple[Machine, ...] | None:
        """Add the machines whose insert has not ended, because a manager that lost its memory must count these too.

        Return None if either list is unknown.
        """
        if listed is None or starting is None:
            return None
        names = {machine.name for machine in listed}
        unlisted = tuple(machine for machine in starting if machine.name not in names)
        self._unlisted_machines = {machine.name for machine in unlisted}
        return listed + unlisted

    def _answer(self, events: list[Event], request: Callable[[], T]) -> T | None:
        """Return the answer to a request to the supplier, or add an event and return None if it fails."""
        try:
            return request()
        except (Unavailable, Refused) as error:
            events.append(Event(_error_kind(error), self._supplier.TITLE, str(error)))
            return None

    def _carry_out(self, action: Action, memory: Memory, now: Callable[[], float]) -> list[Event]:
        """Carry out one action and return its events. A failed request gives an event too."""
        try:
            if isinstance(action, Insert):
                return [self._insert(action, memory, now)]
            if isinstance(action, Start):
                return [self._start(action, memory, now)]
            if isinstance(action, Stop):
                self._supplier.stop(action.machine)
                detail = "the machine is ready, and no queued job needs it"
                return [Event("stop-machine", action.machine.name, detail, action.machine.pool)]
            if isinstance(action, Delete):
                machine = action.machine
                self._supplier.delete(machine)
                return [Event("delete", machine.name, action.reason, machine.pool)]
            if isinstance(action, RemoveRunner):
                return self._remove_runner(action, memory)
            if isinstance(action, Register):
                return self._register(action, memory, now)
            if isinstance(action, Cancel):
                return [self._cancel(action, memory)]
            if isinstance(action, Report):
                return [self._report(action, memory)]
            self._github.rerun(action.run, action.job_id)
            rerun_jobs = "all failed jobs" if action.job_id is None else f"job {action.job_id}"
            return [Event("rerun", f"{action.run.repository} run {action.run.run_id}", rerun_jobs)]
        except (Unavailable, Refused) as error:
            return [Event(_error_kind(error), _subject_of(action), str(error))]

    def _insert(self, action: Insert, memory: Memory, now: Callable[[], float]) -> Event:
        """Request a new machine, and remember the operation or the refusal."""
        pending = memory.pending[action.machine]
        try:
            operation, machine_id = self._supplier.start(self._pools_by_name[action.pool], action)
        except InsertRefused as refusal:
            jobs.remember_failure(action.machine, refusal.error, memory, now())
            return _failure_event(action.machine, pending, refusal.error)
        # Without an operation, the machine already exists, because an earlier request created it.
        done_since = None if operation else now()
        memory.pending[action.machine] = replace(pending, operation=operation, id=machine_id, done_since=done_since)
        return Event("insert", action.machine, _place_text(action.rung), action.pool)

    def _start(self, action: Start, memory: Memory, now: Callable[[], float]) -> Event:
        """Start a stopped machine, and remember the operation or the refusal."""
        machine, pending = action.machine, memory.pending[action.machine.name]
        try:
            operation = self._supplier.start_again(machine, action.request_id)
        except InsertRefused as refusal:
            jobs.remember_failure(machine.name, refusal.error, memory, now())
            return _failure_event(machine.name, pending, refusal.error)
        memory.pending[machine.name] = replace(pending, operation=operation)
        return Event("start-machine", machine.name, _place_text(action.rung), machine.pool)

    def _register(self, action: Register, memory: Memory, now: Callable[[], float]) -> list[Event]:
        """Register a runner for a machine. A refusal by GitHub pauses the pool, because it applies to each runner."""
        machine = action.machine
        # A sweep may have taken longer than the pause before the next request.
        memory.registrations[machine.name].asked = now()
        try:
            pool, channel = self._pools_by_name[machine.pool], self._supplier.channel
            pool = replace(pool, labels=action.labels or pool.labels)
            runner = registration.register(machine, pool, self._github, channel, action.job)
        except registration.UnusableKey:
            # The key of this machine is wrong, which says nothing about the other machines of the pool.
            raise
        except Refused as error:
            capacity.remember_refused_runner(machine.pool, str(error), memory, now())
            raise
        return [Event("register", machine.name, f"runner {runner}", machine.pool)] if runner else []

    def _cancel(self, action: Cancel, memory: Memory) -> Event:
        if self._github.cancel(action.job):
            return Event("cancel", _subject_of(action), action.reason)
        timeouts.keep(action.job, memory)
        return Event("cancel", _subject_of(action), "the job is no longer queued; its run continues")

    def _report(self, action: Report, memory: Memory) -> Event:
        """Write a check run. A refusal is final, because the App may do without the permission."""
        subject = _subject_of(action)
        try:
            self._github.check_run(action)
        except Refused as error:
            memory.faults[slug(action.job)].reported = True
            needs = "to write it on the commit, the App needs Checks: read and write (docs/guides/github.md)"
            return Event("refused", subject, f"{action.title}; {needs}: {error}")
        memory.faults[slug(action.job)].reported = True
        return Event("check-run", subject, action.title)

    def _remove_runner(self, action: RemoveRunner, memory: Memory) -> list[Event]:
        """Unregister a runner and then delete its machine. GitHub refuses to unregister a runner that runs a job."""
        name = action.machine.name if action.machine else action.runner.name
        if not self._github.remove_runner(action.runner):
            return [Event("remove-runner", name, "the runner has just taken a job; the machine stays")]
        if action.machine is None:
            return [Event("remove-runner", name, action.reason)]
        memory.machines[name].condemned = True
        self._supplier.delete(action.machine)
        pool = action.machine.pool
        return [Event("remove-runner", name, action.reason, pool), Event("delete", name, action.reason, pool)]


def _one_runner_per_machine(runners: Iterable[Runner]) -> tuple[Runner, ...]:
    """Return one runner for each machine: the runner that has the job or will get it.

    If an agent's registration gets no answer, the agent registers a second runner, and the first runner never connects.
    If the first runner counted, the machine would look hung, and would be deleted with the job of the second runner.
    """
    worst_first = sorted(runners, key=lambda each: (each.busy, each.online, each.id))
    return tuple({each.name: each for each in worst_first}.values())


def _fault_events(known: Collection[str], memory: Memory) -> list[Event]:
    """Return the events of the faults that are not known yet."""
    return [
        Event("gpu-fault", each.machine, f"{each.fault}: {each.key.repository}#{each.key.job_id}", each.pool)
        for key, each in memory.faults.items()
        if key not in known
    ]


def _failure_event(machine: str, pending: Pending, error: InsertError) -> Event:
    """Return the event of an insert or a start that the supplier has refused."""
    kind = "start-failed" if pending.is_start else "insert-failed"
    return Event(kind, machine, f"{pending.rung.zone}: {error.message}", pending.pool, error.kind)


def _place_text(rung: Offer) -> str:
    return f"{rung.machine_type} {rung.market} in {rung.zone}"


def _error_kind(error: Exception) -> str:
    return "unavailable" if isinstance(error, Unavailable) else "refused"


def _subject_of(action: Action) -> str:
    if isinstance(action, Insert):
        return action.machine
    if isinstance(action, RemoveRunner):
        return action.machine.name if action.machine else action.runner.name
    if isinstance(action, Delete | Register | Start | Stop):
        return action.machine.name
    run = action.job if isinstance(action, Cancel | Report) else action.run
    return f"{run.repository} run {run.run_id}"
