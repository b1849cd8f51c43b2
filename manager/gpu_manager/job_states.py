"""What a pass says of each job that concerns the pools, for the log and for `gpu-ci manager status`."""

from __future__ import annotations

from typing import NamedTuple

from .loop import Pass
from .model import Job, Reason


class JobState(NamedTuple):
    """One job: it waits for a reason, has a machine that starts, or runs."""

    job: Job
    machine: str = ""
    """That starts for the job or runs it."""
    reason: Reason | None = None

    @property
    def runs(self) -> bool:
        return bool(self.job.runner_name)


def job_states(done: Pass) -> list[JobState]:
    """The jobs of the last sweep that wait for a machine of ours or run on one; none where the jobs are unknown."""
    names = {machine.name for machine in done.seen.machines or ()}
    covered, reasons = done.decision.covered, done.decision.reasons
    return [
        JobState(job, job.runner_name or covered.get(job.key, ""), reasons.get(job.key))
        for job in done.seen.jobs or ()
        if job.key in covered or job.key in reasons or job.runner_name in names
    ]
