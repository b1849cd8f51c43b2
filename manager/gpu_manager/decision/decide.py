"""The decision of one pass. It turns the observation and the memory into actions, reasons and a new memory.

`decide` calls the other modules of this folder. They update the memory, and remove machines that cannot have a job.
Then they assign machines to waiting jobs, and keep or remove the machines that no job needs. No module of this folder
sends a request. `gpu_manager/__init__.py` defines the terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..memory import Memory, from_json, to_json
from ..model import Action, JobKey, Machine, Observation, Pool, Reason, Runner
from . import capacity, faults, jobs, machines, priorities, records, registrations, reruns, standby, timeouts, warm
from .names import slug

# How long a machine may be missing from lists after its insert has ended without an error.
_LISTED_WITHIN_SEC = 60.0


class Decision(NamedTuple):
    """The actions of a pass, the new memory, and the result for each waiting job."""

    actions: tuple[Action, ...]
    memory: Memory
    """The new memory. It is saved before the actions are carried out, so that a crash forgets no action."""
    assigned: dict[JobKey, str]
    """The waiting jobs for which a machine exists or starts, with the name of that machine."""
    reasons: dict[JobKey, Reason]
    """The waiting jobs without a machine, with the reason."""


def decide(pools: Sequence[Pool], observation: Observation, old_memory: Memory) -> Decision:
    """Decide the actions of one pass.

    The function is pure: the same arguments give the same decision, and `old_memory` is not changed. It starts no
    machine while jobs, runners or machines are unknown, and deletes no machine that may have a job.
    """
    # A copy through JSON takes a fifth of the time of copy.deepcopy, with a memory of some hundred jobs.
    memory = from_json(to_json(old_memory))
    by_name = {pool.name: pool for pool in pools}
    capacity.forget_old(memory, observation.now)
    jobs.forget_old(memory, observation.now)
    reruns.forget_old(memory, observation.now)
    faults.forget_old(memory, observation.now)
    timeouts.forget_old(memory, observation.now)
    # A removed pool starts no more machines. Its existing machines are found by their labels.
    memory.pending = {name: each for name, each in memory.pending.items() if each.pool in by_name}
    standby.forget(by_name, memory)
    records.update(by_name, observation, memory)
    _update_pending(observation, memory)
    machines.update(by_name, observation, memory)
    reruns.remember_lost_jobs(by_name, observation, memory)
    faults.remember(by_name, observation, memory)
    ready = standby.ready(by_name, observation, memory)
    actions: list[Action] = [
        *machines.remove_overdue(by_name, observation, memory),
        *machines.remove_off(observation, [machine for machine, _ in ready.values()]),
        *machines.remove_without_runner(by_name, observation, memory),
    ]
    actions += machines.remove_hung(by_name, observation, memory)
    actions += registrations.strays(observation, memory)
    actions += faults.due(observation, memory)
    actions += reruns.due(observation, memory)
    machines.forget_gone(by_name, observation, memory)
    if observation.machines is None or observation.jobs is None or observation.runners is None:
        return Decision(tuple(actions), memory, {}, {})
    overdue = timeouts.overdue(pools, observation, memory)
    actions += timeouts.cancels(overdue, observation, memory)
    actions += jobs.requests_to_repeat(observation, overdue, memory)
    jobs.remember_unassigned(observation.jobs, observation.machines, observation.now, memory)
    waiting, reasons = jobs.queue(pools, observation.jobs, observation.github_unix, observation.over_budget)
    waiting, reasons = [each for each in waiting if each[0].key not in overdue], reasons | overdue
    unapproved = timeouts.unapproved(pools, observation, waiting)
    actions += timeouts.cancels(unapproved, observation, memory)
    reasons |= unapproved
    listed = jobs.by_pool(observation.machines)
    available = {pool.name: machines.available(listed.get(pool.name, []), observation, memory) for pool in pools}
    on_standby = {pool.name: [each for each in ready.values() if each[0].pool == pool.name] for pool in pools}
    bound = registrations.bound(by_name, observation, memory)
    supplies = {
        pool.name: jobs.supply(
            pool, listed.get(pool.name, []), available[pool.name], on_standby[pool.name], memory,
            observation.cost_caps.get(pool.name), bound,
        )
        for pool in pools
    }  # fmt: skip
    started_for = {
        machine.name: memory.machines[machine.name].started_for or machine.job for machine in observation.machines
    }
    started_for |= {name: slug(pending.job.key) for name, pending in memory.pending.items() if pending.job}
    result = jobs.assign_machines(waiting, supplies, started_for, observation.now, memory)
    actions += [*result.starts, *result.inserts]
    # A pool that has a waiting job without a machine creates no machine for standby.
    pools_with_waiting_jobs = {
        pool.name
        for job, fitting in waiting
        if job.key not in result.assigned and result.reasons[job.key].waiting_helps
        for pool in fitting
    }
    pools_by_machine = {machine.name: machine.pool for machine in observation.machines}
    pools_by_machine |= {name: pending.pool for name, pending in memory.pending.items()}
    runners = {runner.name: runner for runner in observation.runners}
    late = {pool.name for pool in pools if pool.priorities or not pool.public}
    # The jobs whose machine is registered for them, or can be registered for them only.
    fixed = {
        result.assigned[job.key]: job
        for job, _ in waiting
        if (name := result.assigned.get(job.key)) and (name in bound or pools_by_machine[name] not in late)
    }
    used = Counter(pools_by_machine[name] for name in result.assigned.values() if name not in fixed)
    others = [
        (job, fitting)
        for job, fitting in waiting
        if result.assigned.get(job.key) not in fixed
        and (job.key in result.assigned or result.reasons[job.key].waiting_helps)
    ]
    for pool in pools:
        own = [each for each in available[pool.name] if each.name in fixed]
        free = [each for each in available[pool.name] if each.name not in fixed and each.name not in bound]
        # A runner whose job is gone cannot replace the machine of another job.
        useless = [each for each in available[pool.name] if each not in own and each.name in bound.keys() & runners]
        for_one_job = [(each, runners.get(each.name)) for each in [*useless, *own]]
        actions += machines.remove_surplus(for_one_job, len(useless), memory, observation.now)
        supply, removable = supplies[pool.name], _removable(free, runners, observation, memory)
        # `spare` counts the machines that no queued job needs. Those without capacity are deleted first.
        spare = max(len(free) - used[pool.name], 0)
        without_capacity = [machine for machine in free if machine.waits_for_capacity]
        actions += machines.remove_waiting(without_capacity, spare, memory)
        spare = max(spare - len(without_capacity), 0)
        # Some of the other spare machines stay for standby. The rest is removed.
        unregistered = [machine for machine, runner in removable[:spare] if runner is None]
        stopped = [machine for machine, _ in supply.stopped]
        waiting_on = {each.name for each in warm.keep(pool, unregistered, observation, memory)}
        unregistered = [each for each in unregistered if each.name not in waiting_on]
        staying = {each.name for each in standby.keep_unneeded(pool, unregistered, stopped, observation, memory)}
        staying |= waiting_on
        removable = [each for each in removable if each[0].name not in staying]
        actions += machines.remove_surplus(removable, spare - len(staying), memory, observation.now)
        may_register = [each for each in [*own, *free] if each.name not in waiting_on]
        actions += registrations.due(pool, may_register, fixed, others, observation, memory)
        if pool.name not in pools_with_waiting_jobs and not supply.cost_cap:
            unassigned = [*supply.spare, *supply.booting]
            existing = standby.count_standby(pool, len(stopped), unassigned, observation, memory)
            wanted = pool.standby + warm.size(pool, observation.now)
            actions += standby.refill(pool, wanted, existing, supply.count, memory, observation.now)
    actions += standby.stops(observation, memory)
    have_runner = {key for key, name in result.assigned.items() if name in bound}
    reasons |= priorities.explained(result.reasons, waiting, observation.jobs, have_runner, observation.github_unix)
    return Decision(tuple(actions), memory, result.assigned, reasons)


def _removable(
    free: Sequence[Machine], runners: Mapping[str, Runner], observation: Observation, memory: Memory
) -> list[tuple[Machine, Runner | None]]:
    """Return the machines that may be removed if no job needs them, each with its runner, in the order of removal.

    Machines without a runner come first. Of these, the machines that have not published a key for their registration
    come first. Of equal machines, the one that has been surplus longest comes first.
    """
    result = [
        (machine, runners.get(machine.name))
        for machine in free
        if machine.name in runners
        or (not machine.waits_for_capacity and registrations.never_registered(machine, memory))
    ]
    result.sort(
        key=lambda each: (
            each[1] is not None,
            standby.has_new_key(each[0], memory.machines[each[0].name]),
            memory.machines[each[0].name].surplus_since or observation.now + 1,
        )
    )
    return result


def _update_pending(observation: Observation, memory: Memory) -> None:
    """Update the memory with the results of pending inserts and starts.

    A successful request stays pending until a list contains the machine, for at most _LISTED_WITHIN_SEC.
    """
    listed = {machine.name: machine for machine in observation.machines or ()}
    for name, pending in list(memory.pending.items()):
        state = observation.operations.get(name)
        if state and state.error:
            jobs.remember_failure(name, state.error, memory, observation.now)
        elif state and state.done and pending.done_since is None:
            pending.done_since = observation.now
            if pending.rung.market != "flex-start":
                # A flex-start machine may still wait for capacity.
                capacity.forget_stockouts(pending.rung, memory)
        late = pending.done_since is not None and observation.now - pending.done_since > _LISTED_WITHIN_SEC
        appeared = name in listed and not (pending.is_start and listed[name].off)
        if observation.machines is not None and name in memory.pending and (late or (pending.done_since and appeared)):
            del memory.pending[name]
            was_answered = pending.operation or pending.id
            if not appeared and not was_answered and pending.job and (job := memory.jobs.get(slug(pending.job.key))):
                job.machines -= 1  # there is no such machine
            if appeared and (entry := memory.machines.get(name)):
                entry.stopped_for_later = False
