"""Assigns machines to waiting jobs: existing machines first, then machines on standby, then new machines.

A job that gets no machine gets a reason (model.Reason). The assignment only decides how many machines a pool needs:
GitHub itself may assign a job to any runner with its labels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..memory import JobMemory, Memory, Pending
from ..model import Insert, InsertError, Job, JobKey, Machine, Observation, Offer, OtherPool, Pool, Reason, Start
from . import capacity, machines, priorities, reruns, standby
from .names import STANDBY, machine_name, request_id, slug

# GitHub cancels a job that waited for a runner for 24 hours (docs.github.com, "Actions limits").
OLDEST_JOB_SEC = 24 * 3600.0
# How long the memory of a job is kept after the job was last seen.
_REMEMBERED_SEC = 2 * OLDEST_JOB_SEC
# The most machines that are started for one job, because GitHub may give a started runner to another job.
MACHINES_PER_JOB = 3
# How long no machine is started for a job to which GitHub did not assign the last one. Its runs-on may name another
# runner group, which the REST API does not show before the assignment.
UNASSIGNED_SEC = 3600.0
# The reason that a machine reports if its runner got no job (gpu_agent.outcomes).
_IDLE = "idle"
# Google answers an insert within seconds, and its operation ends within a minute or two.
_ANSWER_WITHIN_SEC = 300.0
# Labels of jobs that seem meant for the pools, although no pool matches.
_LIKELY_LABELS = {"self-hosted", "gpu"}
_UNKNOWN_USD = float("inf")
# If the pools of a job have different reasons, the job gets the first in this order, which is likely to end soonest.
_ORDER = ("at-max", "no-capacity", "over-quota", "cost-cap", *capacity.FOR_PEOPLE, "never-picked-up")
_Pool = TypeVar("_Pool", Pool, OtherPool)


@dataclass
class JobMachines:
    """The result of the assignment."""

    inserts: list[Insert] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    assigned: dict[JobKey, str] = field(default_factory=dict)
    """The name of the machine that is assigned to each job."""
    reasons: dict[JobKey, Reason] = field(default_factory=dict)


@dataclass
class Supply:
    """The machines of one pool in one pass."""

    pool: Pool
    spare: list[str]
    """Names of machines that will or may take a job, and that are not assigned to a job yet."""
    booting: list[str]
    """Names of unassigned machines that boot for the first time for standby. A machine on standby is ready sooner."""
    stopped: list[tuple[Machine, Offer]]
    """The machines on standby."""
    count: int
    """The number of machines that count against the maximum."""
    cost_cap: Reason | None = None
    """The reason why no further machine starts: the machines of this day have cost enough."""
    bound: Mapping[str, Callable[[Job], bool]] = field(default_factory=dict)
    """registrations.bound()."""

    def accepts(self, name: str, job: Job) -> bool:
        """Return True if the machine has no runner yet, or one that can get the job."""
        return name not in self.bound or self.bound[name](job)


def queue(
    pools: Sequence[Pool], jobs: Sequence[Job], github_unix: float, over_budget: Mapping[str, str]
) -> tuple[list[tuple[Job, Sequence[Pool]]], dict[JobKey, Reason]]:
    """Return the jobs that need a machine, each with the pools that fit, in the order in which they get machines.

    The second value has the reasons of the other waiting jobs, which get no machine. `over_budget` is
    Observation.over_budget.
    """
    waiting: list[tuple[Job, Sequence[Pool]]] = []
    reasons: dict[JobKey, Reason] = {}
    for job in sorted(jobs, key=lambda each: (each.created_unix, each.key)):
        if job.status not in ("queued", "waiting"):
            continue
        fitting = pools_for(pools, job)
        if not fitting:
            if reason := _no_pool(job, pools):
                reasons[job.key] = reason
        elif job.status == "waiting":
            reasons[job.key] = Reason("approval-pending", "a deployment of its environment waits for approval")
        elif github_unix - job.created_unix > OLDEST_JOB_SEC:
            reasons[job.key] = Reason("expired", "queued for more than 24 hours; GitHub cancels such jobs")
        elif job.refusal:
            reasons[job.key] = job.refusal
        elif spent := over_budget.get(job.key.repository.lower()):
            reasons[job.key] = Reason("over-budget", spent)
        else:
            waiting.append((job, fitting))
    return priorities.ordered(waiting, jobs, github_unix), reasons


def is_of_another(job: Job, manager: str, pools: Sequence[Pool], others: Sequence[OtherPool]) -> bool:
    """Return True if another manager of the stack starts the job's machine.

    Of the managers with a pool that fits, it is the one whose name is the first in the alphabet.
    """
    of_manager: dict[str, list[OtherPool]] = {}
    for other in others:
        of_manager.setdefault(other.manager, []).append(other)
    managers = [name for name, each in of_manager.items() if pools_for(each, job)]
    managers += [manager] if pools_for(pools, job) else []
    return bool(managers) and min(managers) != manager


def owner_of(job: Job, pools: Mapping[str, Sequence[Pool]]) -> str:
    """Return the first of the loops, by name with its pools, that has a pool for the job. If none has, it is the loop
    with the most similar pool, which reports that.
    """
    similar = max(pools, key=lambda name: max(len(job.labels & pool.labels) for pool in pools[name]))
    return next((name for name, each in pools.items() if pools_for(each, job)), similar)


def remember_unassigned(jobs: Sequence[Job], machines: Sequence[Machine], now: float, memory: Memory) -> None:
    """Remember the waiting jobs whose machine got no job, and forget those that run on a machine of the pools."""
    idle = {
        memory.machines[machine.name].started_for or machine.job
        for machine in machines
        if machine.end and machine.end.reason == _IDLE
    }
    for job in jobs:
        if job.status == "queued" and slug(job.key) in idle:
            memory.unassigned[_name_of(job)] = now + UNASSIGNED_SEC
        elif job.status == "in_progress" and job.runner_name:
            memory.unassigned.pop(_name_of(job), None)


def _name_of(job: Job) -> str:
    return f"{job.key.repository} {job.workflow} {job.name}"


def supply(
    pool: Pool,
    listed: Sequence[Machine],
    free: Sequence[Machine],
    stopped: Sequence[tuple[Machine, Offer]],
    memory: Memory,
    cost_cap: Reason | None = None,
    bound: Mapping[str, Callable[[Job], bool]] | None = None,
) -> Supply:
    """Return the machines of a pool, with those of pending inserts and starts.

    Args:
        pool: The pool.
        listed: The machines of the pool in the last list.
        free: The machines of the pool that will or may take a job.
        stopped: The machines of the pool on standby.
        memory: The memory.
        cost_cap: Supply.cost_cap.
        bound: Supply.bound.
    """
    on = [machine.name for machine in listed if machines.counts_against_max(machine)]
    pending = [name for name, each in memory.pending.items() if each.pool == pool.name and name not in on]
    booting = [machine.name for machine in free if _boots_for_standby(machine, memory)]
    booting += [name for name in pending if memory.pending[name].job is None]
    spare = [name for name in [*(machine.name for machine in free), *pending] if name not in booting]
    # A job whose runner is registered may also have a machine that still boots.
    spare.sort(key=lambda name: name not in (bound or ()))
    still_stopped = [each for each in stopped if each[0].name not in memory.pending]
    return Supply(pool, spare, booting, still_stopped, len(on) + len(pending), cost_cap, bound or {})


def _boots_for_standby(machine: Machine, memory: Memory) -> bool:
    """Return True if the machine boots for the first time, which takes longer than the start of a stopped machine."""
    return machine.job == STANDBY and not machine.key and not memory.machines[machine.name].started_for


def assign_machines(
    waiting: Sequence[tuple[Job, Sequence[Pool]]],
    supplies: Mapping[str, Supply],
    started_for: Mapping[str, str],
    now: float,
    memory: Memory,
) -> JobMachines:
    """Assign machines to waiting jobs, and request new machines within each pool's maximum.

    `started_for` maps the name of each machine to the slug of the job for which it was started. A new machine comes
    from the cheapest pool that has fewer machines than its maximum.
    """
    result = JobMachines()
    for job, _ in waiting:
        memory.jobs.setdefault(slug(job.key), JobMemory()).last_seen = now
    _assign_spare(waiting, supplies, started_for, now, memory, result)
    avoid_preemptible = {
        pool.name for job, fitting in waiting if reruns.needs_standard_machine(job, memory) for pool in fitting
    }
    _start_stopped(waiting, supplies, avoid_preemptible, now, memory, result)
    _assign_booting(waiting, supplies, result)
    result.reasons |= _unanswered(result.assigned, memory, now) | _without_capacity(result.assigned, memory)
    chosen: dict[str, Offer | Reason] = {}
    for job, fitting in waiting:
        if job.key in result.assigned:
            continue
        for pool in fitting:
            if pool.name not in chosen:
                chosen[pool.name] = _next_rung(supplies[pool.name], memory, now, pool.name in avoid_preemptible)
        answers = [(pool, _apply_machines_per_job(chosen[pool.name], job, memory, now)) for pool in fitting]
        offers = [(pool, rung) for pool, rung in answers if isinstance(rung, Offer)]
        if not offers:
            result.reasons[job.key] = _merged_reason(
                [(pool, each) for pool, each in answers if isinstance(each, Reason)]
            )
            continue
        # `min` returns the first of equal offers. A machine without a price comes last.
        pool, rung = min(
            offers, key=lambda each: _UNKNOWN_USD if each[1].usd_per_hour is None else each[1].usd_per_hour
        )
        insert = _insert(pool, job, rung, memory, now)
        result.inserts.append(insert)
        result.assigned[job.key] = insert.machine
        supplies[pool.name].count += 1
        if capacity.is_test_insert(rung, memory):
            # No other pool may request a machine at this place before the answer, so each pool chooses again.
            chosen.clear()
        chosen.pop(pool.name, None)
    return result


def _assign_spare(
    waiting: Sequence[tuple[Job, Sequence[Pool]]],
    supplies: Mapping[str, Supply],
    started_for: Mapping[str, str],
    now: float,
    memory: Memory,
    result: JobMachines,
) -> None:
    """Assign the existing machines to jobs. GitHub may assign a job to any runner with its labels."""
    # First, each machine is assigned to the job for which it was started, because users expect that.
    own = {started_for[name]: (supply, name) for supply in supplies.values() for name in reversed(supply.spare)}
    for job, fitting in waiting:
        supply, name = own.get(slug(job.key), (None, ""))
        if supply is not None and supply.pool in fitting and supply.accepts(name, job):
            result.assigned[job.key] = name
            supply.spare.remove(name)
    for job, fitting in _by_choice(waiting):
        for pool in fitting:
            supply = supplies[pool.name]
            found = next((name for name in supply.spare if supply.accepts(name, job)), None)
            if found is None or job.key in result.assigned:
                continue
            # With priorities, a runner is registered for the job, which GitHub may never assign.
            if not pool.priorities or found in supply.bound or not _never_picked_up(job, memory, now):
                result.assigned[job.key] = found
                supply.spare.remove(found)


def _by_choice(waiting: Sequence[tuple[Job, Sequence[Pool]]]) -> list[tuple[Job, Sequence[Pool]]]:
    """Return the jobs with the fewest pools first, so that they get the machines that no other job can use.

    Jobs of pools with priorities stay in their order.
    """
    return sorted(waiting, key=lambda each: 0 if any(pool.priorities for pool in each[1]) else len(each[1]))


def _start_stopped(
    waiting: Sequence[tuple[Job, Sequence[Pool]]],
    supplies: Mapping[str, Supply],
    avoid_preemptible: Collection[str],
    now: float,
    memory: Memory,
    result: JobMachines,
) -> None:
    """Start machines on standby for jobs without a machine, within each pool's maximum."""
    for job, fitting in waiting:
        for pool in fitting:
            supply = supplies[pool.name]
            if job.key in result.assigned or supply.count >= pool.max or supply.cost_cap:
                continue
            if _never_picked_up(job, memory, now):
                continue
            for machine, rung in supply.stopped:
                if capacity.is_open(pool, rung, memory, now) and not (
                    rung.preemptible and pool.name in avoid_preemptible
                ):
                    result.starts.append(standby.start(pool, machine, rung, job, memory, now))
                    result.assigned[job.key] = machine.name
                    memory.jobs[slug(job.key)].machines += 1
                    supply.stopped.remove((machine, rung))
                    supply.count += 1
                    break


