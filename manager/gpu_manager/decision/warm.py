"""Machines that are on and wait for a job, at the times of a schedule. A job of theirs begins within seconds.

Such a machine has checked its GPU and published a key, and has no runner, so no job can be on it. `standby.refill`
creates it. When a job needs it, the manager registers its runner, and the machine checks its GPU again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..memory import Memory, StandbyMemory
from ..model import Machine, Observation, Pool
from . import standby


def size(pool: Pool, unix: float) -> int:
    """Return the number of machines of the pool that wait at this time."""
    return pool.warm.size if pool.warm and pool.warm.schedule.has(unix) else 0


def keep(pool: Pool, unneeded: Sequence[Machine], observation: Observation, memory: Memory) -> Iterator[Machine]:
    """Return the machines that wait. `unneeded` has the machines without a runner that no job needs.

    A machine that has waited for most_wait_sec is not among them, so that it is removed and another one created.
    """
    now, wanted = observation.now, size(pool, observation.now)
    if not pool.warm or not wanted:
        return
    fitting = [each for each in unneeded if standby.may_wait(pool, each, memory)]
    fitting.sort(key=lambda each: not standby.has_new_key(each, memory.machines[each.name]))
    for machine in fitting:
        entry = memory.machines[machine.name]
        if wanted == 0 or (entry.running_since and now - entry.running_since > pool.warm.most_wait_sec):
            continue
        wanted, entry.surplus_since = wanted - 1, None
        if standby.has_new_key(machine, entry) and not entry.warm_sec:
            # The first time that it waits with its check passed, so the pauses of refill begin again.
            entry.warm_sec = pool.warm.most_wait_sec
            memory.standby.setdefault(pool.name, StandbyMemory()).unproven = 0
        yield machine
