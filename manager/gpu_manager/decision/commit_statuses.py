"""Commit statuses that report why the jobs of a commit wait for a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice

from ..memory import Memory, WrittenStatus
from ..model import CommitStatus, Job, JobKey, Observation, Pool, Reason

# A job gets a status after it has waited this long. Most jobs have a machine before.
_WAITED_SEC = 60.0
# The pauses before a status with another reason, and before another text of the same reason. GitHub accepts 1,000
# statuses of one context for a commit (docs.github.com, "REST API endpoints for commit statuses"). A job waits for 24
# hours at most, and the text of one reason may change in each pass.
_REASON_EVERY_SEC, _DETAIL_EVERY_SEC = 60.0, 900.0
# GitHub allows 80 requests a minute that create content (docs.github.com, "Rate limits for the REST API"). The limit of
# a pass keeps slow answers from delaying the next pass.
_MOST_A_MINUTE, _MOST_A_PASS = 60, 10
# GitHub's limit of a description (docs.github.com, "REST API endpoints for commit statuses", example of 422).
_DESCRIPTION_CHARACTERS = 140
# A status that cannot be written is dropped after this time.
_KEPT_SEC = 24 * 3600.0
# Labels that any runner may have (docs.github.com, "Using labels with self-hosted runners").
_COMMON_LABELS = frozenset({"self-hosted", "linux", "x64", "arm64"})
_DONE = "no job of this commit waits for a machine"


def due(
    pools: Sequence[Pool], observation: Observation, reasons: Mapping[JobKey, Reason], memory: Memory
) -> list[CommitStatus]:
    """Return the statuses to write now: those that differ from the last written ones, within GitHub's limits.

    The memory marks each of them as tried before it is written. After a crash a later pass therefore writes it again.
    """
    # Version 0.1.0 also stored statuses of other contexts, for several instances.
    memory.statuses = {key: each for key, each in memory.statuses.items() if key.count(" ") == 1}
    if observation.jobs is None or observation.runners is None or observation.machines is None:
        return []
    own_labels = frozenset[str]().union(*(pool.labels for pool in pools)) - _COMMON_LABELS
    waiting: dict[str, list[Job]] = {}
    for job in observation.jobs:
        # A job that fits no pool, and has only labels that any runner may have, may be meant for other runners.
        is_ours = job.key in reasons and (reasons[job.key].code != "no-pool" or job.labels & own_labels)
        if is_ours and job.head_sha and observation.github_unix - job.created_unix >= _WAITED_SEC:
            waiting.setdefault(f"{job.key.repository} {job.head_sha}", []).append(job)
    wanted = {key: _waiting_status(jobs, reasons) for key, jobs in waiting.items()}
    for key, earlier in list(memory.statuses.items()):
        if key in wanted or key.partition(" ")[0] in observation.unread:
            continue
        settled = earlier.description == _DONE and observation.now - earlier.at >= _REASON_EVERY_SEC
        if settled or observation.now - earlier.since > _KEPT_SEC:
            del memory.statuses[key]
        else:
            repository, sha = key.split(" ")
            wanted[key] = CommitStatus(repository, sha, "success", _DONE, earlier.url)
    due_statuses = {
        key: each for key, each in wanted.items() if _is_due(each, memory.statuses.get(key), observation.now)
    }
    written_lately = sum(observation.now - each.at < 60 for each in memory.statuses.values())
    chosen = dict(islice(due_statuses.items(), max(min(_MOST_A_PASS, _MOST_A_MINUTE - written_lately), 0)))
    for key, status in chosen.items():
        entry = memory.statuses.get(key) or WrittenStatus("", "", observation.now, observation.now)
        memory.statuses[key] = WrittenStatus("", status.url, entry.since, observation.now)
    return list(chosen.values())


def written(status: CommitStatus, memory: Memory) -> None:
    """Remember a status that GitHub has accepted."""
    memory.statuses[f"{status.repository} {status.sha}"].description = status.description


def _waiting_status(jobs: Sequence[Job], reasons: Mapping[JobKey, Reason]) -> CommitStatus:
    """Return one status for the waiting jobs of a commit. It reports a job whose reason needs a person, or else the
    oldest job.
    """
    first, *others = sorted(jobs, key=lambda job: (reasons[job.key].waiting_helps, job.created_unix, job.key))
    reason = reasons[first.key]
    state = "pending" if reason.waiting_helps else "error"
    more = f" (and {len(others)} more)" if others else ""
    description = f"{reason.code}{more}: {reason.detail}"[:_DESCRIPTION_CHARACTERS]
    return CommitStatus(first.key.repository, first.head_sha, state, description, first.url)


def _is_due(status: CommitStatus, earlier: WrittenStatus | None, now: float) -> bool:
    if earlier is None:
        return True
    same_reason = _code(earlier.description) == _code(status.description)
    pause_sec = _DETAIL_EVERY_SEC if same_reason else _REASON_EVERY_SEC
    return earlier.description != status.description and now - earlier.at >= pause_sec


def _code(description: str) -> str:
    """Return the reason's code from a description, or "" from an empty one. The code also determines the state."""
    return re.split("[ :]", description)[0]