def _assign_booting(
    waiting: Sequence[tuple[Job, Sequence[Pool]]], supplies: Mapping[str, Supply], result: JobMachines
) -> None:
    """Assign the machines that boot for standby. A new machine would not be ready sooner than these."""
    for job, fitting in _by_choice(waiting):
        booting = next((supplies[pool.name].booting for pool in fitting if supplies[pool.name].booting), None)
        if booting and job.key not in result.assigned:
            result.assigned[job.key] = booting.pop(0)


def _unanswered(assigned: Mapping[JobKey, str], memory: Memory, now: float) -> dict[JobKey, Reason]:
    """Return the reasons of jobs whose insert has no answer for a while."""
    overdue = {
        name: each
        for name, each in memory.pending.items()
        # The operation of a flex-start machine may last as long as the machine waits for capacity.
        if now - each.since > _ANSWER_WITHIN_SEC and not (each.operation and each.rung.market == "flex-start")
    }
    return {
        job: Reason(
            "no-answer", f"there is no answer to the {_verb(overdue[name])} of {name} in {overdue[name].rung.zone}"
        )
        for job, name in assigned.items()
        if name in overdue and overdue[name].done_since is None
    }


def _verb(pending: Pending) -> str:
    return "start" if pending.is_start else "insert"


def _without_capacity(assigned: Mapping[JobKey, str], memory: Memory) -> dict[JobKey, Reason]:
    """Return the reasons of jobs whose machine waits for capacity."""
    return {
        job: Reason("no-capacity", f"{name} waits for capacity in {entry.zone}")
        for job, name in assigned.items()
        if (entry := memory.machines.get(name)) and entry.waits_for
    }


