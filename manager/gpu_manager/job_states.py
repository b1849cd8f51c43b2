"""The state of each job that concerns the pools, for the log and for `gpu-ci manager status`."""

from __future__ import annotations

from typing import NamedTuple

from .loop import PassResult
from .model import Job, Reason


class JobState(NamedTuple):
    """The state of one job: waiting for a reason, with a machine that starts, or running."""

    job: Job
    machine: str = ""
    """The name of the machine that starts for the job or runs it."""
    reason: Reason | None = None

    @property
    def runs(self) -> bool:
        return bool(self.job.runner_name)


def job_states(result: PassResult) -> list[JobState]:
    """Return the jobs of the last sweep that wait for a machine of the pools or run on one.

    The list is empty if the jobs are unknown.
    """
    names = {machine.name for machine in result.observation.machines or ()}
    assigned, reasons = result.decision.assigned, result.decision.reasons
    return [
        JobState(job, job.runner_name or assigned.get(job.key, ""), reasons.get(job.key))
        for job in result.observation.jobs or ()
        if job.key in assigned or job.key in reasons or job.runner_name in names
    ]
