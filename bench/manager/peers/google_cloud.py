"""google-cloud-github-runner: one insert in one zone for each webhook, without later checks.

Modelled on Cyclenerd/google-cloud-github-runner@5ad8122:

- `app/services/webhook_service.py`: `queued` starts a machine within the webhook's request; `completed` deletes the
  machine in the payload. A job that was cancelled before its start names no machine (issue 26), so its machine waits
  for another job without a limit.
- `app/clients/gcloud_client.py`: one zone, from the environment. The insert's operation is not awaited, so a stockout
  is not noticed (issue 95).
- `gcp/compute-vm.tf` and `gcp/variables.tf`: Google deletes a machine after `github_runners_max_run_duration`.
- There is no maximum, no retry and no rerun.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..availability import Place
from ..world import INSERT_ANSWER_SEC, Job, Machine, Policy, World

_MAX_RUN_SEC = 5 * 86400.0 + 300


@dataclass(frozen=True)
class Settings:
    """The settings of a deployment."""

    place: Place


class GoogleCloud(Policy):
    def __init__(self, world: World, settings: Settings) -> None:
        super().__init__(world)
        self.settings = settings

    def queued(self, job: Job) -> None:
        self.world.after(INSERT_ANSWER_SEC, self._insert)

    def _insert(self) -> None:
        if machine := self.world.create(self.settings.place):
            self.world.after(_MAX_RUN_SEC, lambda: self.world.delete(machine))

    def completed(self, job: Job, machine: Machine | None) -> None:
        if machine and not machine.preempted:
            self.world.delete(machine)