def requests_to_repeat(
    observation: Observation, overdue: Collection[JobKey], memory: Memory
) -> Iterator[Insert | Start]:
    """Repeat inserts and starts whose answer was lost. Google carries out a repeated request once.

    A request whose job no longer waits is not repeated. Its machine is either listed soon or was never created.
    """
    waiting = {job.key for job in observation.jobs or () if job.status == "queued" and not job.refusal} - set(overdue)
    listed = {machine.name: machine for machine in observation.machines or ()}
    for name, each in list(memory.pending.items()):
        if each.operation or each.done_since is not None:
            continue
        if each.job is not None and each.job.key not in waiting:
            each.done_since = observation.now
        elif not each.is_start:
            yield Insert(each.pool, name, each.rung, each.job, each.request_id)
        elif each.job is not None and name in listed:
            yield Start(listed[name], each.rung, each.job, each.request_id)
        else:
            # The machine is gone, so the answer no longer matters.
            each.done_since = observation.now


def forget_old(memory: Memory, now: float) -> None:
    """Drop jobs that were not seen for two days."""
    memory.jobs = {key: each for key, each in memory.jobs.items() if now - each.last_seen < _REMEMBERED_SEC}
    memory.unassigned = {name: until for name, until in memory.unassigned.items() if until > now}


