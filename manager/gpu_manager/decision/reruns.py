"""Runs jobs again whose machine was preempted, or whose GPU failed (faults.py). Such a job is a lost job
(memory.LostJob).

A lost job is run again once, after its run has ended. After a preemption its machine is one that Google does not
preempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..memory import LostJob, Memory
from ..model import Job, Observation, Rerun, Run, RunKey
from .names import slug

# GitHub refuses to rerun a run older than 30 days (docs.github.com, "Re-running workflows and jobs").
_OLDEST_RUN_SEC = 30 * 24 * 3600.0
# Only a job of the first attempt is run again. A person decides about a run that loses its machine twice.
LAST_ATTEMPT = 1
# How long the runner of a preempted machine may still report to GitHub. Google stops a spot machine 30 seconds after
# its notice (cloud.google.com/compute/docs/instances/spot).
_GRACE_SEC = 60.0
_REPEAT_AFTER_SEC, _MOST_REQUESTS = 60.0, 3
# How long a lost job stays in the memory, and its pools avoid preemptible machines.
_STEADY_SEC = 24 * 3600.0


def remember_lost_jobs(pools: Collection[str], observation: Observation, memory: Memory) -> None:
    """Add the jobs that ran on preempted machines to the memory."""
    for entry in memory.machines.values():
        if entry.taken_back and entry.job and not entry.job_over and entry.pool in pools:
            key = entry.job
            memory.lost.setdefault(slug(key), LostJob(key, entry.pool, observation.now, key.attempt))
    running = {job.key for job in observation.jobs or () if job.status == "in_progress"}
    for lost in memory.lost.values():
        lost.waited_for = lost.waited_for or (lost.key in running and observation.now - lost.since > _GRACE_SEC)


def runs_to_read(memory: Memory) -> frozenset[RunKey]:
    """Return the runs whose state the next pass needs."""
    return frozenset(lost.run for lost in memory.lost.values())


def due(observation: Observation, memory: Memory) -> Iterator[Rerun]:
    """Return the reruns to request now, at most one for each run and pass."""
    for run_key in sorted({lost.run for lost in memory.lost.values()}):
        run = observation.runs.get(run_key)
        if run is None:
            continue
        _drop_settled(run, observation, memory)
        lost = [each for each in memory.lost.values() if each.run == run_key]
        if not lost or run.status != "completed":
            continue
        if rerun := _rerun_of(run, lost, memory, observation.now):
            yield rerun


def needs_standard_machine(job: Job, memory: Memory) -> bool:
    """Return True if this job's run lost a machine before, so that its pools start no preemptible machine for it."""
    return _run_text(RunKey(job.key.repository, job.key.run_id)) in memory.steady


def forget_old(memory: Memory, now: float) -> None:
    """Drop expired entries."""
    memory.steady = {run: until for run, until in memory.steady.items() if until > now}
    memory.lost = {key: each for key, each in memory.lost.items() if now - each.since < _STEADY_SEC}


def _drop_settled(run: Run, observation: Observation, memory: Memory) -> None:
    """Drop jobs that need no rerun: a rerun has begun, the run succeeded or was cancelled, or it is too old."""
    lost = {key: each for key, each in memory.lost.items() if each.run == run.key}
    requested = [each for each in lost.values() if each.asked is not None]
    if run.attempt > max((each.run_attempt for each in lost.values()), default=run.attempt):
        # A rerun has begun. It is the manager's own, of the jobs in `requested`, or a person's, of all failed jobs.
        for key, each in lost.items():
            if each.asked is not None or not requested:
                del memory.lost[key]
            else:
                each.run_attempt = run.attempt
        return
    too_old = observation.github_unix - run.created_unix > _OLDEST_RUN_SEC
    # A runner cancels its job on a preemption, so GitHub reports the run as cancelled. Two signs show that a person or
    # a newer run has cancelled it instead. Jobs on other machines are cancelled too, or GitHub still listed the job as
    # running after its runner was gone.
    other_failed_jobs = set(run.failed_jobs) - {each.key.job_id for each in lost.values()}
    by_person = run.conclusion == "cancelled" and (other_failed_jobs or any(each.waited_for for each in lost.values()))
    if run.status == "completed" and (by_person or run.conclusion == "success" or too_old):
        for key in lost:
            del memory.lost[key]
    for key, each in lost.items():
        if each.key.attempt > LAST_ATTEMPT:
            memory.lost.pop(key, None)


def _rerun_of(run: Run, lost: list[LostJob], memory: Memory, now: float) -> Rerun | None:
    """Return the rerun to request for the lost jobs of a run, or None.

    GitHub accepts one rerun of a run at a time. If all failed jobs are lost jobs, the rerun is of all failed jobs.
    Otherwise it is of one job.
    """
    if any(each.asked is not None and now - each.asked < _REPEAT_AFTER_SEC for each in lost):
        return None
    lost_job_ids = {each.key.job_id for each in lost}
    complete = set(run.failed_jobs) <= lost_job_ids
    first = min((each for each in lost), key=lambda each: (each.asked is None, each.key))
    requested = lost if complete else [first]
    for each in requested:
        each.asked, each.asks = now, each.asks + 1
        if each.asks > _MOST_REQUESTS:
            memory.lost.pop(slug(each.key), None)
    if all(each.asks > _MOST_REQUESTS for each in requested):
        return None
    if not all(each.by_fault for each in requested):
        memory.steady[_run_text(run.key)] = now + _STEADY_SEC
    return Rerun(run.key, run.attempt, None if complete else first.key.job_id)


def _run_text(run: RunKey) -> str:
    return f"{run.repository} {run.run_id}"
