"""The commit statuses to write: why the jobs of a commit wait for a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from ..memory import Memory, WrittenStatus
from ..model import CommitStatus, Job, JobKey, Observation, Pool, Reason

# Most jobs have a machine before that.
_WAITED_SEC = 60.0
# GitHub takes 1,000 statuses of one context for a commit (docs.github.com, "REST API endpoints for commit statuses").
_EVERY_SEC = 60.0
# GitHub allows 80 requests a minute that create content (docs.github.com, "Rate limits for the REST API"). A pass whose
# statuses are answered slowly must not keep the next one waiting.
_MOST_A_MINUTE, _MOST_A_PASS = 60, 10
# What GitHub takes of a description (docs.github.com, "REST API endpoints for commit statuses", example of 422).
_DESCRIPTION_CHARACTERS = 140
# After this time a status that cannot be written is given up.
_KEPT_SEC = 24 * 3600.0
# GitHub gives these to every runner, or documentation does (docs.github.com, "Using labels with self-hosted runners").
_EVERYBODYS = frozenset({"self-hosted", "linux", "x64", "arm64"})
_DONE = "no job of this commit waits for a machine"


def due(
    pools: Sequence[Pool], seen: Observation, reasons: Mapping[JobKey, Reason], memory: Memory
) -> list[CommitStatus]:
    """The statuses that differ from those last written, within limits: one a minute for each commit.

    Each is remembered as tried. After a kill, a status that GitHub may have is therefore replaced.
    """
    if seen.jobs is None or seen.runners is None or seen.machines is None:
        return []
    ours = frozenset[str]().union(*(pool.labels for pool in pools)) - _EVERYBODYS
    waiting: dict[str, list[Job]] = {}
    for job in seen.jobs:
        # Runners of others may serve a job that has only labels which every runner has.
        is_ours = job.key in reasons and (reasons[job.key].code != "no-pool" or job.labels & ours)
        if is_ours and job.head_sha and seen.github_unix - job.created_unix >= _WAITED_SEC:
            waiting.setdefault(_key(job.key.repository, job.head_sha), []).append(job)
    wanted = {key: _waits(jobs, reasons) for key, jobs in waiting.items()}
    for key, earlier in list(memory.statuses.items()):
        if key in wanted:
            continue
        over = earlier.description == _DONE and seen.now - earlier.at >= _EVERY_SEC
        if over or seen.now - earlier.since > _KEPT_SEC:
            del memory.statuses[key]
        else:
            repository, sha = key.split(" ")
            wanted[key] = CommitStatus(repository, sha, "success", _DONE, earlier.url)
    found = {key: each for key, each in wanted.items() if _is_due(each, memory.statuses.get(key), seen.now)}
    lately = sum(seen.now - each.at < 60 for each in memory.statuses.values())
    chosen = dict(islice(found.items(), max(min(_MOST_A_PASS, _MOST_A_MINUTE - lately), 0)))
    for key, status in chosen.items():
        since = memory.statuses[key].since if key in memory.statuses else seen.now
        memory.statuses[key] = WrittenStatus("", status.url, since, seen.now)
    return list(chosen.values())


def written(status: CommitStatus, memory: Memory) -> None:
    """Remember a status that GitHub has."""
    memory.statuses[_key(status.repository, status.sha)].description = status.description


def _key(repository: str, sha: str) -> str:
    return f"{repository} {sha}"


def _waits(jobs: Sequence[Job], reasons: Mapping[JobKey, Reason]) -> CommitStatus:
    """One status for all waiting jobs of a commit: the reason that needs a person first, then the oldest job's."""
    first, *others = sorted(jobs, key=lambda job: (reasons[job.key].waiting_helps, job.created_unix, job.key))
    reason = reasons[first.key]
    state = "pending" if reason.waiting_helps else "error"
    more = f" (and {len(others)} more)" if others else ""
    description = f"{reason.code}{more}: {reason.detail}"[:_DESCRIPTION_CHARACTERS]
    return CommitStatus(first.key.repository, first.head_sha, state, description, first.url)


def _is_due(status: CommitStatus, earlier: WrittenStatus | None, now: float) -> bool:
    if earlier is None:
        return True
    # A description has its reason's code in front, so that the same description has the same state.
    return earlier.description != status.description and now - earlier.at >= _EVERY_SEC
