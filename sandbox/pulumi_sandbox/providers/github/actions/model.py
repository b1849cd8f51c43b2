"""Workflow runs, jobs and runners, as rows of the world. Times in a row are seconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

RUN = "github:rest/workflowRun:WorkflowRun"
JOB = "github:rest/job:Job"
RUNNER = "github:rest/runner:Runner"
STATUS = "github:rest/commitStatus:CommitStatus"

QUEUED, IN_PROGRESS, COMPLETED, WAITING = "queued", "in_progress", "completed", "waiting"
SUCCESS, FAILURE, CANCELLED = CONCLUSIONS = ("success", "failure", "cancelled")
DEFAULT_GROUP_ID = 1


@dataclass(frozen=True)
class Step:
    """One `run` step of a job."""

    name: str
    run: str


@dataclass(frozen=True)
class Definition:
    """A job as a workflow file defines it."""

    name: str
    labels: tuple[str, ...]
    steps: tuple[Step, ...]
    waiting: bool = False
    """Whether its environment needs an approval first."""


def run_status(jobs: Sequence[dict[str, Any]]) -> str:
    """The status of a run whose latest jobs these are."""
    found = {job["status"] for job in jobs}
    if found == {COMPLETED}:
        return COMPLETED
    # GitHub does not document the status of a run whose jobs differ. One that has begun counts as in progress.
    if IN_PROGRESS in found or {QUEUED, COMPLETED} <= found:
        return IN_PROGRESS
    return QUEUED if QUEUED in found else WAITING


def run_conclusion(jobs: Sequence[dict[str, Any]], *, cancelled: bool) -> str:
    """The conclusion of a completed run. Which of several counts is not documented."""
    found = {job["conclusion"] for job in jobs}
    if cancelled and found != {SUCCESS}:
        return CANCELLED
    return next((one for one in (FAILURE, CANCELLED) if one in found), SUCCESS)
