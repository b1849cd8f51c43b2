"""Which queued jobs have a machine, which get one now, and why the others have none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..memory import JobMemory, Memory, Pending
from ..model import Insert, InsertError, Job, JobKey, Machine, Observation, Pool, Reason, Rung
from . import capacity, machines, reruns
from .names import machine_name, request_id, slug

# GitHub cancels a job that waited for a runner for 24 hours (docs.github.com, "Actions limits").
OLDEST_JOB_SEC = 24 * 3600.0
# What a job memory is kept for after the job was last seen.
_REMEMBERED_SEC = 2 * OLDEST_JOB_SEC
# What Google refuses for another reason than capacity or quota is mended by people.
_REFUSED_PAUSE_SEC = 300.0
# Inserts are answered within seconds, and their operations end within a minute or two.
_ANSWER_WITHIN_SEC = 300.0
_OURS = {"self-hosted", "gpu"}


@dataclass
class Cover:
    """What the queue of one pool needs."""

    inserts: list[Insert] = field(default_factory=list)
    covered: dict[JobKey, str] = field(default_factory=dict)
    """The machine that counts as the job's. Any machine of the pool may take it, as GitHub decides."""
    reasons: dict[JobKey, Reason] = field(default_factory=dict)


def by_pool(pools: Sequence[Pool], jobs: Sequence[Job], github_unix: float) -> tuple[dict[str, list[Job]], Cover]:
    """The waiting jobs of each pool, the oldest first; and the reasons of those that no pool may serve."""
    waiting: dict[str, list[Job]] = {pool.name: [] for pool in pools}
    others = Cover()
    for job in sorted(jobs, key=lambda each: (each.created_unix, each.key)):
        if job.status not in ("queued", "waiting"):
            continue
        pool = next((each for each in pools if _serves(each, job)), None)
        if pool is None:
            if reason := _no_pool(job, pools):
                others.reasons[job.key] = reason
        elif job.status == "waiting":
            others.reasons[job.key] = Reason("approval-pending", "a deployment of its environment waits for approval")
        elif github_unix - job.created_unix > OLDEST_JOB_SEC:
            others.reasons[job.key] = Reason("expired", "queued for more than 24 hours; GitHub cancels such jobs")
        else:
            waiting[pool.name].append(job)
    return waiting, others


def cover(
    pool: Pool, waiting: Sequence[Job], ours: Sequence[Machine], free: Sequence[Machine], now: float, memory: Memory
) -> Cover:
    """Assign the pool's machines to its waiting jobs, and decide on new ones within its maximum.

    `ours` are the pool's listed machines, and `free` those of them that take a job or may. Machines of pending inserts
    are counted as well.
    """
    listed = {machine.name for machine in ours}
    pending = [name for name, each in memory.pending.items() if each.pool == pool.name and name not in listed]
    count = sum(machines.alive(machine) for machine in ours) + len(pending)
    spare = [machine.name for machine in free] + pending
    started_for = {machine.name: machine.job for machine in ours} | {
        name: slug(memory.pending[name].job.key) for name in pending
    }
    found, uncovered = Cover(), []
    # A job's own machine first, so that what is shown is what people expect.
    own = {started_for[name]: name for name in reversed(spare)}
    for job in waiting:
        memory.jobs.setdefault(slug(job.key), JobMemory()).last_seen = now
        if name := own.get(slug(job.key)):
            found.covered[job.key] = name
            spare.remove(name)
    for job in waiting:
        if job.key in found.covered:
            continue
        if spare:
            found.covered[job.key] = spare.pop(0)
        else:
            uncovered.append(job)
    found.reasons |= _unanswered(found.covered, memory, now)
    steady = any(reruns.is_steady(job, memory) for job in waiting)
    for job in uncovered:
        chosen = _rung(pool, job, count, memory, now, steady)
        if isinstance(chosen, Reason):
            found.reasons[job.key] = chosen
            continue
        insert = _insert(pool, job, chosen, memory, now)
        found.inserts.append(insert)
        found.covered[job.key] = insert.machine
        count += 1
    return found


