"""Updates the memory of each machine, and selects the machines to delete.

Functions named `remove_*` return the actions that delete machines. They never delete a machine that may have a job.
`entry` is a machine's entry in the memory (memory.MachineMemory).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ..memory import MachineMemory, Memory, StoppedPool
from ..model import Action, Delete, InsertError, Job, Machine, Observation, Pool, RemoveRunner, Runner
from . import capacity, standby
from .names import slug

# How long a machine that no job needs is kept: a new commit cancels jobs and then queues the same jobs again.
SURPLUS_SEC = 30.0
# How long a machine may need to switch itself off after its runner is gone.
GONE_RUNNER_SEC = 120.0
# Added to the agent's own deadline, after which the agent switches its machine off.
LATE_SEC = 60.0
# A runner that lost its connection reconnects within seconds, unless its machine hangs.
OFFLINE_SEC = 120.0
# The reasons that a machine reports after its one job has ended, or after it has refused one (gpu_agent.outcomes).
JOB_DONE, JOB_REFUSED = "job-done", "job-refused"
# Google's states of a machine that is shutting down (discovery document compute v1, Instance.status).
SHUTTING_DOWN = ("PENDING_STOP", "STOPPING", "SUSPENDING", "DEPROVISIONING", "REPAIRING")


def update(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> None:
    """Update the memory with the observed machines, runners and jobs. An unknown source changes nothing."""
    now, listed = observation.now, {machine.name: machine for machine in observation.machines or ()}
    for machine in listed.values():
        # A machine on a host that was reused is stopped from the beginning.
        is_ready = machine.jobs > 0 and machine.status == "STOPPED"
        new = MachineMemory(machine.pool, now, stopped_for_later=is_ready)
        entry = memory.machines.setdefault(machine.name, new)
        if entry.id and machine.id and entry.id != machine.id:
            # An earlier machine of this name was deleted since the last pass. The new machine gets a new entry.
            entry = memory.machines[machine.name] = new
        entry.id = machine.id or entry.id
        entry.unregistered = machine.unregistered
        entry.place = capacity.spot_place(machine.region, machine.machine_type)
        if pool := pools.get(machine.pool):
            entry.runner_group, entry.boot_sec, entry.idle_sec = pool.runner_group, pool.boot_sec, pool.idle_sec
        if machine.waits_for_capacity:
            entry.first_seen, entry.waits_for, entry.zone = now, machine.job, machine.zone
        elif entry.waits_for:
            entry.waits_for = ""
            # Also of a machine from an earlier template of the pool.
            where = (machine.zone, machine.machine_type, machine.market)
            for rung in pool.rungs if pool else ():
                if (rung.zone, rung.machine_type, rung.market) == where:
                    capacity.forget_stockouts(rung, memory)
        if machine.status == "RUNNING" and entry.running_since is None:
            entry.running_since = now
    for name, entry in memory.machines.items():
        if name in observation.preempted:
            _count_preemption_once(entry, memory, now)
    if observation.runners is not None:
        _update_runners(observation.runners, memory, now)
    if observation.jobs is not None:
        _update_jobs(observation.jobs, observation.unread, memory)
    for machine in listed.values():
        _count_no_machine_of_another_job(machine, memory)
    templates = {template for pool in pools.values() for template in pool.templates}
    # The memory of an earlier version has one entry for each pool.
    memory.stopped = {each.template: each for each in memory.stopped.values() if each.template in templates}
    for machine in listed.values():
        end, template = machine.end, machine.template
        if end and end.stops_pool and template in templates and not _may_have_had_a_job(machine, observation, memory):
            memory.stopped.setdefault(template, StoppedPool(template, machine.name, end.reason, end.detail))


def forget_gone(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> None:
    """Drop the memory of machines that are no longer listed."""
    if observation.machines is None:
        return
    listed = {machine.name for machine in observation.machines}
    for name, entry in list(memory.machines.items()):
        if name not in listed:
            del memory.machines[name]
            if entry.running_since is not None and entry.pool in pools:
                capacity.forget_used_up_quota(pools[entry.pool], entry.place, memory)
            # If the insert is still pending, the error of its operation will report the same stockout.
            deleted_by_google = entry.waits_for and not entry.condemned and name not in memory.pending
            if deleted_by_google and entry.pool in pools:
                _count_as_stockout(pools[entry.pool], entry, memory, observation.now)


def _count_as_stockout(pool: Pool, entry: MachineMemory, memory: Memory, now: float) -> None:
    """Count a stockout for a machine that Google deleted while it waited for capacity.

    The machine does not count as one of the machines that were started for its job.
    """
    error = InsertError("no-capacity", "no capacity within the wait")
    for rung in pool.rungs:
        if rung.zone == entry.zone and rung.market == "flex-start":
            capacity.remember_failure(pool.name, rung, error, memory, now)
    if job := memory.jobs.get(entry.waits_for):
        job.machines -= 1


def remove_off(observation: Observation, on_standby: Collection[Machine]) -> Iterator[Action]:
    """Delete each machine that is off, except those on standby, because its disk costs money."""
    for machine in observation.machines or ():
        if machine.off and machine not in on_standby:
            reason = f"{machine.end.reason}: {machine.end.detail}".rstrip(": ") if machine.end else "it is off"
            yield Delete(machine, reason)


def remove_without_runner(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> Iterator[Action]:
    """Delete machines that are on but cannot have a job, because their runner never registered or is gone.

    Nothing is deleted if runners or jobs are unknown. A machine stays if a running job names it, or if its job is of a
    repository that could not be read.
    """
    if observation.runners is None or observation.jobs is None:
        return
    runners = {runner.name: runner for runner in observation.runners}
    working = {job.runner_name for job in observation.jobs if job.status == "in_progress"}
    working |= {name for name, entry in memory.machines.items() if _has_unread_job(entry, observation.unread)}
    for machine in observation.machines or ():
        entry = memory.machines[machine.name]
        if machine.off or machine.waits_for_capacity or machine.status in SHUTTING_DOWN or machine.name in working:
            continue
        # If the manager has registered a runner and could not send the registration, the runner exists only at GitHub.
        runner = runners.get(machine.name)
        if (runner is not None and not machine.unregistered) or not _is_observed(entry, pools):
            continue
        if entry.missing_since is not None:
            late = observation.now - entry.missing_since > GONE_RUNNER_SEC
            reason = f"on for {GONE_RUNNER_SEC:.0f} s after its runner was gone from GitHub"
        else:
            # A machine may be in STAGING for minutes before its agent starts.
            since = entry.first_seen if entry.running_since is None else entry.running_since
            most_sec = entry.boot_sec + entry.warm_sec + LATE_SEC
            late = not entry.registered and observation.now - since > most_sec
            reason = f"no runner within {most_sec:.0f} s"
        if late and runner is not None:
            yield RemoveRunner(runner, machine, reason)
        elif late:
            entry.condemned = True
            yield Delete(machine, reason)


def remove_overdue(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> Iterator[Action]:
    """Delete machines that have been on for too long, even if they have a job."""
    for machine in observation.machines or ():
        pool, entry = pools.get(machine.pool), memory.machines[machine.name]
        if pool is None or machine.off or machine.waits_for_capacity or machine.status in SHUTTING_DOWN:
            continue
        if observation.now - (machine.on_unix or entry.first_seen) > pool.max_run_duration_sec + LATE_SEC:
            entry.condemned = True
            yield Delete(machine, f"on for more than {pool.max_run_duration_sec} s (maxRunDurationSec)")


def remove_waiting(waiting: Sequence[Machine], spare: int, memory: Memory) -> Iterator[Action]:
    """Delete `spare` of the machines that wait for capacity. No agent runs on them yet, so they have no job."""
    for machine in waiting[len(waiting) - min(spare, len(waiting)) :]:
        memory.machines[machine.name].condemned = True
        yield Delete(machine, "no queued job needs it, and it waits for capacity")


def remove_hung(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> Iterator[Action]:
    """Unregister idle runners that are offline or idle for too long, and delete their machines, which have hung.

    A working agent would have switched its machine off.
    """
    if observation.runners is None or observation.jobs is None:
        return
    runners = {runner.name: runner for runner in observation.runners if not runner.busy}
    for machine in observation.machines or ():
        entry, runner = memory.machines[machine.name], runners.get(machine.name)
        if runner is None or machine.off or machine.status in SHUTTING_DOWN or not _is_observed(entry, pools):
            continue
        if reason := _hang_reason(entry, observation.now):
            yield RemoveRunner(runner, machine, reason)


def remove_surplus(
    idle: Sequence[tuple[Machine, Runner | None]], spare: int, memory: Memory, now: float
) -> Iterator[Action]:
    """Remove the first `spare` of the idle machines, each after no queued job has needed it for SURPLUS_SEC.

    A machine without a runner cannot have a job, because the manager registers its runner.
    """
    for position, (machine, runner) in enumerate(idle):
        entry = memory.machines[machine.name]
        if position >= spare:
            entry.surplus_since = None
            continue
        if entry.surplus_since is None:
            entry.surplus_since = now
        if now - entry.surplus_since < SURPLUS_SEC:
            continue
        if runner is not None:
            yield RemoveRunner(runner, machine, "no queued job needs it")
        else:
            entry.condemned = True
            yield Delete(machine, "no queued job needs it, and it has no runner yet")


def available(machines: Iterable[Machine], observation: Observation, memory: Memory) -> list[Machine]:
    """Return machines that will or may take a job: they boot, or their runner is idle."""
    busy = {runner.name for runner in observation.runners or () if runner.busy}
    return [
        machine
        for machine in machines
        if _may_take_a_job(machine, busy, memory) and not _hang_reason(memory.machines[machine.name], observation.now)
    ]


def counts_against_max(machine: Machine) -> bool:
    """Return True if the machine counts against the pool's maximum."""
    return not machine.off


