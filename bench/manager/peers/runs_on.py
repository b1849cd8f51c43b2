"""RunsOn: a webhook starts a spot machine in any zone of a region, and an on-demand machine where there is none.

RunsOn's control plane is closed. This model follows what it documents, and where the documentation is silent it takes
what is best for RunsOn:

- runs-on.com/docs/costs/spot-pricing: spot first, on-demand where spot is unavailable, 2 to 3 s later.
- runs-on/runs-on@3e98e5c `cloudformation/template.yaml`, `SpotCircuitBreaker` 2/15/30: after two interruptions within
  15 minutes no spot machine for 30 minutes.
- runs-on.com/docs/control-plane/housekeeping: a job whose spot machine was interrupted is run again once; a machine
  that was lost before its job began is replaced; idle machines end after 10 minutes.
- Not documented: the rerun asks for an on-demand machine; where both markets are out, RunsOn asks again each minute;
  there is no maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..availability import Place
from ..world import FLEET_ANSWER_SEC, Job, Machine, Policy, World

_QUEUE_SEC, _AGAIN_SEC, _REPLACE_SEC = 1.0, 60.0, 30.0
_BREAKER_COUNT, _BREAKER_WITHIN_SEC, _BREAKER_OPEN_SEC = 2, 900.0, 1800.0
_RERUNS = 1


@dataclass(frozen=True)
class Settings:
    """What a deployment chooses."""

    spot: Sequence[Place]
    standard: Sequence[Place]


@dataclass
class _Breaker:
    times: list[float] = field(default_factory=list)
    open_until: float = 0.0

    def interrupted(self, now: float) -> None:
        self.times = [when for when in self.times if now - when <= _BREAKER_WITHIN_SEC] + [now]
        if len(self.times) >= _BREAKER_COUNT:
            self.open_until = now + _BREAKER_OPEN_SEC


class RunsOn(Policy):
    idle_limit_sec = 600.0

    def __init__(self, world: World, settings: Settings) -> None:
        super().__init__(world)
        self.settings = settings
        self._breaker = _Breaker()

    def queued(self, job: Job) -> None:
        self.world.after(_QUEUE_SEC, lambda: self._launch(job, spot=job.attempt == 1))

    def _launch(self, job: Job, spot: bool) -> None:
        if job.status == "queued":
            spot = spot and self.world.now >= self._breaker.open_until
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, spot))

    def _fleet(self, job: Job, spot: bool) -> None:
        places = self.settings.spot if spot else self.settings.standard
        if any(self.world.create(place) for place in places):
            return
        if spot:
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, spot=False))
        else:
            self.world.after(_AGAIN_SEC, lambda: self._launch(job, spot=True))

    def taken_back(self, machine: Machine, job: Job | None) -> None:
        self._breaker.interrupted(self.world.now)
        if job is None:
            # Any job may have been meant; the oldest one that waits has no machine now.
            self.world.after(_REPLACE_SEC, self._replace)

    def _replace(self) -> None:
        if self.world.waiting:
            self._launch(self.world.waiting[0], spot=True)

    def completed(self, job: Job, machine: Machine | None) -> None:
        if job.status == "failed" and job.reruns < _RERUNS:
            self.world.rerun(job)
