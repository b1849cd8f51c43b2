"""Converts JSON from GitHub to the manager's types. GitHub's OpenAPI description defines the fields."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from gpu_ci.machine_records import JobOfMachine

from ..model import Job, JobKey, NewRunner, RanJob, Run, RunKey, Runner, printable
from .rest_client import FailedAnswer

Payload = dict[str, Any]
_T = TypeVar("_T")

WAITING_OR_RUNNING = ("queued", "waiting", "in_progress")
"""States of jobs that need a machine now or may need one later."""


def read(subject: str, convert: Callable[[], _T]) -> _T:
    """Return the result of `convert`, which reads GitHub's answer about this subject.

    Raises FailedAnswer if a field is missing or has another type.
    """
    try:
        return convert()
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        problem = (
            f"{subject}: a field of GitHub's answer is missing or has another type: {type(error).__name__}: {error}"
        )
        raise FailedAnswer(problem) from None


class ListedRun(NamedTuple):
    """A workflow run, as far as it decides if its jobs are read, and which runner groups they may use."""

    ended: bool
    in_progress: bool
    created: str
    """When it was created, in GitHub's form, which sorts by time."""
    workflows: frozenset[str]
    """The workflow files that may define its jobs, in lower case as owner/repo/path@ref with each form of the ref. The
    ref is empty if it is not known.
    """
    event: str
    head_sha: str
    head_branch: str
    repository: str
    head_repository: str
    """The repository of its commit, as owner/name; empty if that is deleted."""
    is_own: bool
    """True if its commit is in the repository itself, so that the author has write access."""

    @property
    def approved_as(self) -> tuple[object, ...]:
        """The fields that decide about its approval. All workflows of a commit have the same."""
        return self.repository, self.event, self.head_repository, self.head_branch, self.head_sha, self.is_own


# The ref of the workflow is a branch or a tag for these events, and refs/pull/… for a pull request
# (docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows, GITHUB_REF).
_BRANCH_EVENTS = ("push", "schedule", "workflow_dispatch")
_PULL_REQUEST_EVENTS = ("pull_request", "pull_request_review", "pull_request_review_comment")


def listed_run(payload: Payload, repository: str) -> ListedRun:
    branch, event = str(payload.get("head_branch") or ""), str(payload.get("event") or "")
    refs = [""]
    if event in _BRANCH_EVENTS:
        refs = [branch, f"refs/heads/{branch}", f"refs/tags/{branch}", payload["head_sha"]]
    elif event in _PULL_REQUEST_EVENTS:
        refs = []
    file = str(payload.get("path") or "").partition("@")[0]
    head, base = payload.get("head_repository") or {}, payload.get("repository") or {}
    # A reusable workflow defines jobs of the run too. Its ref is compared by GitHub only.
    called = [str(each["path"]).partition("@")[0] + "@" for each in payload.get("referenced_workflows") or ()]
    return ListedRun(
        ended=payload["status"] == "completed",
        in_progress=payload["status"] == "in_progress",
        created=str(payload["created_at"]),
        workflows=frozenset(each.lower() for each in [*called, *(f"{repository}/{file}@{ref}" for ref in refs)]),
        event=printable(event),
        head_sha=str(payload.get("head_sha") or ""),
        head_branch=branch,
        repository=repository,
        head_repository=str(head.get("full_name") or ""),
        is_own=bool(head.get("id")) and head.get("id") == base.get("id"),
    )


class Group(NamedTuple):
    """A runner group."""

    id: int
    name: str
    visibility: str
    allows_public_repositories: bool
    workflows: frozenset[str] | None
    """The only workflows that may use it, in the form of ListedRun.workflows, also without the ref. None for all."""

    def allows(self, run: ListedRun) -> bool:
        return self.workflows is None or not self.workflows.isdisjoint(run.workflows)


def group(payload: Payload) -> Group:
    selected = [str(each).lower() for each in payload.get("selected_workflows") or ()]
    return Group(
        id=int(payload["id"]),
        name=str(payload["name"]),
        visibility=str(payload["visibility"]),
        allows_public_repositories=bool(payload["allows_public_repositories"]),
        workflows=frozenset([*selected, *(each.partition("@")[0] + "@" for each in selected)])
        if payload.get("restricted_to_workflows")
        else None,
    )


class Repository(NamedTuple):
    """A repository that may use a runner group."""

    full_name: str
    private: bool
    archived: bool


def repository(payload: Payload) -> Repository:
    return Repository(str(payload["full_name"]), bool(payload["private"]), bool(payload.get("archived")))


def job(payload: Payload, repository: str) -> Job | int | None:
    """Return a job that waits or runs, the id of another job that did not succeed, or None."""
    if payload["status"] not in WAITING_OR_RUNNING:
        return None if payload["conclusion"] in ("success", "skipped") else int(payload["id"])
    return Job(
        key=JobKey(repository, int(payload["run_id"]), int(payload["id"]), int(payload.get("run_attempt", 1))),
        labels=frozenset(printable(label.lower()) for label in payload["labels"]),
        status=payload["status"],
        created_unix=_unix(payload["created_at"]),
        conclusion=payload["conclusion"] or "",
        runner_name=payload["runner_name"] or "",
        runner_id=payload["runner_id"] or 0,
        name=printable(payload["name"]),
        workflow=printable(payload["workflow_name"] or ""),
        url=payload["html_url"] or "",
        started_unix=_unix(payload["started_at"]) if payload["status"] == "in_progress" else 0,
    )


def ran_job(payload: Payload, repository: str) -> RanJob | None:
    """Return a job that a runner has started, or None."""
    if not payload["runner_name"] or not payload["started_at"]:
        return None
    job = JobOfMachine.of_github(payload, repository)
    job = job.model_copy(update={"workflow": printable(job.workflow), "name": printable(job.name)})
    return RanJob(str(payload["runner_name"]), job)


def runner(payload: Payload) -> Runner:
    labels = frozenset(str(each["name"]).lower() for each in payload["labels"]) if "labels" in payload else None
    return Runner(
        int(payload["id"]), str(payload["name"]), payload["status"] == "online", bool(payload["busy"]), labels
    )


def new_runner(payload: Payload) -> NewRunner:
    # Of the REST API, or of the service of scale sets.
    config = payload.get("encodedJITConfig") or payload["encoded_jit_config"]
    if not isinstance(config, str) or not config:
        raise TypeError("encoded_jit_config")
    return NewRunner(int(payload["runner"]["id"]), str(payload["runner"]["name"]), config)


def run(payload: Payload, key: RunKey, failed_jobs: tuple[int, ...]) -> Run:
    return Run(
        key=key,
        attempt=int(payload["run_attempt"]),
        status=payload["status"],
        conclusion=payload["conclusion"] or "",
        created_unix=_unix(payload["created_at"]),
        failed_jobs=failed_jobs,
    )


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