def _is_observed(entry: MachineMemory, pools: Mapping[str, Pool]) -> bool:
    """Return True if a pool has the machine's runner group. The sweep then reads its runner and its possible jobs.

    Machines of a removed pool are therefore managed as long as another pool has the group.
    """
    return entry.runner_group in {pool.runner_group for pool in pools.values()}


def _may_take_a_job(machine: Machine, busy: set[str], memory: Memory) -> bool:
    entry = memory.machines[machine.name]
    over = entry.missing_since is not None or entry.condemned or entry.job is not None
    over = over or standby.is_stopping(machine, memory)
    return counts_against_max(machine) and machine.status not in SHUTTING_DOWN and machine.name not in busy and not over


def _hang_reason(entry: MachineMemory, now: float) -> str:
    """Return why an idle machine counts as hung, or ""."""
    if entry.offline_since is not None and now - entry.offline_since > OFFLINE_SEC:
        return f"its runner has been offline for {OFFLINE_SEC:.0f} s"
    if entry.idle_since is not None and now - entry.idle_since > entry.idle_sec + LATE_SEC:
        return f"its runner has been idle for {entry.idle_sec + LATE_SEC:.0f} s"
    return ""


def _may_have_had_a_job(machine: Machine, observation: Observation, memory: Memory) -> bool:
    """Return True if a job may have written the machine's end, which root in the machine can do.

    GitHub lists a runner for one job as busy during the job, and never after it.
    """
    entry = memory.machines[machine.name]
    idle = any(runner.name == machine.name and not runner.busy for runner in observation.runners or ())
    return entry.job is not None or ((machine.sealed or entry.registered) and not idle)


