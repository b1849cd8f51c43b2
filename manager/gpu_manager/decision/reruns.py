"""Reruns of jobs whose machine was preempted: each once, after its run has ended, on a machine without preemption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..memory import LostJob, Memory
from ..model import Job, Observation, Pool, Rerun, Run, RunKey
from .names import slug

# GitHub refuses to rerun a run older than 30 days (docs.github.com, "Re-running workflows and jobs").
_OLDEST_RUN_SEC = 30 * 24 * 3600.0
# The first attempt and one rerun. A person decides about a run that loses its machine twice.
_LAST_ATTEMPT = 1
# Google stops a spot machine 30 seconds after its notice (cloud.google.com/compute/docs/instances/spot).
_LAST_WORD_SEC = 60.0
_ASK_AGAIN_SEC, _MOST_ASKS = 60.0, 3
# How long a lost job is remembered, and its pool avoids preemptible machines.
_STEADY_SEC = 24 * 3600.0


def notice(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> None:
    """Remember the jobs that ran on preempted machines."""
    for entry in memory.machines.values():
        pool = pools.get(entry.pool)
        if entry.taken_back and entry.job and not entry.job_over and pool and pool.rerun_preempted:
            key = entry.job
            memory.lost.setdefault(slug(key), LostJob(key, entry.pool, observation.now, key.attempt))
    running = {job.key for job in observation.jobs or () if job.status == "in_progress"}
    for lost in memory.lost.values():
        lost.waited_for = lost.waited_for or (lost.key in running and observation.now - lost.since > _LAST_WORD_SEC)


def wanted(memory: Memory) -> frozenset[RunKey]:
    """Return the runs whose state the next pass needs."""
    return frozenset(lost.run for lost in memory.lost.values())


def due(observation: Observation, memory: Memory) -> Iterator[Rerun]:
    """Return the reruns to request now, at most one for each run and pass."""
    for run_key in sorted({lost.run for lost in memory.lost.values()}):
        run = observation.runs.get(run_key)
        if run is None:
            continue
        _settle(run, observation, memory)
        lost = [each for each in memory.lost.values() if each.run == run_key]
        if not lost or run.status != "completed":
            continue
        if rerun := _ask(run, lost, memory, observation.now):
            yield rerun


def is_steady(job: Job, memory: Memory) -> bool:
    """Return True if this job's run lost a machine before, so that its pool buys no preemptible machine."""
    return _run_text(RunKey(job.key.repository, job.key.run_id)) in memory.steady


def forget_old(memory: Memory, now: float) -> None:
    """Drop expired entries."""
    memory.steady = {run: until for run, until in memory.steady.items() if until > now}
    memory.lost = {key: each for key, each in memory.lost.items() if now - each.since < _STEADY_SEC}


def _settle(run: Run, observation: Observation, memory: Memory) -> None:
    """Drop jobs that need no rerun: a rerun has begun, the run succeeded or was cancelled, or it is too old."""
    lost = {key: each for key, each in memory.lost.items() if each.run == run.key}
    asked = [each for each in lost.values() if each.asked is not None]
    if run.attempt > max((each.run_attempt for each in lost.values()), default=run.attempt):
        # Our own rerun has begun, or one that a person requested, which includes all failed jobs.
        for key, each in lost.items():
            if each.asked is not None or not asked:
                del memory.lost[key]
            else:
                each.run_attempt = run.attempt
        return
    old = observation.github_unix - run.created_unix > _OLDEST_RUN_SEC
    # A runner cancels its job on a preemption, so its run counts as cancelled. A person or a newer run cancelled it in
    # two cases: jobs of other machines are cancelled too, or the runner was gone before.
    others = set(run.failed_jobs) - {each.key.job_id for each in lost.values()}
    by_person = run.conclusion == "cancelled" and (others or any(each.waited_for for each in lost.values()))
    if run.status == "completed" and (by_person or run.conclusion == "success" or old):
        for key in lost:
            del memory.lost[key]
    for key, each in lost.items():
        if each.key.attempt > _LAST_ATTEMPT:
            memory.lost.pop(key, None)


def _ask(run: Run, lost: list[LostJob], memory: Memory, now: float) -> Rerun | None:
    if any(each.asked is not None and now - each.asked < _ASK_AGAIN_SEC for each in lost):
        return None
    ours = {each.key.job_id for each in lost}
    complete = set(run.failed_jobs) <= ours
    first = min((each for each in lost), key=lambda each: (each.asked is None, each.key))
    asking = lost if complete else [first]
    for each in asking:
        each.asked, each.asks = now, each.asks + 1
        if each.asks > _MOST_ASKS:
            memory.lost.pop(slug(each.key), None)
    if all(each.asks > _MOST_ASKS for each in asking):
        return None
    memory.steady[_run_text(run.key)] = now + _STEADY_SEC
    return Rerun(run.key, run.attempt, None if complete else first.key.job_id)


def _run_text(run: RunKey) -> str:
    return f"{run.repository} {run.run_id}"
