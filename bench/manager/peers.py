"""The policies of two other runner managers, modelled on their code or documentation, with our clouds and prices.

terraform-aws-github-runner@4475534 (variables.tf, scale-up.ts, scale-down.ts, job-retry.ts): a webhook, a queue with a
delay, and one request for the zones of one region; standard machines after a spot stockout
(`enable_runner_on_demand_failover_for_errors`). A job whose machine was preempted is not run again.

RunsOn: runs-on.com/docs/costs/spot-pricing (spot first, standard seconds later), control-plane/housekeeping (an
interrupted job is run again once), runs-on/runs-on@3e98e5c cloudformation/template.yaml (`SpotCircuitBreaker` 2/15/30).
Its control plane is not public: what is not documented is assumed in its favour, such as a retry each minute.
"""

from __future__ import annotations

from collections.abc import Sequence

from .history import Place
from .world import FLEET_ANSWER_SEC, QUEUE_LIMIT_SEC, Job, Policy, World


class TerraformAws(Policy):
    delay_sec, visibility_sec, retry_sec, scale_down_sec = 30.0, 30.0, 300.0, 300.0

    def __init__(self, world: World, spot: Sequence[Place], standard: Sequence[Place], maximum: int) -> None:
        super().__init__(world)
        self.markets, self.maximum = (spot, standard), maximum

    def begin(self) -> None:
        self.world.after(self.scale_down_sec, self._scale_down)

    def queued(self, job: Job) -> None:
        self.world.after(self.delay_sec, lambda: self._scale_up(job, retry=True))

    def _scale_up(self, job: Job, retry: bool) -> None:
        if job.status == "queued" and len(self.world.alive) < self.maximum:
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, retry, *self.markets))
        elif job.status == "queued" and self.world.now - job.queued_at < QUEUE_LIMIT_SEC:
            self.world.after(self.visibility_sec, lambda: self._scale_up(job, retry))

    def _fleet(self, job: Job, retry: bool, places: Sequence[Place], *others: Sequence[Place]) -> None:
        if any(self.world.create(place) for place in places):
            if retry:
                self.world.after(self.retry_sec + self.delay_sec, lambda: self._scale_up(job, retry=False))
        elif others:
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, retry, *others))
        else:
            self.world.after(self.visibility_sec, lambda: self._scale_up(job, retry))

    def _scale_down(self) -> None:
        for machine in [each for each in self.world.alive.values() if each.state == "idle"]:
            if self.world.now - machine.created > self.scale_down_sec:
                self.world.end(machine, deleted=True)
        self.world.after(self.scale_down_sec, self._scale_down)


class RunsOn(Policy):
    idle_limit_sec = 600.0
    queue_sec, again_sec, replace_sec = 1.0, 60.0, 30.0
    breaker_count, breaker_within_sec, breaker_open_sec = 2, 900.0, 1800.0

    def __init__(self, world: World, spot: Sequence[Place], standard: Sequence[Place]) -> None:
        super().__init__(world)
        self.spot, self.standard = spot, standard
        self._interrupted: list[float] = []
        self._spot_from = 0.0

    def queued(self, job: Job) -> None:
        self.world.after(self.queue_sec, lambda: self._launch(job, spot=job.attempt == 1))

    def _launch(self, job: Job, spot: bool) -> None:
        if job.status == "queued":
            spot = spot and self.world.now >= self._spot_from
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, spot))

    def _fleet(self, job: Job, spot: bool) -> None:
        if any(self.world.create(place) for place in (self.spot if spot else self.standard)):
            return
        if spot:
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, spot=False))
        else:
            self.world.after(self.again_sec, lambda: self._launch(job, spot=True))

    def preempted(self, job: Job | None) -> None:
        now = self.world.now
        self._interrupted = [when for when in self._interrupted if now - when <= self.breaker_within_sec] + [now]
        if len(self._interrupted) >= self.breaker_count:
            self._spot_from = now + self.breaker_open_sec
        if job is None:  # the oldest waiting job has no machine now
            waiting = self.world.waiting
            self.world.after(self.replace_sec, lambda: waiting and self._launch(waiting[0], spot=True))

    def completed(self, job: Job) -> None:
        if job.status == "failed" and job.attempt == 1:
            self.world.rerun(job)