def _count_preemption_once(entry: MachineMemory, memory: Memory, now: float) -> None:
    """Count a preemption once, although each pass reports it until the machine is gone."""
    if not entry.taken_back:
        entry.taken_back = True
        capacity.count_preemption(entry.place, memory, now)


def _has_unread_job(entry: MachineMemory, unread: Collection[str]) -> bool:
    return entry.job is not None and entry.job.repository in unread


def _update_jobs(jobs: Sequence[Job], unread: Collection[str], memory: Memory) -> None:
    running = {job.runner_name: job.key for job in jobs if job.status == "in_progress"}
    for name, entry in memory.machines.items():
        entry.job = running.get(name, entry.job)
        # A job that ends in the same pass in which its machine is preempted counts as ended by the preemption.
        seen_to_end = entry.job is not None and name not in running and not _has_unread_job(entry, unread)
        entry.job_over = entry.job_over or (seen_to_end and not entry.taken_back)


def _count_no_machine_of_another_job(machine: Machine, memory: Memory) -> None:
    """Count a machine that ran another job no longer against the limit of the job for which it was started.

    GitHub gives a job to any runner with its labels. Without this rule, a job whose machines all went to other jobs
    would get no further machine, although each of these machines worked.
    """
    entry = memory.machines[machine.name]
    started_for = entry.started_for or machine.job
    # A short job may begin and end between two passes. Then only the end that the machine reported shows it.
    unseen = entry.job is None and machine.end is not None and machine.end.reason in (JOB_DONE, JOB_REFUSED)
    another = entry.job is not None and slug(entry.job) != started_for
    if entry.ran_another_job or not (another or unseen):
        return
    entry.ran_another_job = True
    if (job := memory.jobs.get(started_for)) and job.machines > 0:
        job.machines -= 1


def _update_runners(runners: Sequence[Runner], memory: Memory, now: float) -> None:
    by_name = {runner.name: runner for runner in runners}
    for name, entry in memory.machines.items():
        if entry.unregistered:
            continue
        if runner := by_name.get(name):
            entry.registered, entry.missing_since = True, None
            entry.idle_since = None if runner.busy else entry.idle_since or now
            entry.offline_since = None if runner.busy or runner.online else entry.offline_since or now
        elif entry.registered and entry.missing_since is None:
            entry.missing_since = now
