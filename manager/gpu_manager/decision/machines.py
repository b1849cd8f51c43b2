"""The memory of each machine, and the machines to delete. A machine that may have a job is never deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gpu_catalog.locations import region_of

from ..memory import MachineMemory, Memory, StoppedPool
from ..model import Action, Delete, InsertError, Job, Machine, Observation, Pool, RemoveRunner, Rung, Runner
from . import capacity, standby
from .names import spot_place

# How long a runner without a job is kept: a new commit cancels jobs and queues the same ones again.
SURPLUS_SEC = 30.0
# How long a machine may take to switch itself off after its runner is gone.
GONE_RUNNER_SEC = 120.0
# Added to the agent's own deadline, after which the agent switches its machine off.
LATE_SEC = 60.0
# A runner that lost its connection reconnects within seconds, unless its machine hangs.
OFFLINE_SEC = 120.0
# Google's states of a machine that is shutting down (discovery document compute v1, Instance.status).
_LEAVING = ("PENDING_STOP", "STOPPING", "SUSPENDING", "DEPROVISIONING", "REPAIRING")


def follow(pools: Mapping[str, Pool], seen: Observation, memory: Memory) -> None:
    """Update the memory with the observed machines and runners. Unknown sources change nothing."""
    now, listed = seen.now, {machine.name: machine for machine in seen.machines or ()}
    for machine in listed.values():
        known = memory.machines.setdefault(machine.name, MachineMemory(machine.pool, now))
        if known.id and machine.id and known.id != machine.id:
            # The machine has the name of one that was deleted since the last pass. Start its memory from zero.
            known = memory.machines[machine.name] = MachineMemory(machine.pool, now)
        known.id = machine.id or known.id
        known.unregistered = machine.unregistered
        known.place = spot_place(region_of(machine.zone), machine.machine_type)
        if pool := pools.get(machine.pool):
            known.runner_group, known.boot_sec, known.idle_sec = pool.runner_group, pool.boot_sec, pool.idle_sec
        if machine.waits:
            known.first_seen, known.waits_for, known.zone = now, machine.job, machine.zone
        elif known.waits_for:
            known.waits_for = ""
            capacity.worked(Rung(machine.zone, machine.machine_type, machine.market), memory)
        if machine.status == "RUNNING" and known.running_since is None:
            known.running_since = now
    for name, known in memory.machines.items():
        if name in seen.preempted or (name in listed and _was_preempted(listed[name])):
            _taken_back(known, memory, now)
    if seen.runners is not None:
        _follow_runners(seen.runners, memory, now)
    if seen.jobs is not None:
        _follow_jobs(seen.jobs, memory)
    templates = {template for pool in pools.values() for template in pool.templates}
    # An earlier version kept one entry for each pool.
    memory.stopped = {each.template: each for each in memory.stopped.values() if each.template in templates}
    for machine in listed.values():
        end, template = machine.end, machine.template
        if end and end.stops_pool and template in templates:
            memory.stopped.setdefault(template, StoppedPool(template, machine.name, end.reason, end.detail))


def forget_gone(pools: Mapping[str, Pool], seen: Observation, memory: Memory) -> None:
    """Drop the memory of machines that are no longer listed."""
    if seen.machines is None:
        return
    listed = {machine.name for machine in seen.machines}
    for name, known in list(memory.machines.items()):
        if name not in listed:
            del memory.machines[name]
            # If the operation is still pending, its error will report the same.
            unexplained = known.waits_for and not known.condemned and name not in memory.pending
            if unexplained and known.pool in pools:
                _waited_in_vain(pools[known.pool], known, memory, seen.now)


def _waited_in_vain(pool: Pool, known: MachineMemory, memory: Memory, now: float) -> None:
    """Count the deletion of a machine that waited for capacity as a stockout, and not as one of the job's machines."""
    error = InsertError("no-capacity", "no capacity within the wait")
    for rung in pool.rungs:
        if rung.zone == known.zone and rung.market == "flex-start":
            capacity.failed(pool.name, rung, error, memory, now)
    if job := memory.jobs.get(known.waits_for):
        job.machines -= 1


def ends(seen: Observation, kept: Collection[Machine]) -> Iterator[Action]:
    """Delete each machine that is off, except those on standby, because its disk costs money."""
    for machine in seen.machines or ():
        if machine.off and machine not in kept:
            why = f"{machine.end.reason}: {machine.end.detail}".rstrip(": ") if machine.end else "it is off"
            yield Delete(machine, why)


def lost_runners(pools: Mapping[str, Pool], seen: Observation, memory: Memory) -> Iterator[Action]:
    """Delete machines that are on but cannot have a job, because their runner never registered or is gone.

    Runners and jobs must be known, and no running job may name the machine.
    """
    if seen.runners is None or seen.jobs is None:
        return
    runners = {runner.name: runner for runner in seen.runners}
    working = {job.runner_name for job in seen.jobs if job.status == "in_progress"}
    for machine in seen.machines or ():
        known = memory.machines[machine.name]
        if machine.off or machine.waits or machine.status in _LEAVING or machine.name in working:
            continue
        # A machine without its registration cannot run its runner, which exists only at GitHub.
        runner = runners.get(machine.name)
        if (runner is not None and not machine.unregistered) or not _is_observed(known, pools):
            continue
        if known.missing_since is not None:
            late = seen.now - known.missing_since > GONE_RUNNER_SEC
            why = f"on for {GONE_RUNNER_SEC:.0f} s after its runner was gone from GitHub"
        else:
            # A machine may be in STAGING for minutes before its agent starts.
            since = known.first_seen if known.running_since is None else known.running_since
            late = not known.registered and seen.now - since > known.boot_sec + LATE_SEC
            why = f"no runner within {known.boot_sec + LATE_SEC:.0f} s"
        if late and runner is not None:
            yield RemoveRunner(runner, machine, why)
        elif late:
            known.condemned = True
            yield Delete(machine, why)


