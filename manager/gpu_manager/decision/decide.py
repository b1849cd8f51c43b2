"""The decision of one pass: from the observation and the memory to actions, reasons and a new memory. Sends no
requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..assignment import ownership
from ..memory import Memory, from_json, to_json
from ..model import Action, JobKey, Observation, Pool, Reason
from . import capacity, jobs, machines, registrations, reruns, standby
from .names import pool_of, slug

# How long a machine may be missing from lists after its insert has ended without an error.
_LISTED_WITHIN_SEC = 60.0


class Decision(NamedTuple):
    """The actions of a pass, and the reasons for people."""

    actions: tuple[Action, ...]
    memory: Memory
    """The new memory. It is stored before the actions are carried out, so that none of them is forgotten."""
    covered: dict[JobKey, str]
    """Waiting jobs that have a machine, with the machine's name."""
    reasons: dict[JobKey, Reason]
    """Waiting jobs without a machine, with the reason."""


def decide(
    pools: Sequence[Pool], seen: Observation, remembered: Memory, own: Collection[str] | None = None
) -> Decision:
    """Decide the actions of one pass.

    The function is pure: the same arguments give the same decision, and `remembered` is not changed. It starts no
    machine while jobs, runners or machines are unknown, and deletes no machine that may have a job.

    `own` are the names of the pools of this manager's share; None for all. A job belongs to the share of the first pool
    that fits, so that no two managers start machines for one job.
    """
    # This takes a fifth of the time of copy.deepcopy for a memory of some hundred jobs.
    memory = from_json(to_json(remembered))
    ours = [pool for pool in pools if own is None or pool.name in own]
    by_name = {pool.name: pool for pool in ours}
    capacity.forget_old(memory, seen.now)
    jobs.forget_old(memory, seen.now)
    reruns.forget_old(memory, seen.now)
    # A removed pool starts no more machines. Its existing machines are found by their labels.
    memory.pending = {name: each for name, each in memory.pending.items() if each.pool in by_name}
    # At the start a share has the memories of all shares, and lists only its own machines.
    owns = ownership(pools, own)
    memory.registrations = {name: each for name, each in memory.registrations.items() if owns(pool_of(name))}
    memory.lost = {name: each for name, each in memory.lost.items() if owns(each.pool)}
    standby.forget(by_name, memory)
    _follow_operations(seen, memory)
    machines.follow(by_name, seen, memory)
    reruns.notice(by_name, seen, memory)
    kept = standby.kept(by_name, seen, memory)
    actions: list[Action] = [
        *machines.ends(seen, [machine for machine, _ in kept.values()]),
        *machines.lost_runners(by_name, seen, memory),
    ]
    actions += machines.hung(by_name, seen, memory)
    actions += registrations.strays(seen, memory)
    actions += reruns.due(seen, memory)
    machines.forget_gone(by_name, seen, memory)
    if seen.machines is None or seen.jobs is None or seen.runners is None:
        return Decision(tuple(actions), memory, {}, {})
    actions += jobs.repeated(seen, memory)
    waiting, reasons = jobs.queue(pools, seen.jobs, seen.github_unix)
    waiting = jobs.of_share(waiting, by_name)
    listed = jobs.pools_of(seen.machines)
    free = {pool.name: machines.free(listed.get(pool.name, []), seen, memory) for pool in ours}
    stopped = {pool.name: [each for each in kept.values() if each[0].pool == pool.name] for pool in ours}
    supplies = {
        pool.name: jobs.supply(pool, listed.get(pool.name, []), free[pool.name], stopped[pool.name], memory)
        for pool in ours
    }
    started_for = {machine.name: memory.machines[machine.name].started_for or machine.job for machine in seen.machines}
    started_for |= {name: slug(pending.job.key) for name, pending in memory.pending.items() if pending.job}
    found = jobs.cover(waiting, supplies, started_for, seen.now, memory)
    actions += [*found.starts, *found.inserts]
    # A pool whose jobs wait for a machine creates none for standby.
    short = {
        pool.name
        for job, fitting in waiting
        if job.key not in found.covered and found.reasons[job.key].waiting_helps
        for pool in fitting
    }
    pools_by_machine = {machine.name: machine.pool for machine in seen.machines}
    pools_by_machine |= {name: pending.pool for name, pending in memory.pending.items()}
    used = Counter(pools_by_machine[name] for name in found.covered.values())
    runners = {runner.name: runner for runner in seen.runners}
    for pool in ours:
        # Machines that no queued job needs, in the order of their deletion: first those without a runner, of these
        # first those without a key, then those that have been surplus longest.
        idle = [
            (machine, runners.get(machine.name))
            for machine in free[pool.name]
            if machine.name in runners or (not machine.waits and registrations.never_registered(machine, memory))
        ]
        idle.sort(
            key=lambda each: (
                each[1] is not None,
                standby.has_new_key(each[0], memory.machines[each[0].name]),
                memory.machines[each[0].name].surplus_since or seen.now + 1,
            )
        )
        spare = max(len(free[pool.name]) - used[pool.name], 0)
        without_capacity = [machine for machine in free[pool.name] if machine.waits]
        actions += machines.unneeded(without_capacity, spare, memory)
        spare = max(spare - len(without_capacity), 0)
        unregistered = [machine for machine, runner in idle[:spare] if runner is None]
        waiting_off = [machine for machine, _ in supplies[pool.name].stopped]
        staying = {each.name for each in standby.keep(pool, unregistered, waiting_off, seen, memory)}
        idle = [each for each in idle if each[0].name not in staying]
        actions += machines.surplus(idle, spare - len(staying), memory, seen.now)
        actions += registrations.due(free[pool.name], seen, memory)
        if pool.name not in short:
            spare_names = [*supplies[pool.name].spare, *supplies[pool.name].late]
            have = standby.stock(pool, len(waiting_off), spare_names, seen, memory)
            actions += standby.refill(pool, have, supplies[pool.name].count, memory, seen.now)
    actions += standby.stops(seen, memory)
    return Decision(tuple(actions), memory, found.covered, {**reasons, **found.reasons})


def _follow_operations(seen: Observation, memory: Memory) -> None:
    """Update the memory with the results of pending inserts and starts."""
    listed = {machine.name: machine for machine in seen.machines or ()}
    for name, pending in list(memory.pending.items()):
        state = seen.operations.get(name)
        if state and state.error:
            jobs.failed(name, state.error, memory, seen.now)
        elif state and state.done and pending.done_since is None:
            pending.done_since = seen.now
            if pending.rung.market != "flex-start":
                # A flex-start machine may still wait for capacity.
                capacity.worked(pending.rung, memory)
        late = pending.done_since is not None and seen.now - pending.done_since > _LISTED_WITHIN_SEC
        appeared = name in listed and not (pending.is_start and listed[name].off)
        if seen.machines is not None and name in memory.pending and (late or (pending.done_since and appeared)):
            del memory.pending[name]
            if appeared and (known := memory.machines.get(name)):
                known.stopped_for_later = False
