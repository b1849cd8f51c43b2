"""Selects the machines for which the manager registers a runner, and the runners whose machine is gone, to remove them.

It applies to pools with `registeredBy: manager`. registration.py in the parent folder carries a registration out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..memory import Memory, Registration, StandbyMemory
from ..model import JobKey, Machine, Observation, Pool, Register, RemoveRunner, Runner
from . import standby

# A killed manager may have sent a request that GitHub still carries out. The next request waits for this time.
_REPEAT_AFTER_SEC = 30.0
# A registration takes three sequential calls. A pass has to end before its observation is too old (loop.STALE_SEC).
_MOST_A_PASS = 20
# How long Google may list a machine as RUNNING that a manager, whose memory is lost, has stopped for standby.
_STOP_VISIBLE_WITHIN_SEC = 60.0
# How long a registered runner may be missing from GitHub's list.
_LISTED_WITHIN_SEC = 60.0
# GitHub itself removes an unused runner after a day.
_FORGET_SEC = 24 * 3600.0


def never_registered(machine: Machine, memory: Memory) -> bool:
    """Return True if the machine has no runner, because the manager has not begun to register it."""
    return machine.unregistered and _registration_of(machine, memory) is None


def bound(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> dict[str, JobKey | None]:
    """Return the machines that accept only the run of one job, each with that job.

    They are the machines of public pools with a registration. A manager that has lost its memory does not know the job,
    and gives such a machine no job.
    """
    found: dict[str, JobKey | None] = {}
    for machine in observation.machines or ():
        registration = _registration_of(machine, memory)
        if (pool := pools.get(machine.pool)) and pool.public and (registration or machine.sealed):
            found[machine.name] = registration.job if registration else None
    return found


def due(
    pool: Pool, free: Sequence[Machine], observation: Observation, memory: Memory, needed: Mapping[str, JobKey]
) -> Iterator[Register]:
    """Return the registrations to begin now: of machines that a job needs and that have published a key.

    `needed` has the waiting job of each machine that one is assigned to. In a public pool, only these are registered,
    and only if they are from the current template, whose agent refuses other runs.
    """
    begun = sum(registration.asked == observation.now for registration in memory.registrations.values())
    for machine in free:
        registration = _registration_of(machine, memory)
        entry = memory.machines[machine.name]
        ready = machine.unregistered and machine.status == "RUNNING" and standby.has_new_key(machine, entry)
        wanted = entry.surplus_since is None and not standby.is_stopping(machine, memory)
        was_found_running = entry.running_since == entry.first_seen and not entry.started_for
        may_stop = pool.standby and was_found_running and observation.now - entry.first_seen < _STOP_VISIBLE_WITHIN_SEC
        requested_recently = registration is not None and observation.now - registration.asked < _REPEAT_AFTER_SEC
        job = needed.get(machine.name) if pool.public and pool.rung_of(machine) else None
        if pool.public and job is None:
            continue
        if ready and wanted and not may_stop and not requested_recently and begun < _MOST_A_PASS:
            begun += 1
            memory.registrations[machine.name] = Registration(machine.id, observation.now, job)
            memory.standby.setdefault(machine.pool, StandbyMemory()).unproven = 0
            yield Register(machine, job)


def _registration_of(machine: Machine, memory: Memory) -> Registration | None:
    """Return the registration that was begun for this machine, ignoring an earlier machine of the same name."""
    registration = memory.registrations.get(machine.name)
    return registration if registration is not None and registration.machine_id == machine.id else None


def strays(observation: Observation, memory: Memory) -> Iterator[RemoveRunner]:
    """Unregister runners whose machine is gone, because the machine can no longer unregister its runner."""
    if observation.machines is None or observation.runners is None:
        return
    # A single list may be incomplete. A machine that was missing only once therefore counts as existing.
    machines = {machine.name for machine in observation.machines} | memory.machines.keys()
    runners = {runner.name: runner for runner in observation.runners}
    for name, registration in list(memory.registrations.items()):
        if name in machines:
            continue
        runner: Runner | None = runners.get(name)
        if observation.now - registration.asked > (_LISTED_WITHIN_SEC if runner is None else _FORGET_SEC):
            del memory.registrations[name]
        elif runner is not None and not runner.busy and not runner.online:
            yield RemoveRunner(runner, None, "its machine is gone")