def _unanswered(covered: Mapping[JobKey, str], memory: Memory, now: float) -> dict[JobKey, Reason]:
    """The reasons of jobs whose insert Google has not answered for a while."""
    late = {name: each for name, each in memory.pending.items() if now - each.since > _ANSWER_WITHIN_SEC}
    return {
        job: Reason("no-answer", f"Google has not answered the insert of {name} in {late[name].rung.zone}")
        for job, name in covered.items()
        if name in late and late[name].done_since is None
    }


def repeated(seen: Observation, memory: Memory) -> Iterator[Insert]:
    """Inserts whose answer was lost: the same request again, which Google carries out once.

    Where the job no longer waits, the machine either is listed soon or was never made.
    """
    waiting = {job.key for job in seen.jobs or () if job.status == "queued"}
    for name, each in list(memory.pending.items()):
        if each.operation or each.done_since is not None:
            continue
        if each.job.key not in waiting:
            each.done_since = seen.now
        else:
            yield Insert(each.pool, name, each.rung, each.job, each.request_id)


def forget_old(memory: Memory, now: float) -> None:
    """Drop refusals that are over, and jobs that were not seen for two days."""
    memory.refusals = {pool: each for pool, each in memory.refusals.items() if each[0] > now}
    memory.jobs = {key: each for key, each in memory.jobs.items() if now - each.last_seen < _REMEMBERED_SEC}


def _serves(pool: Pool, job: Job) -> bool:
    """Whether GitHub may give the job to a runner of the pool: by its labels, and by who may use its group."""
    allowed = job.runner_groups is None or pool.runner_group in job.runner_groups
    return bool(job.labels) and job.labels <= pool.labels and allowed


def _no_pool(job: Job, pools: Sequence[Pool]) -> Reason | None:
    """A reason for jobs that look as if they were for us; jobs on GitHub's own runners are none of ours."""
    known = frozenset().union(*(pool.labels for pool in pools)) if pools else frozenset()
    if not job.labels & (known | _OURS):
        return None
    if groups := sorted({pool.runner_group for pool in pools if job.labels <= pool.labels}):
        return Reason("no-pool", f"{job.key.repository} may not use the runner group {', '.join(groups)}")
    nearest = max(pools, key=lambda pool: len(job.labels & pool.labels), default=None)
    missing = sorted(job.labels - (nearest.labels if nearest else frozenset()))
    return Reason("no-pool", f"no pool has the labels {', '.join(sorted(job.labels))}; missing: {', '.join(missing)}")


def _rung(pool: Pool, job: Job, count: int, memory: Memory, now: float, steady: bool) -> Rung | Reason:
    if stopped := memory.stopped.get(pool.name):
        return Reason("pool-stopped", f"{stopped.machine} ended with {stopped.reason}: {stopped.detail}")
    until, refusal = memory.refusals.get(pool.name, (now, ""))
    if until > now:
        return Reason("refused", f"Google refuses the machine: {refusal}", until)
    known = memory.jobs[slug(job.key)]
    if known.machines >= pool.machines_per_job:
        return Reason("never-picked-up", f"{known.machines} machines were started for it, and none got it")
    if count >= pool.max:
        return Reason("at-max", f"{count} of {pool.max} machines are in use")
    return capacity.choose(pool, memory, now, steady)


def _insert(pool: Pool, job: Job, rung: Rung, memory: Memory, now: float) -> Insert:
    known = memory.jobs[slug(job.key)]
    known.inserts += 1
    known.machines += 1
    name = machine_name(pool.name, job.key, known.inserts)
    insert = Insert(pool.name, name, rung, job, request_id(name, rung.zone))
    memory.pending[name] = Pending(pool.name, rung, job, insert.request_id, now)
    return insert


def failed(name: str, error: InsertError, memory: Memory, now: float) -> None:
    """Take back that a machine was started for its job, and remember why none was."""
    pending = memory.pending.pop(name)
    if known := memory.jobs.get(slug(pending.job.key)):
        known.machines -= 1
    if error.kind == "refused":
        memory.refusals[pending.pool] = (now + _REFUSED_PAUSE_SEC, error.message)
    else:
        capacity.failed(pending.rung, error, memory, now)


def pools_of(machines_seen: Sequence[Machine]) -> Mapping[str, list[Machine]]:
    """Machines by the name of their pool."""
    found: dict[str, list[Machine]] = {}
    for machine in machines_seen:
        found.setdefault(machine.pool, []).append(machine)
    return found