def unneeded(waiting: Sequence[Machine], spare: int, memory: Memory) -> Iterator[Action]:
    """Delete machines without capacity that no queued job needs. They have no agent yet that could take a job."""
    for machine in waiting[len(waiting) - min(spare, len(waiting)) :]:
        memory.machines[machine.name].condemned = True
        yield Delete(machine, "no queued job needs it, and it waits for capacity")


def hung(pools: Mapping[str, Pool], seen: Observation, memory: Memory) -> Iterator[Action]:
    """Unregister idle runners of hung machines. A working agent would have switched its machine off."""
    if seen.runners is None or seen.jobs is None:
        return
    runners = {runner.name: runner for runner in seen.runners if not runner.busy}
    for machine in seen.machines or ():
        known, runner = memory.machines[machine.name], runners.get(machine.name)
        if runner is None or machine.off or machine.status in _LEAVING or not _is_observed(known, pools):
            continue
        if why := _hangs(known, seen.now):
            yield RemoveRunner(runner, machine, why)


def surplus(idle: Sequence[tuple[Machine, Runner | None]], spare: int, memory: Memory, now: float) -> Iterator[Action]:
    """Remove `spare` of the idle machines after no queued job has needed them for a while.

    A machine without a runner cannot have a job if the manager registers its runner.
    """
    for position, (machine, runner) in enumerate(idle):
        known = memory.machines[machine.name]
        if position >= spare:
            known.surplus_since = None
            continue
        if known.surplus_since is None:
            known.surplus_since = now
        if now - known.surplus_since < SURPLUS_SEC:
            continue
        if runner is not None:
            yield RemoveRunner(runner, machine, "no queued job needs it")
        else:
            known.condemned = True
            yield Delete(machine, "no queued job needs it, and it has no runner yet")


def free(machines: Iterable[Machine], seen: Observation, memory: Memory) -> list[Machine]:
    """Return machines that will or may take a job: they boot, or their runner is idle."""
    busy = {runner.name for runner in seen.runners or () if runner.busy}
    return [
        machine
        for machine in machines
        if _may_take_a_job(machine, busy, memory) and not _hangs(memory.machines[machine.name], seen.now)
    ]


def alive(machine: Machine) -> bool:
    """Return True if the machine counts against the pool's maximum."""
    return not machine.off


def _is_observed(known: MachineMemory, pools: Mapping[str, Pool]) -> bool:
    """Return True if the sweep includes the machine's runner and its possible jobs, because a pool has its runner
    group.

    Machines of a removed pool are therefore managed as long as another pool has the group.
    """
    return known.runner_group in {pool.runner_group for pool in pools.values()}


def _may_take_a_job(machine: Machine, busy: set[str], memory: Memory) -> bool:
    known = memory.machines[machine.name]
    over = known.missing_since is not None or known.condemned or known.job is not None
    over = over or standby.is_stopping(machine, memory)
    return alive(machine) and machine.status not in _LEAVING and machine.name not in busy and not over


def _hangs(known: MachineMemory, now: float) -> str:
    """Return why an idle machine counts as hung, or ""."""
    if known.offline_since is not None and now - known.offline_since > OFFLINE_SEC:
        return f"its runner is offline for {OFFLINE_SEC:.0f} s"
    if known.idle_since is not None and now - known.idle_since > known.idle_sec + LATE_SEC:
        return f"its runner is idle for {known.idle_sec + LATE_SEC:.0f} s"
    return ""


def _was_preempted(machine: Machine) -> bool:
    return machine.preempted or (machine.end is not None and machine.end.reason == "preempted")


def _taken_back(known: MachineMemory, memory: Memory, now: float) -> None:
    """Count a preemption once, although each pass reports it until the machine is gone."""
    if not known.taken_back:
        known.taken_back = True
        capacity.taken_back(known.place, memory, now)


def _follow_jobs(jobs: Sequence[Job], memory: Memory) -> None:
    running = {job.runner_name: job.key for job in jobs if job.status == "in_progress"}
    for name, known in memory.machines.items():
        known.job = running.get(name, known.job)
        # A job that ends in the pass that reports the preemption was ended by the preemption.
        known.job_over = known.job_over or (known.job is not None and name not in running and not known.taken_back)


def _follow_runners(runners: Sequence[Runner], memory: Memory, now: float) -> None:
    by_name = {runner.name: runner for runner in runners}
    for name, known in memory.machines.items():
        if known.unregistered:
            continue
        if runner := by_name.get(name):
            known.registered, known.missing_since = True, None
            known.idle_since = None if runner.busy else known.idle_since or now
            known.offline_since = None if runner.busy or runner.online else known.offline_since or now
        elif known.registered and known.missing_since is None:
            known.missing_since = now
