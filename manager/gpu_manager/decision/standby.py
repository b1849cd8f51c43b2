"""Machines on standby, which were stopped after they checked their GPU. A start for a job takes a fraction of a boot.

A stopped machine uses no GPU and costs only its disk. It has no runner yet, because the manager registers the runner
when a job needs the machine. A stop therefore interrupts no job. The lifecycle of such a machine:

1. `refill` creates it, or `keep_unneeded` selects one whose job is gone. It boots and checks its GPU.
2. It publishes a key for its registration. `keep_unneeded` then marks it as stopped_for_later, and `stops` stops it.
3. It is on standby (`is_on_standby`, `ready`) until `start` starts it for a job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence

from ..memory import MachineMemory, Memory, Pending, StandbyMemory
from ..model import Insert, Job, Machine, Observation, Offer, Pool, Start, Stop
from . import capacity
from .names import request_id, slug, standby_name, start_id


def digest(key: str) -> str:
    """Return the digest of a machine's key. The memory stores the digest instead of the key."""
    return hashlib.sha256(key.encode()).hexdigest()


def has_new_key(machine: Machine, entry: MachineMemory) -> bool:
    """Return True if the machine has published a key in this boot. Its guest attribute may have the key of an earlier
    boot.
    """
    return bool(machine.key) and digest(machine.key) != entry.old_key


def is_on_standby(machine: Machine, memory: Memory) -> bool:
    """Return True if the manager has stopped the machine for a later job, and the machine had not failed before."""
    entry = memory.machines.get(machine.name)
    ended_well = machine.end is None or machine.end.reason == "stopped"
    return machine.off and entry is not None and entry.stopped_for_later and not machine.sealed and ended_well


