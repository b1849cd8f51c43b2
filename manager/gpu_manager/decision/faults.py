"""Faults of GPUs: a job that failed on such a machine is run again once, and its commit says that it was the machine.

The agent of the machine reports the fault, and GitHub says if the job failed. A machine with a fault is off, and is
deleted like each machine that has ended (machines.remove_off), so it takes no further job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..memory import GpuFault, LostJob, Memory
from ..model import JobKey, Observation, Report, Run, RunKey
from .names import slug
from .reruns import LAST_ATTEMPT

_REPEAT_AFTER_SEC, _MOST_REQUESTS = 60.0, 3
_REMEMBERED_SEC = 24 * 3600.0


def remember(pools: Collection[str], observation: Observation, memory: Memory) -> None:
    """Add the jobs that ran on machines whose GPU failed to the memory."""
    for machine in observation.machines or ():
        job = memory.machines[machine.name].job
        if machine.end and machine.end.fault and job and machine.pool in pools:
            add(job, machine.name, machine.pool, machine.end.fault, memory, observation.now)


def add(job: JobKey, machine: str, pool: str, fault: str, memory: Memory, now: float) -> None:
    """Add a job that ran on a machine whose GPU failed, unless it is known."""
    memory.faults.setdefault(slug(job), GpuFault(job, machine, pool, fault, now))


def runs_to_read(memory: Memory) -> frozenset[RunKey]:
    """Return the runs whose state the next pass needs."""
    return frozenset(each.run for each in memory.faults.values() if each.failed is None)


def is_open(memory: Memory) -> bool:
    """Return True if a job may still be run again, or its commit still gets its check run."""
    histories = [*memory.histories.values(), *memory.ended.values()]
    is_asked = any(each.end and each.end.fault and not each.job for each in histories)
    return is_asked or any(each.failed is None or _is_unreported(each) for each in memory.faults.values())


def due(observation: Observation, memory: Memory) -> Iterator[Report]:
    """Return the check runs to write now. Jobs that failed are lost jobs from now on (reruns.due)."""
    now = observation.now
    for name, fault in memory.faults.items():
        run = observation.runs.get(fault.run)
        if fault.failed is None and run:
            fault.failed = _failed(fault.key, run)
            if fault.failed:
                lost = LostJob(fault.key, fault.pool, now, fault.key.attempt, by_fault=True)
                memory.lost.setdefault(name, lost)
        if _is_unreported(fault) and (not fault.asks or now - fault.asked >= _REPEAT_AFTER_SEC):
            fault.asked, fault.asks = now, fault.asks + 1
            yield _report(fault)


def forget_old(memory: Memory, now: float) -> None:
    """Drop expired entries."""
    memory.faults = {key: each for key, each in memory.faults.items() if now - each.since < _REMEMBERED_SEC}


def next_step(attempt: int) -> str:
    """Return what happens to a job that failed in this attempt."""
    if attempt <= LAST_ATTEMPT:
        return "the manager runs it again once, on another machine"
    return "it was run again before, so a person decides"


def title(fault: str) -> str:
    return f"GPU fault ({fault}), not your change"


def _failed(job: JobKey, run: Run) -> bool | None:
    """Return True if the job failed, and None while its run has not ended.

    A job of a cancelled run counts as cancelled by a person, and one of an earlier attempt as run again by a person.
    """
    if run.attempt == job.attempt and run.status != "completed":
        return None
    return run.attempt == job.attempt and run.conclusion != "cancelled" and job.job_id in run.failed_jobs


def _is_unreported(fault: GpuFault) -> bool:
    return fault.failed is True and not fault.reported and fault.asks < _MOST_REQUESTS


def _report(fault: GpuFault) -> Report:
    # The name of a fault has only plain characters (End.fault), because a job that is root may have written it.
    summary = (
        f"Job {fault.key.job_id} failed on the machine {fault.machine} of the pool {fault.pool}. After the job, the "
        f"machine reported a fault of its GPU: {fault.fault}. {next_step(fault.key.attempt).capitalize()}.\n\n"
        "`gpu-ci explain` and `gpu-ci repro` take the address of the job."
    )
    return Report(fault.key, title(fault.fault), summary)
