"""Selects the machines for which the manager registers a runner, and the runners whose machine is gone, to remove them.

It applies to pools with `registeredBy: manager`. registration.py in the parent folder carries a registration out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ..memory import JobMemory, Memory, Registration, StandbyMemory
from ..model import Job, JobKey, Machine, Observation, Pool, Register, RemoveRunner, Runner
from . import records, standby
from .names import slug

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


def bound(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> dict[str, Callable[[Job], bool]]:
    """Return the machines whose registration is for one job, each with a function that says if it accepts a job.

    With priorities, GitHub gives the runner only jobs with its labels. In a public pool, the agent refuses the jobs of
    other runs. A manager that has lost its memory does not know the run, and gives such a machine no job.
    """
    listed = {runner.name: runner.labels for runner in observation.runners or ()}
    found: dict[str, Callable[[Job], bool]] = {}
    for machine in observation.machines or ():
        pool, begun = pools.get(machine.pool), _registration_of(machine, memory)
        labels = None
        if pool and pool.priorities:
            # A registration without a runner counts until it is repeated, which may be for another job.
            counts = begun and (not machine.unregistered or observation.now - begun.asked < _REPEAT_AFTER_SEC)
            labels = listed.get(machine.name) or (begun.labels if begun and counts else None)
        public = pool is not None and pool.public
        if labels is not None or (public and (begun or machine.sealed)):
            found[machine.name] = partial(_accepts, labels, begun.job if begun else None, public)
    return found


def _accepts(labels: frozenset[str] | None, run: JobKey | None, public: bool, job: Job) -> bool:
    """Return True if the runner has the labels of the job, and the job is of the same attempt of the same run."""
    same_run = run is not None and run._replace(job_id=job.key.job_id) == job.key
    return (labels is None or job.labels <= labels) and (same_run or not public)


def due(
    pool: Pool,
    free: Sequence[Machine],
    fixed: Mapping[str, Job],
    waiting: list[tuple[Job, Sequence[Pool]]],
    observation: Observation,
    memory: Memory,
) -> Iterator[Register]:
    """Return the registrations to begin now: of machines that a job needs and that have published a key.

    In a pool with priorities and in a public pool, each runner is for one job: that of `fixed`, or with priorities the
    first of `waiting`, which has the other jobs, each with its pools, in their order. It is then removed from the list.
    In a public pool, a machine must be from the current template, whose agent refuses other runs.
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
        job = fixed.get(machine.name)
        if job is None and pool.priorities:
            job = next((each for each, fitting in waiting if pool in fitting), None)
        wanted &= job is not None or not pool.has_runners_for_one_job
        wanted &= not pool.public or pool.rung_of(machine) is not None
        if ready and wanted and not may_stop and not requested_recently and begun < _MOST_A_PASS:
            begun += 1
            if job is not None:
                waiting[:] = [each for each in waiting if each[0] is not job]
                _give(machine, job, memory)
            run = job.key if job and pool.public else None
            labels = job.labels or pool.labels if job and pool.priorities else None
            memory.registrations[machine.name] = Registration(machine.id, observation.now, run, labels)
            memory.standby.setdefault(machine.pool, StandbyMemory()).unproven = 0
            yield Register(machine, run, labels)


def _give(machine: Machine, job: Job, memory: Memory) -> None:
    """Give a machine, which may have been started for another job, to this job."""
    entry, new = memory.machines[machine.name], slug(job.key)
    if (earlier := entry.started_for or machine.job) != new:
        if (loser := memory.jobs.get(earlier)) and loser.machines > 0:
            loser.machines -= 1
        memory.jobs.setdefault(new, JobMemory()).machines += 1
        entry.started_for = new
    if history := memory.histories.get(machine.name):
        records.add_run(history, records.run_of(job))


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
