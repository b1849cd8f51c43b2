"""Types and states of workflow runs, jobs and runners in the world. Times in a row are seconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

RUN = "github:rest/workflowRun:WorkflowRun"
JOB = "github:rest/job:Job"
RUNNER = "github:rest/runner:Runner"
STATUS = "github:rest/commitStatus:CommitStatus"

QUEUED, IN_PROGRESS, COMPLETED = "queued", "in_progress", "completed"
SUCCESS, FAILURE, CANCELLED = CONCLUSIONS = ("success", "failure", "cancelled")
DEFAULT_GROUP_ID = 1


@dataclass(frozen=True)
class Step:
    """One `run` step of a job."""

    name: str
    run: str


@dataclass(frozen=True)
class Definition:
    """The definition of a job in a workflow file."""

    name: str
    labels: tuple[str, ...]
    steps: tuple[Step, ...]


def run_status(jobs: Sequence[dict[str, Any]]) -> str:
    """Return the status of a run with these latest jobs."""
    statuses = {job["status"] for job in jobs}
    if statuses == {COMPLETED}:
        return COMPLETED
    # GitHub does not document the status of a run whose jobs have different statuses. Here it is in progress as soon as
    # one job has started.
    if IN_PROGRESS in statuses or {QUEUED, COMPLETED} <= statuses:
        return IN_PROGRESS
    return QUEUED


def run_conclusion(jobs: Sequence[dict[str, Any]], *, cancelled: bool) -> str:
    """Return the conclusion of a completed run. GitHub does not document how the conclusions of jobs are combined."""
    conclusions = {job["conclusion"] for job in jobs}
    if cancelled and conclusions != {SUCCESS}:
        return CANCELLED
    return next((one for one in (FAILURE, CANCELLED) if one in conclusions), SUCCESS)
