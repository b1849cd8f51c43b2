"""The order in which waiting jobs get machines: repositories take turns, and pools may have priorities.

A job of a pool with priorities has the class of its event, which GitHub reports, so that a workflow cannot choose it.
Each `agingSec` of waiting raises the job by one class. GitHub gives a runner to any job whose labels the runner has, so
the order holds only for jobs with the label of their run (Job.run_label): registrations.py registers a runner with the
labels of one job, and no job of another run with such a label can get it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..model import RUN_LABEL, Job, JobKey, Pool, Reason

Waiting = Sequence[tuple[Job, Sequence[Pool]]]
"""Waiting jobs, each with the pools that fit."""


def ordered(waiting: Waiting, jobs: Iterable[Job], github_unix: float) -> list[tuple[Job, Sequence[Pool]]]:
    """Return waiting jobs, which are in the order of their age, in the order in which they get machines.

    Jobs of repositories that have their share come last. The others are in the order of their class, and of each class
    the repositories take turns, so that one with many jobs does not hold all machines. `jobs` has all jobs.
    """
    by_rank = sorted(waiting, key=lambda each: _rank(each[0], each[1], github_unix))
    places = [
        ((turn >= _share(fitting), _rank(job, fitting, github_unix), turn), (job, fitting))
        for job, fitting, turn in _turns(by_rank, jobs)
    ]
    return [each for _, each in sorted(places, key=lambda each: each[0])]


def explained(
    reasons: Mapping[JobKey, Reason],
    waiting: Waiting,
    jobs: Iterable[Job],
    have_runner: Collection[JobKey],
    github_unix: float,
) -> dict[JobKey, Reason]:
    """Return the reasons, those of jobs that wait for a full pool with their class and the number of jobs before them.

    `waiting` has the waiting jobs in the order in which they get machines. Those in `have_runner` wait for GitHub only.
    """
    found, before = dict(reasons), Counter[str]()
    for job, fitting, turn in _turns(waiting, jobs):
        pool = next((each for each in fitting if each.priorities), None)
        reason = reasons.get(job.key)
        if pool and pool.priorities and reason and reason.code == "at-max":
            order, position, rank = pool.priorities.order, _class(job, pool), _rank(job, [pool], github_unix)
            event = order[position] if position < len(order) else "all other jobs"
            text = f"{reason.detail}; class {position + 1} of {len(order) + 1} ({event})"
            text += f", raised to {rank + 1} by its wait" if rank < position else ""
            text += (
                f"; jobs before it: {before[pool.name]}" if before[pool.name] else "; the next ready machine is for it"
            )
            if turn >= _share(fitting):
                text += f"; {job.key.repository} has its share, {_share(fitting):.0f} of {pool.max}"
            if job.run_label not in job.labels:
                text += f"; runs-on lacks {RUN_LABEL}, without which the job is in the last class"
            found[job.key] = replace(reason, detail=text)
        before.update(each.name for each in fitting if job.key not in have_runner)
    return found


def _turns(waiting: Waiting, jobs: Iterable[Job]) -> Iterator[tuple[Job, Sequence[Pool], int]]:
    """Yield each waiting job with the number of jobs of its repository that run or come before it."""
    counts = Counter(_sharing(job) for job in jobs if job.status == "in_progress" and job.runner_name)
    for job, fitting in waiting:
        yield job, fitting, counts[_sharing(job)]
        counts[_sharing(job)] += 1


def _sharing(job: Job) -> tuple[str, frozenset[str]]:
    """Return what shares the machines of a pool: jobs with the same labels, by repository."""
    return job.key.repository, job.labels - {job.run_label}


def _share(pools: Iterable[Pool]) -> float:
    """Return the number of machines that one repository gets before the jobs of others."""
    shares = [(pool.max, pool.priorities and pool.priorities.repository_share) for pool in pools]
    return sum(max(int(most * part), 1) if part else math.inf for most, part in shares)


def _rank(job: Job, pools: Iterable[Pool], github_unix: float) -> int:
    """Return the position of the job's class, raised by its wait. Without priorities, all jobs are equal."""
    waited_sec = max(github_unix - job.created_unix, 0)
    return min(
        (max(_class(job, pool) - int(waited_sec // pool.priorities.aging_sec), 0) for pool in pools if pool.priorities),
        default=0,
    )


def _class(job: Job, pool: Pool) -> int:
    """Return the position of the job's event. Jobs of other events, and those without their run's label, are last."""
    order = pool.priorities.order if pool.priorities else ()
    names = (job.event, f"{job.event}:{job.branch}") if job.run_label in job.labels else ()
    return next((at for at, each in enumerate(order) if each in names), len(order))