def ready(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> dict[str, tuple[Machine, Offer]]:
    """Return the machines on standby that stay, by name and oldest first, each with the rung on which it will start.

    The caller deletes the others: more machines than the pool keeps, and machines of an old template. A machine at
    a place without capacity is also replaced, if there is another place. Machines that are being started always stay.
    """
    found: dict[str, tuple[Machine, Offer]] = {}
    count: dict[str, int] = {}
    rungs = {pool.name: _standby_rungs(pool, memory) for pool in pools.values() if pool.standby}
    for machine in sorted(observation.machines or (), key=lambda each: memory.machines[each.name].first_seen):
        pool = pools.get(machine.pool)
        rung = pool.rung_of(machine) if pool else None
        if pool is None or rung is None or not is_on_standby(machine, memory) or machine.template in memory.stopped:
            continue
        if not pool.may_use(machine):
            continue
        is_starting = machine.name in memory.pending
        if not is_starting and rungs.get(pool.name) and _fails_repeatedly(rung, memory):
            continue
        if is_starting or count.get(pool.name, 0) < pool.kept:
            found[machine.name] = (machine, rung)
            count[pool.name] = count.get(pool.name, 0) + (not is_starting)
            if memory.machines[machine.name].running_since is not None:
                # The machine has reached standby, so the count of unproven machines begins again. If the count began
                # again before the stop, `refill` would never pause while Google refuses each stop.
                memory.machines[machine.name].running_since = None
                memory.standby.setdefault(pool.name, StandbyMemory()).unproven = 0
    return found


def start(pool: Pool, machine: Machine, rung: Offer, job: Job, memory: Memory, now: float) -> Start:
    """Start a stopped machine for a job."""
    entry = memory.machines[machine.name]
    # The machine's deadlines count from this boot.
    entry.first_seen, entry.running_since, entry.surplus_since, entry.warm_sec = now, None, None, 0
    entry.started_for = slug(job.key)
    action = Start(machine, rung, job, start_id(machine.name, rung.zone, now))
    memory.pending[machine.name] = Pending(pool.name, rung, job, action.request_id, now, is_start=True)
    return action


def keep_unneeded(
    pool: Pool, unneeded: Sequence[Machine], stopped: Collection[Machine], observation: Observation, memory: Memory
) -> Iterator[Machine]:
    """Select and return the machines that stay for a later job.

    `unneeded` has the machines without a runner that no job needs. A selected machine that has published its key is
    marked as stopped_for_later. The other selected machines continue to boot.
    """
    stopping = sum(is_stopping(machine, memory) for machine in observation.machines or () if machine.pool == pool.name)
    free_places = pool.standby - len(stopped) - stopping
    fitting = [machine for machine in unneeded if may_wait(pool, machine, memory)]
    fitting.sort(key=lambda each: not has_new_key(each, memory.machines[each.name]))
    for machine in fitting[: max(free_places, 0)]:
        entry = memory.machines[machine.name]
        entry.surplus_since = None
        if machine.status == "RUNNING" and has_new_key(machine, entry):
            # It had no runner, so that GitHub did not assign its job to it says nothing about the job.
            job = memory.jobs.get(entry.started_for or machine.job)
            if job and job.machines > 0:
                job.machines -= 1
            entry.stopped_for_later = True
        yield machine


def stops(observation: Observation, memory: Memory) -> Iterator[Stop]:
    """Stop each running machine that is marked as stopped_for_later. Each pass repeats it until the machine stops."""
    for machine in observation.machines or ():
        if machine.status == "RUNNING" and is_stopping(machine, memory):
            if machine.key:
                # Updated each time, because a manager that lost its memory may have mistaken the key of an earlier boot
                # for this one.
                memory.machines[machine.name].old_key = digest(machine.key)
            yield Stop(machine)


def count_standby(pool: Pool, stopped: int, spare: Collection[str], observation: Observation, memory: Memory) -> int:
    """Return the number of machines on standby or on the way to it.

    `stopped` is the number of machines on standby, and `spare` has the names of the running machines that no job needs.
    """
    running = {each.name: each for each in observation.machines or () if each.pool == pool.name and not each.off}
    stopping = sum(is_stopping(machine, memory) for machine in running.values())
    # A name in `spare` that no list contains belongs to a pending insert.
    on_the_way = sum(
        name not in running or (running[name].unregistered and not is_stopping(running[name], memory)) for name in spare
    )
    return stopped + stopping + on_the_way


def refill(pool: Pool, wanted: int, existing: int, count: int, memory: Memory, now: float) -> Iterator[Insert]:
    """Create machines that wait for jobs, within the pool's maximum and never at a place with a recent stockout.

    `wanted` is their number, stopped or on. `existing` is the number of those that exist or are on the way to it
    (`count_standby`). `count` is the number of the pool's machines that are on.
    """
    entry = memory.standby.setdefault(pool.name, StandbyMemory())
    rungs = _standby_rungs(pool, memory)
    while rungs and existing < wanted and count < pool.max and now >= _next_try(entry, wanted):
        rung = capacity.choose(pool, rungs, memory, now)
        if not isinstance(rung, Offer):
            return
        entry.made = max(entry.made + 1, int(now))
        name = standby_name(pool.name, entry.made)
        entry.unproven += 1
        entry.last_made = now
        existing, count = existing + 1, count + 1
        insert = Insert(pool.name, name, rung, None, request_id(name, rung.zone))
        memory.pending[name] = Pending(pool.name, rung, None, insert.request_id, now)
        yield insert


def _fails_repeatedly(rung: Offer, memory: Memory) -> bool:
    """Return True if the place has recent preemptions or more than one consecutive stockout.

    A single stockout may only mean that another customer has just taken the last machine.
    """
    return capacity.stockouts(rung, memory) > 1 or not capacity.has_few_preemptions(rung, memory)


def _standby_rungs(pool: Pool, memory: Memory) -> tuple[Offer, ...]:
    """Return the rungs for standby: those of the first rung's market, without recent stockouts or preemptions."""
    return tuple(
        rung
        for rung in pool.rungs
        if rung.market == pool.rungs[0].market
        and not capacity.is_test_insert(rung, memory)
        and capacity.has_few_preemptions(rung, memory)
    )


def forget(pools: Collection[str], memory: Memory) -> None:
    """Drop the memory of removed pools."""
    memory.standby = {name: each for name, each in memory.standby.items() if name in pools}


def is_stopping(machine: Machine, memory: Memory) -> bool:
    """Return True if the machine is on and is being stopped for a later job."""
    entry = memory.machines[machine.name]
    return not machine.off and entry.stopped_for_later and machine.name not in memory.pending


def may_wait(pool: Pool, machine: Machine, memory: Memory) -> bool:
    """Return True if the pool would create an equal machine now. Any other machine must not start later."""
    rung = pool.rung_of(machine)
    return rung is not None and rung.market == pool.rungs[0].market and machine.template not in memory.stopped


def _next_try(entry: StandbyMemory, wanted: int) -> float:
    """Return when the next machine that waits for jobs may be created.

    As many machines as wanted are created at once. Until one of them is ready, each further machine follows
    after a pause, which grows as for a place without capacity.
    """
    failures = entry.unproven - wanted
    if failures < 0:
        return 0.0
    return entry.last_made + capacity.pause_sec(failures + 1)