def _needed_labels(job: Job, pool: _Pool) -> frozenset[str]:
    """Return the labels that the pool must have for the job. A pool with priorities adds that of the job's run."""
    return job.labels - {job.run_label} if pool.priorities else job.labels


def pools_for(pools: Sequence[_Pool], job: Job) -> list[_Pool]:
    """Return the pools to whose runners GitHub may assign the job, by its labels and its runner groups."""
    found = [
        pool
        for pool in pools
        if _needed_labels(job, pool) <= pool.labels
        and (job.runner_groups is None or pool.runner_group in job.runner_groups)
    ]
    # A job that names only a runner group has no labels, and the REST API does not show the group.
    return found if job.labels or len(found) == 1 else []


def _no_pool(job: Job, pools: Sequence[Pool]) -> Reason | None:
    """Return a reason for a job that seems meant for these pools, and None for a job of GitHub-hosted runners."""
    pool_labels = frozenset().union(*(pool.labels for pool in pools)) if pools else frozenset()
    if not job.labels:
        names = [pool.name for pool in pools if job.runner_groups is None or pool.runner_group in job.runner_groups]
        detail = f"runs-on has no label, and several pools may be meant: {', '.join(names)}"
        return Reason("no-pool", detail) if names else None
    if not job.labels & (pool_labels | _LIKELY_LABELS):
        return None
    if groups := sorted({pool.runner_group for pool in pools if _needed_labels(job, pool) <= pool.labels}):
        detail = f"{job.key.repository}, or this workflow of it, may not use the runner group {', '.join(groups)}"
        return Reason("no-pool", detail)
    nearest = max(pools, key=lambda pool: len(job.labels & pool.labels), default=None)
    missing = sorted(job.labels - (nearest.labels if nearest else frozenset()))
    return Reason("no-pool", f"no pool has the labels {', '.join(sorted(job.labels))}; missing: {', '.join(missing)}")


