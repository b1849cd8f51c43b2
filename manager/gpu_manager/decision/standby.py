"""Machines on standby: stopped once they had checked their GPU, and started for a job in a fraction of a boot.

A machine that is stopped holds no GPU and costs its disk alone. It has no runner, as the manager registers runners, so
that stopping it takes nothing from a job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ..memory import MachineMemory, Memory, Pending, StandbyMemory
from ..model import Insert, Job, Machine, Observation, Pool, Rung, Start, Stop
from . import capacity
from .names import request_id, slug, standby_name, start_id


def digest(key: str) -> str:
    """What is remembered of a machine's key."""
    return hashlib.sha256(key.encode()).hexdigest()


def has_new_key(machine: Machine, known: MachineMemory) -> bool:
    """Whether it has published the key of this boot. A guest attribute may be left from the boot before."""
    return bool(machine.key) and digest(machine.key) != known.old_key


def is_kept_off(machine: Machine, memory: Memory) -> bool:
    """Whether the manager has stopped the machine for a later job, and it ended as one that was told to stop."""
    known = memory.machines.get(machine.name)
    ended_well = machine.end is None or machine.end.reason == "stopped"
    return machine.off and known is not None and known.stopped_for_later and not machine.sealed and ended_well


def kept(pools: Mapping[str, Pool], seen: Observation, memory: Memory) -> dict[str, tuple[Machine, Rung]]:
    """The stopped machines that stay, by name, the oldest first, each with the rung that it is started on.

    Those that are being started stay in any case. One that could not be started for a while is made anew at another
    place, where there is one.
    """
    found: dict[str, tuple[Machine, Rung]] = {}
    count: dict[str, int] = {}
    places = {pool.name: _places(pool, memory) for pool in pools.values() if pool.standby}
    for machine in sorted(seen.machines or (), key=lambda each: memory.machines[each.name].first_seen):
        pool = pools.get(machine.pool)
        rung = pool.rung_of(machine) if pool else None
        if pool is None or rung is None or not is_kept_off(machine, memory) or machine.template in memory.stopped:
            continue
        starts = machine.name in memory.pending
        if not starts and places.get(pool.name) and _is_out(rung, memory):
            continue
        if starts or count.get(pool.name, 0) < pool.standby:
            found[machine.name] = (machine, rung)
            count[pool.name] = count.get(pool.name, 0) + (not starts)
            if memory.machines[machine.name].running_since is not None:
                # Once, and not before: a stop that is refused each time would buy machines without a pause.
                memory.machines[machine.name].running_since = None
                memory.standby.setdefault(pool.name, StandbyMemory()).unproven = 0
    return found


def start(pool: Pool, machine: Machine, rung: Rung, job: Job, memory: Memory, now: float) -> Start:
    """Start a stopped machine for a job."""
    known = memory.machines[machine.name]
    # Its deadlines begin anew with this boot.
    known.first_seen, known.running_since, known.surplus_since = now, None, None
    known.started_for = slug(job.key)
    action = Start(machine, rung, job, start_id(machine.name, rung.zone, now))
    memory.pending[machine.name] = Pending(pool.name, rung, job, action.request_id, now, is_start=True)
    return action


def keep(
    pool: Pool, unneeded: Sequence[Machine], stopped: Collection[Machine], seen: Observation, memory: Memory
) -> Iterator[Machine]:
    """Of the machines that no job needs and that have no runner, those that are kept for a later job.

    One that has published its key is marked as stopped; the others go on booting.
    """
    stopping = sum(is_stopping(machine, memory) for machine in seen.machines or () if machine.pool == pool.name)
    room = pool.standby - len(stopped) - stopping
    fitting = [machine for machine in unneeded if _fits(pool, machine, memory)]
    fitting.sort(key=lambda each: not has_new_key(each, memory.machines[each.name]))
    for machine in fitting[: max(room, 0)]:
        known = memory.machines[machine.name]
        known.surplus_since = None
        if machine.status == "RUNNING" and has_new_key(machine, known):
            known.stopped_for_later = True
        yield machine


def stops(seen: Observation, memory: Memory) -> Iterator[Stop]:
    """The stop of each machine that is marked as stopped and runs, until Google lists it as stopping."""
    for machine in seen.machines or ():
        if machine.status == "RUNNING" and is_stopping(machine, memory):
            if machine.key:
                # Each time: a manager that lost its memory may have taken the key of an earlier boot for this one's.
                memory.machines[machine.name].old_key = digest(machine.key)
            yield Stop(machine)


def stock(pool: Pool, stopped: int, spare: Collection[str], seen: Observation, memory: Memory) -> int:
    """How many machines are on standby or come to it: `spare` are names of those that no job needs."""
    on = {each.name: each for each in seen.machines or () if each.pool == pool.name and not each.off}
    stopping = sum(is_stopping(machine, memory) for machine in on.values())
    coming = sum(name not in on or (on[name].unregistered and not is_stopping(on[name], memory)) for name in spare)
    return stopped + stopping + coming


def refill(pool: Pool, have: int, count: int, memory: Memory, now: float) -> Iterator[Insert]:
    """The machines that are made for standby: `have` are on it or come to it, and `count` of the pool are on.

    They are bought within the maximum, and never at a place that has lately had none.
    """
    known = memory.standby.setdefault(pool.name, StandbyMemory())
    places = _places(pool, memory)
    while places and have < pool.standby and count < pool.max and now >= _next_try(known, pool):
        rung = capacity.choose(replace(pool, rungs=places), memory, now, steady=False)
        if not isinstance(rung, Rung):
            return
        known.made = max(known.made + 1, int(now))
        name = standby_name(pool.name, known.made)
        known.unproven += 1
        known.last_made = now
        have, count = have + 1, count + 1
        insert = Insert(pool.name, name, rung, None, request_id(name, rung.zone))
        memory.pending[name] = Pending(pool.name, rung, None, insert.request_id, now)
        yield insert


def _is_out(rung: Rung, memory: Memory) -> bool:
    """Whether a machine could not be started there for a while: spot machines are taken back, or the place had none
    when it was asked again. One stockout may only say that others have just taken its last machine."""
    return capacity.stockouts(rung, memory) > 1 or not capacity.is_calm(rung, memory)


def _places(pool: Pool, memory: Memory) -> tuple[Rung, ...]:
    """Where machines are made for standby: rungs of the first one's market, without those that have lately had none, or
    had them taken back."""
    return tuple(
        rung
        for rung in pool.rungs
        if rung.market == pool.rungs[0].market
        and not capacity.is_probe(rung, memory)
        and capacity.is_calm(rung, memory)
    )


def forget(pools: Collection[str], memory: Memory) -> None:
    """Drop what was kept of pools that are removed."""
    memory.standby = {name: each for name, each in memory.standby.items() if name in pools}


def is_stopping(machine: Machine, memory: Memory) -> bool:
    """Whether the machine is on, and is being stopped for a later job."""
    known = memory.machines[machine.name]
    return not machine.off and known.stopped_for_later and machine.name not in memory.pending


def _fits(pool: Pool, machine: Machine, memory: Memory) -> bool:
    """Whether it can be started later as it would be made now."""
    rung = pool.rung_of(machine)
    return rung is not None and rung.market == pool.rungs[0].market and machine.template not in memory.stopped


def _next_try(known: StandbyMemory, pool: Pool) -> float:
    """When the next machine may be made: at once, unless none of the last ones came to standby. Then as at a place
    without machines."""
    in_vain = known.unproven - pool.standby
    if in_vain < 0:
        return 0.0
    return known.last_made + capacity.pause_sec(in_vain + 1)
