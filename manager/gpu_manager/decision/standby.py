"""Machines on standby: stopped after they checked their GPU, and started for a job in a fraction of the boot time.

A stopped machine holds no GPU and costs only its disk. It has no runner yet, because the manager registers the runner
when a job needs the machine. A stop therefore interrupts no job.
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
    """Return the digest of a machine's key, which the memory keeps."""
    return hashlib.sha256(key.encode()).hexdigest()


def has_new_key(machine: Machine, known: MachineMemory) -> bool:
    """Return True if the machine has published the key of this boot. Its guest attribute may be from an
    earlier boot.
    """
    return bool(machine.key) and digest(machine.key) != known.old_key


def is_kept_off(machine: Machine, memory: Memory) -> bool:
    """Return True if the manager has stopped the machine for a later job, and the machine did not fail before that."""
    known = memory.machines.get(machine.name)
    ended_well = machine.end is None or machine.end.reason == "stopped"
    return machine.off and known is not None and known.stopped_for_later and not machine.sealed and ended_well


def kept(pools: Mapping[str, Pool], seen: Observation, memory: Memory) -> dict[str, tuple[Machine, Rung]]:
    """Return the stopped machines that stay, by name and oldest first, each with the rung on which it will start.

    Machines that are being started stay in any case. A machine that could not be started for a while is replaced at
    another place, if there is one.
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
                # Reset once, and only now. Otherwise a stop that is always refused would buy machines without a pause.
                memory.machines[machine.name].running_since = None
                memory.standby.setdefault(pool.name, StandbyMemory()).unproven = 0
    return found


def start(pool: Pool, machine: Machine, rung: Rung, job: Job, memory: Memory, now: float) -> Start:
    """Start a stopped machine for a job."""
    known = memory.machines[machine.name]
    # The machine's deadlines count from this boot.
    known.first_seen, known.running_since, known.surplus_since = now, None, None
    known.started_for = slug(job.key)
    action = Start(machine, rung, job, start_id(machine.name, rung.zone, now))
    memory.pending[machine.name] = Pending(pool.name, rung, job, action.request_id, now, is_start=True)
    return action


def keep(
    pool: Pool, unneeded: Sequence[Machine], stopped: Collection[Machine], seen: Observation, memory: Memory
) -> Iterator[Machine]:
    """Return the unneeded machines without a runner that are kept for a later job.

    A machine that has published its key is marked as stopped. The others continue to boot.
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
    """Stop each running machine that is marked as stopped, until Google lists it as stopping."""
    for machine in seen.machines or ():
        if machine.status == "RUNNING" and is_stopping(machine, memory):
            if machine.key:
                # Updated each time, because a manager that lost its memory may have mistaken the key of an earlier boot
                # for this one.
                memory.machines[machine.name].old_key = digest(machine.key)
            yield Stop(machine)


def stock(pool: Pool, stopped: int, spare: Collection[str], seen: Observation, memory: Memory) -> int:
    """Return the number of machines on standby or on the way to it. `spare` are names of machines that no job needs."""
    on = {each.name: each for each in seen.machines or () if each.pool == pool.name and not each.off}
    stopping = sum(is_stopping(machine, memory) for machine in on.values())
    coming = sum(name not in on or (on[name].unregistered and not is_stopping(on[name], memory)) for name in spare)
    return stopped + stopping + coming


def refill(pool: Pool, have: int, count: int, memory: Memory, now: float) -> Iterator[Insert]:
    """Create machines for standby, within the pool's maximum and never at a place with a recent stockout.

    `have` is the number of machines on standby or on the way to it, and `count` the number of the pool's machines that
    are on.
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
    """Return True if a machine could not be started there for a while, because of preemptions or repeated stockouts.

    A single stockout may only mean that others have just taken the last machine.
    """
    return capacity.stockouts(rung, memory) > 1 or not capacity.is_calm(rung, memory)


def _places(pool: Pool, memory: Memory) -> tuple[Rung, ...]:
    """Return the rungs for standby: those of the first rung's market, without recent stockouts or preemptions."""
    return tuple(
        rung
        for rung in pool.rungs
        if rung.market == pool.rungs[0].market
        and not capacity.is_probe(rung, memory)
        and capacity.is_calm(rung, memory)
    )


def forget(pools: Collection[str], memory: Memory) -> None:
    """Drop the memory of removed pools."""
    memory.standby = {name: each for name, each in memory.standby.items() if name in pools}


def is_stopping(machine: Machine, memory: Memory) -> bool:
    """Return True if the machine is on and is being stopped for a later job."""
    known = memory.machines[machine.name]
    return not machine.off and known.stopped_for_later and machine.name not in memory.pending


def _fits(pool: Pool, machine: Machine, memory: Memory) -> bool:
    """Return True if the machine equals one that the pool would create now, so that it can start later."""
    rung = pool.rung_of(machine)
    return rung is not None and rung.market == pool.rungs[0].market and machine.template not in memory.stopped


def _next_try(known: StandbyMemory, pool: Pool) -> float:
    """Return when the next machine may be created.

    That is at once, unless none of the last machines reached standby. Then the pauses are those of a place without
    capacity.
    """
    in_vain = known.unproven - pool.standby
    if in_vain < 0:
        return 0.0
    return known.last_made + capacity.pause_sec(in_vain + 1)
