"""RunsOn: a webhook starts a spot machine in any zone of a region, or an on-demand
machine if there is no spot capacity.

RunsOn's control plane is not public. This model follows its documentation. Undocumented behaviour is assumed in favour
of RunsOn:

- runs-on.com/docs/costs/spot-pricing: spot first, and 2 to 3 s later on-demand if spot is unavailable.
- runs-on/runs-on@3e98e5c `cloudformation/template.yaml`, `SpotCircuitBreaker` 2/15/30: after two interruptions within
  15 minutes no spot machine for 30 minutes.
- runs-on.com/docs/control-plane/housekeeping: a job whose spot machine was interrupted is run again once; a machine
  that was lost before its job began is replaced; idle machines end after 10 minutes.
- A pool of stopped machines: runs-on/runs-on@198953a `adrs/20250727-warm-pools.md`, and the page
  runs-on.com/docs/performance/warm-pools. Machines of pools are on-demand machines. A loop of 30 s creates missing
  machines and stops those that have booted. A machine that is started for a job leaves the pool. Without a stopped
  machine the job is served as without a pool.
- Not documented: a rerun requests an on-demand machine. Without capacity in both markets RunsOn repeats the request
  each minute. There is no maximum. If a stopped machine does not start, the job gets the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..availability import Place
from ..world import FLEET_ANSWER_SEC, Job, Machine, Policy, World

_QUEUE_SEC, _AGAIN_SEC, _REPLACE_SEC = 1.0, 60.0, 30.0
_BREAKER_COUNT, _BREAKER_WITHIN_SEC, _BREAKER_OPEN_SEC = 2, 900.0, 1800.0
_RERUNS = 1
_POOL_LOOP_SEC = 30.0


@dataclass(frozen=True)
class Settings:
    """The settings of a deployment."""

    spot: Sequence[Place]
    standard: Sequence[Place]
    stopped: int = 0
    """The number of stopped machines in its pool."""


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
        self._pool: list[Machine] = []
        """The pool without the machines that were started for a job."""

    def begin(self) -> None:
        if self.settings.stopped:
            self._rebalance()

    def _rebalance(self) -> None:
        """Run the loop of the pool."""
        self._pool = [machine for machine in self._pool if machine.state != "off"]
        for machine in self._pool:
            if machine.state == "ready":
                self.world.stop(machine)
        while len(self._pool) < self.settings.stopped and (made := self._create(self.settings.standard)):
            self._pool.append(made)
        self.world.after(_POOL_LOOP_SEC, self._rebalance)

    def _create(self, places: Sequence[Place]) -> Machine | None:
        return next((made for place in places if (made := self.world.create(place))), None)

    def booted(self, machine: Machine) -> None:
        # A machine of the pool has booted for standby, and `_rebalance` stops it.
        if machine not in self._pool:
            super().booted(machine)

    def queued(self, job: Job) -> None:
        self.world.after(_QUEUE_SEC, lambda: self._pick(job))

    def _pick(self, job: Job, failed: Sequence[Machine] = ()) -> None:
        """Start a stopped machine for the job, or launch a new one."""
        stopped = [machine for machine in self._pool if machine.state == "stopped" and machine not in failed]
        if job.status != "queued" or not stopped:
            self._launch(job, spot=job.attempt == 1)
        elif self.world.start(stopped[0]):
            self._pool.remove(stopped[0])
        else:
            self.world.after(FLEET_ANSWER_SEC, lambda: self._pick(job, [*failed, stopped[0]]))

    def _launch(self, job: Job, spot: bool) -> None:
        """Request a machine for the job, if the job still waits. The answer comes after FLEET_ANSWER_SEC."""
        if job.status == "queued":
            spot = spot and self.world.now >= self._breaker.open_until
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, spot))

    def _fleet(self, job: Job, spot: bool) -> None:
        """Create a machine in the first place with capacity. Without capacity, try the other market or wait."""
        places = self.settings.spot if spot else self.settings.standard
        if self._create(places):
            return
        if spot:
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, spot=False))
        else:
            self.world.after(_AGAIN_SEC, lambda: self._launch(job, spot=True))

    def preempted(self, machine: Machine, job: Job | None) -> None:
        self._breaker.interrupted(self.world.now)
        if job is None:
            # The machine could have been for any job. The oldest waiting job has no machine now.
            self.world.after(_REPLACE_SEC, self._replace)

    def _replace(self) -> None:
        if self.world.waiting:
            self._launch(self.world.waiting[0], spot=True)

    def completed(self, job: Job, machine: Machine | None) -> None:
        if job.status == "failed" and job.reruns < _RERUNS:
            self.world.rerun(job)
