"""Converts JSON from GitHub to the manager's types. GitHub's OpenAPI description defines the fields."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from ..model import Job, JobKey, NewRunner, Run, RunKey, Runner
from ..ports import Unavailable
from ..text import printable

Payload = dict[str, Any]
_T = TypeVar("_T")

WAITING_OR_RUNNING = ("queued", "waiting", "in_progress")
"""States of jobs that need a machine now or may need one later."""


def read(what: str, form: Callable[[], _T]) -> _T:
    """Return the result of `form`. Raises Unavailable if a field is missing or has another type."""
    try:
        return form()
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        problem = f"{what}: a field of GitHub's answer is missing or has another type: {type(error).__name__}: {error}"
        raise Unavailable(problem) from None


def job(found: Payload, repository: str, groups: frozenset[str] | None) -> Job:
    return Job(
        key=JobKey(repository, int(found["run_id"]), int(found["id"]), int(found.get("run_attempt", 1))),
        labels=frozenset(printable(label.lower()) for label in found["labels"]),
        status=found["status"],
        created_unix=_unix(found["created_at"]),
        conclusion=found["conclusion"] or "",
        runner_name=found["runner_name"] or "",
        name=printable(found["name"]),
        workflow=printable(found["workflow_name"] or ""),
        url=found["html_url"] or "",
        head_sha=found["head_sha"],
        started_unix=_unix(found["started_at"]) if found["status"] == "in_progress" else 0,
        runner_groups=groups,
    )


def runner(found: Payload) -> Runner:
    return Runner(int(found["id"]), str(found["name"]), found["status"] == "online", bool(found["busy"]))


def new_runner(found: Payload) -> NewRunner:
    config = found["encoded_jit_config"]
    if not isinstance(config, str) or not config:
        raise TypeError("encoded_jit_config")
    return NewRunner(int(found["runner"]["id"]), str(found["runner"]["name"]), config)


def run(found: Payload, key: RunKey, jobs: list[Payload]) -> Run:
    return Run(
        key=key,
        attempt=int(found["run_attempt"]),
        status=found["status"],
        conclusion=found["conclusion"] or "",
        created_unix=_unix(found["created_at"]),
        failed_jobs=tuple(int(each["id"]) for each in jobs if each["conclusion"] not in ("success", "skipped")),
    )


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
