"""Cancels the workflow runs of jobs that wait longer than queueTimeoutSec of their pools.

In public pools it also cancels runs without an approval that could take the machine of an approved job.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..memory import CancelledRun, JobMemory, Memory
from ..model import Cancel, Job, JobKey, Observation, Pool, Reason, RunKey
from . import jobs
from .names import slug

_REPEAT_AFTER_SEC, _MOST_REQUESTS = 60.0, 3
_REMEMBERED_SEC = 24 * 3600.0
_TIMEOUT = "queue-timeout"


def forget_old(memory: Memory, now: float) -> None:
    """Drop expired entries."""
    memory.cancelled = {key: each for key, each in memory.cancelled.items() if now - each.asked < _REMEMBERED_SEC}


def overdue(pools: Sequence[Pool], observation: Observation, memory: Memory) -> dict[JobKey, Reason]:
    """Return the queued jobs that get no machine any more: they wait too long, or their run is being cancelled.

    The time counts from the first pass that saw the job queued. A job that was created earlier may have waited for an
    approval, or for the manager. A job that also fits a pool without a timeout waits for that pool.
    """
    found: dict[JobKey, Reason] = {}
    for job in observation.jobs or ():
        limits = [pool.queue_timeout_sec or math.inf for pool in jobs.pools_for(pools, job)]
        limit_sec = max(limits, default=math.inf)
        if job.status != "queued":
            continue
        cancelled = memory.cancelled.get(_run_attempt(job.key))
        if cancelled and cancelled.code != _TIMEOUT and not job.refusal:
            keep(job.key, memory)  # it was approved after the first request
        elif cancelled:
            found[job.key] = Reason(cancelled.code, cancelled.detail)
        elif limit_sec < math.inf:
            entry = memory.jobs.setdefault(slug(job.key), JobMemory())
            entry.queued_since, entry.last_seen = entry.queued_since or observation.now, observation.now
            waited_sec = observation.now - entry.queued_since
            # What is known about the jobs of an unread repository is old: the job may run by now.
            if waited_sec > limit_sec and job.key.repository not in observation.unread:
                name = job.name or f"job {job.key.job_id}"
                detail = f"{name} was queued for {waited_sec:.0f} s, and queueTimeoutSec is {limit_sec}"
                found[job.key] = Reason(_TIMEOUT, f"{detail}; its run is cancelled")
    return found


def unapproved(
    pools: Sequence[Pool], observation: Observation, waiting: Sequence[tuple[Job, Sequence[Pool]]]
) -> dict[JobKey, Reason]:
    """Return the queued jobs that are not approved and fit a public pool for which an approved job waits.

    GitHub gives a runner to any job with its labels. The machine would refuse such a job, and end. A run whose approval
    could not be read may be approved, so it is not in the result.
    """
    wanted = {pool.name: job for job, fitting in waiting for pool in fitting if pool.public}
    found: dict[JobKey, Reason] = {}
    for job in observation.jobs or ():
        if job.status != "queued" or not job.refusal or job.refusal.code == "no-answer":
            continue
        approved = [wanted[pool.name] for pool in jobs.pools_for(pools, job) if pool.name in wanted]
        if approved and job.key.repository not in observation.unread:
            detail = f"{job.refusal.detail}; its run is cancelled, because GitHub could give it the machine of "
            name = f"{approved[0].key.repository} run {approved[0].key.run_id}"
            found[job.key] = Reason(job.refusal.code, detail + name)
    return found


def cancels(reasons: Mapping[JobKey, Reason], observation: Observation, memory: Memory) -> Iterator[Cancel]:
    """Return the runs to cancel now, each once. A request without effect is repeated twice, a minute apart."""
    for key, reason in reasons.items():
        run = memory.cancelled.setdefault(
            _run_attempt(key),
            CancelledRun(RunKey(key.repository, key.run_id), key.attempt, reason.detail, code=reason.code),
        )
        is_due = not run.asks or observation.now - run.asked >= _REPEAT_AFTER_SEC
        # What is known about the jobs of an unread repository is old.
        if is_due and key.repository not in observation.unread and run.asks < _MOST_REQUESTS:
            run.asked, run.asks = observation.now, run.asks + 1
            yield Cancel(key, reason.detail)


def keep(key: JobKey, memory: Memory) -> None:
    """Forget a cancellation that was not carried out, because the job no longer waits."""
    memory.cancelled.pop(_run_attempt(key), None)


def _run_attempt(key: JobKey) -> str:
    return f"{key.repository} {key.run_id} {key.attempt}"