def _next_rung(supply: Supply, memory: Memory, now: float, avoid_preemptible: bool) -> Offer | Reason:
    """Return the rung of the pool's next machine, or the reason why the pool starts none."""
    pool = supply.pool
    if supply.cost_cap:
        return supply.cost_cap
    rungs = capacity.without_preemptible(pool.rungs) if avoid_preemptible else pool.rungs
    chosen = capacity.choose(pool, rungs, memory, now)
    ends_by_itself = isinstance(chosen, Offer) or chosen.code not in capacity.FOR_PEOPLE
    if ends_by_itself and supply.count >= pool.max:
        return Reason("at-max", f"{supply.count} of {pool.max} machines are in use")
    return chosen


def _apply_machines_per_job(chosen: Offer | Reason, job: Job, memory: Memory, now: float) -> Offer | Reason:
    """Return `chosen`, or a reason if the job gets no further machine."""
    if isinstance(chosen, Reason) and chosen.code in capacity.FOR_PEOPLE:
        return chosen
    return _never_picked_up(job, memory, now) or chosen


def _never_picked_up(job: Job, memory: Memory, now: float) -> Reason | None:
    """Return a reason if GitHub has not assigned the job to the machines that were started for it."""
    if (count := memory.jobs[slug(job.key)].machines) >= MACHINES_PER_JOB:
        return Reason("never-picked-up", f"{count} machines were started for the job, and GitHub assigned it to none")
    if (until := memory.unassigned.get(_name_of(job), now)) > now:
        detail = "GitHub did not assign this job of the workflow to its machine; runs-on may name another runner group"
        return Reason("never-picked-up", detail, until)
    return None


def _merged_reason(reasons: Sequence[tuple[Pool, Reason]]) -> Reason:
    """Merge the reasons of several pools into one, with the code of the reason that is likely to end soonest."""
    if len(reasons) == 1:
        return reasons[0][1]
    ordered = sorted(reasons, key=lambda each: _ORDER.index(each[1].code))
    times = [reason.next_try for _, reason in ordered if reason.next_try is not None]
    details = "; ".join(f"{pool.name}: {reason.detail}" for pool, reason in ordered)
    return Reason(ordered[0][1].code, details, min(times, default=None))


def _insert(pool: Pool, job: Job, rung: Offer, memory: Memory, now: float) -> Insert:
    entry = memory.jobs[slug(job.key)]
    entry.inserts += 1
    while (name := machine_name(pool.name, job.key, entry.inserts)) in memory.machines:
        # A manager that lost its memory counts from 1 again. It must not request an existing machine in another zone.
        entry.inserts += 1
    entry.machines += 1
    insert = Insert(pool.name, name, rung, job, request_id(name, rung.zone))
    memory.pending[name] = Pending(pool.name, rung, job, insert.request_id, now)
    return insert


def remember_failure(name: str, error: InsertError, memory: Memory, now: float) -> None:
    """Remember the error of a failed insert or start, and drop its pending request."""
    pending = memory.pending.pop(name)
    if not pending.is_start and (machine_entry := memory.machines.get(name)):
        # Google lists a machine for which it found no capacity until the machine is deleted.
        machine_entry.condemned = True
    if pending.job is None:
        memory.standby[pending.pool].unproven -= 1
    elif entry := memory.jobs.get(slug(pending.job.key)):
        entry.machines -= 1
    capacity.remember_failure(pending.pool, pending.rung, error, memory, now)


def by_pool(listed: Sequence[Machine]) -> Mapping[str, list[Machine]]:
    """Group machines by the name of their pool."""
    result: dict[str, list[Machine]] = {}
    for machine in listed:
        result.setdefault(machine.pool, []).append(machine)
    return result
