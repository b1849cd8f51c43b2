"""GARM: webhooks write to a database, and the loops of pools read it every few seconds.

Modelled on cloudbase/garm@afda4e7 and cloudbase/garm-provider-gcp@720492a:

- `database/sql/controller.go`: `MinimumJobAgeBackoff` 30 s; younger jobs are left to idle runners.
- `runner/common/pool.go`: the loops run every 5 s, and the scale-down loop every minute.
- `runner/pool/pool.go`, `consumeQueuedJobs`: each unlocked job gets a runner. The lock is removed after 10 minutes, and
  the job gets another runner. `retryFailedInstances`: a failed machine is requested five times in total.
  `scaleDownOnePool`: half of the idle runners that no job needs are removed.
- The provider's `regional_placement`: Google selects a zone of one region with capacity. It sets no provisioning model,
  so it buys only standard machines. The row with spot machines shows GARM's loops with a provider that buys them.
- One pool: several pools with one label do not help, because a stockout comes after the assignment of the job.
- A job whose machine was preempted is not run again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..availability import Place
from ..world import INSERT_ANSWER_SEC, WEBHOOK_SEC, Job, Policy, World

_LOOP_SEC, _SCALE_DOWN_SEC = 5.0, 60.0
_YOUNG_SEC, _UNLOCK_SEC = 30.0, 600.0
_MOST_ATTEMPTS = 5


@dataclass(frozen=True)
class Settings:
    """The settings of a deployment."""

    places: Sequence[Place]
    """The zones of one region that its pool may use."""
    maximum: int


class Garm(Policy):
    def __init__(self, world: World, settings: Settings) -> None:
        super().__init__(world)
        self.settings = settings
        self._pending = 0
        """The number of machines that are being created. GARM counts failed ones for longer; the model does not."""

    def begin(self) -> None:
        self.world.after(_SCALE_DOWN_SEC, self._scale_down)

    def queued(self, job: Job) -> None:
        self.world.at(self._next_loop(job.queued_at + WEBHOOK_SEC + _YOUNG_SEC), lambda: self._consume(job))

    def _next_loop(self, when: float) -> float:
        return math.ceil(when / _LOOP_SEC) * _LOOP_SEC

    def _consume(self, job: Job) -> None:
        if job.status != "queued":
            return
        if len(self.world.alive) + self._pending >= self.settings.maximum:
            # No pool has room. The job is unlocked, and the next loop tries again.
            self.world.after(_LOOP_SEC, lambda: self._consume(job))
            return
        self._pending += 1
        # Another loop with the same period of 5 s sends the request.
        self.world.after(_LOOP_SEC / 2 + INSERT_ANSWER_SEC, lambda: self._create(1))
        self.world.at(self._next_loop(self.world.now + _UNLOCK_SEC), lambda: self._consume(job))

    def _create(self, attempt: int) -> None:
        if any(self.world.create(place) for place in self.settings.places) or attempt >= _MOST_ATTEMPTS:
            self._pending -= 1
        else:
            self.world.after(_LOOP_SEC + INSERT_ANSWER_SEC, lambda: self._create(attempt + 1))

    def _scale_down(self) -> None:
        idle = [machine for machine in self.world.alive.values() if machine.state == "idle"]
        surplus = len(idle) - len(self.world.waiting)
        for machine in idle[: math.ceil(surplus / 2)] if surplus > 0 else []:
            if self.world.unregister(machine):
                self.world.delete(machine)
        self.world.after(_SCALE_DOWN_SEC, self._scale_down)
