"""Converts JSON from GitHub to the manager's types. GitHub's OpenAPI description defines the fields."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from ..model import Job, JobKey, NewRunner, Run, RunKey, Runner, printable
from ..ports import Unavailable

Payload = dict[str, Any]
_T = TypeVar("_T")

WAITING_OR_RUNNING = ("queued", "waiting", "in_progress")
"""States of jobs that need a machine now or may need one later."""


def read(subject: str, convert: Callable[[], _T]) -> _T:
    """Return the result of `convert`, which reads GitHub's answer about this subject.

    Raises Unavailable if a field is missing or has another type.
    """
    try:
        return convert()
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        problem = (
            f"{subject}: a field of GitHub's answer is missing or has another type: {type(error).__name__}: {error}"
        )
        raise Unavailable(problem) from None


def job(payload: Payload, repository: str, groups: frozenset[str]) -> Job:
    return Job(
        key=JobKey(repository, int(payload["run_id"]), int(payload["id"]), int(payload.get("run_attempt", 1))),
        labels=frozenset(printable(label.lower()) for label in payload["labels"]),
        status=payload["status"],
        created_unix=_unix(payload["created_at"]),
        conclusion=payload["conclusion"] or "",
        runner_name=payload["runner_name"] or "",
        name=printable(payload["name"]),
        workflow=printable(payload["workflow_name"] or ""),
        url=payload["html_url"] or "",
        head_sha=payload["head_sha"],
        started_unix=_unix(payload["started_at"]) if payload["status"] == "in_progress" else 0,
        runner_groups=groups,
    )


def runner(payload: Payload) -> Runner:
    return Runner(int(payload["id"]), str(payload["name"]), payload["status"] == "online", bool(payload["busy"]))


def new_runner(payload: Payload) -> NewRunner:
    config = payload["encoded_jit_config"]
    if not isinstance(config, str) or not config:
        raise TypeError("encoded_jit_config")
    return NewRunner(int(payload["runner"]["id"]), str(payload["runner"]["name"]), config)


def run(payload: Payload, key: RunKey, jobs: list[Payload]) -> Run:
    return Run(
        key=key,
        attempt=int(payload["run_attempt"]),
        status=payload["status"],
        conclusion=payload["conclusion"] or "",
        created_unix=_unix(payload["created_at"]),
        failed_jobs=tuple(int(each["id"]) for each in jobs if each["conclusion"] not in ("success", "skipped")),
    )


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
