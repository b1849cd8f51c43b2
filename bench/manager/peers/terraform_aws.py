"""terraform-aws-github-runner: a webhook, a delayed queue, and one request to a fleet in the zones of one region.

Modelled on github-aws-runners/terraform-aws-github-runner@4475534:

- `variables.tf`: `delay_webhook_event` 30 s; the queue shows a message again after `runners_scale_up_lambda_timeout`,
  30 s (`main.tf`, `visibility_timeout_seconds`); messages live 24 h.
- `scale-runners/scale-up.ts`: the message stays in the queue at the maximum, and after a fleet error in `scale_errors`,
  such as InsufficientInstanceCapacity. For ephemeral runners it does not check if the job is still queued
  (`modules/runners/main.tf`, `enable_job_queued_check`).
- `aws/ec2/src/control-plane/runners.ts`: with `enable_runner_on_demand_failover_for_errors` the request is repeated at
  once for on-demand machines. By default that list is empty.
- `scale-runners/job-retry.ts`: if enabled, a job that is still queued after 300 s is sent again.
- `scale-runners/scale-down.ts`: every 5 minutes idle runners are removed if their machine is older than 5 minutes.
- A job whose machine was preempted is not run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..availability import Place
from ..world import FLEET_ANSWER_SEC, QUEUE_LIMIT_SEC, Job, Policy, World

_DELAY_SEC, _VISIBILITY_SEC, _JOB_RETRY_SEC = 30.0, 30.0, 300.0
_SCALE_DOWN_EVERY_SEC, _LEAST_AGE_SEC = 300.0, 300.0


@dataclass(frozen=True)
class Settings:
    """The settings of a deployment."""

    spot: Sequence[Place]
    standard: Sequence[Place]
    """Empty without the failover to on-demand machines."""
    maximum: int
    job_retry: bool = False
    queued_check: bool = False


class TerraformAws(Policy):
    def __init__(self, world: World, settings: Settings) -> None:
        super().__init__(world)
        self.settings = settings

    def begin(self) -> None:
        self.world.after(_SCALE_DOWN_EVERY_SEC, self._scale_down)

    def queued(self, job: Job) -> None:
        arrived = self.world.now
        self.world.after(_DELAY_SEC, lambda: self._scale_up(job, arrived, retries=0))

    def _scale_up(self, job: Job, arrived: float, retries: int) -> None:
        if self.settings.queued_check and job.status != "queued":
            return
        if len(self.world.alive) >= self.settings.maximum:
            self._again(job, arrived, retries)
        else:
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, arrived, retries, self.settings.spot))

    def _fleet(self, job: Job, arrived: float, retries: int, places: Sequence[Place]) -> None:
        machine = next((made for place in places if (made := self.world.create(place))), None)
        if machine is None and places is self.settings.spot and self.settings.standard:
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, arrived, retries, self.settings.standard))
        elif machine is None:
            self._again(job, arrived, retries)
        elif self.settings.job_retry and retries == 0:
            self.world.after(_JOB_RETRY_SEC, lambda: self._retry(job, self.world.now))

    def _again(self, job: Job, arrived: float, retries: int) -> None:
        """Show the message in the queue again."""
        if self.world.now - arrived < QUEUE_LIMIT_SEC:
            self.world.after(_VISIBILITY_SEC, lambda: self._scale_up(job, arrived, retries))

    def _retry(self, job: Job, arrived: float) -> None:
        if job.status == "queued":
            self.world.after(_DELAY_SEC, lambda: self._scale_up(job, arrived, retries=1))

    def _scale_down(self) -> None:
        for machine in list(self.world.alive.values()):
            old = self.world.now - machine.created > _LEAST_AGE_SEC
            if machine.state == "idle" and old and self.world.unregister(machine):
                self.world.delete(machine)
        self.world.after(_SCALE_DOWN_EVERY_SEC, self._scale_down)
