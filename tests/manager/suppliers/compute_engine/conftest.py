"""The supplier on a fake Compute Engine, and its requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from gpu_manager.decision.names import request_id
from gpu_manager.model import Insert, Job, JobKey, Machine, Offer, Pool
from gpu_manager.suppliers.compute_engine.supplier import ComputeEngine

from tests.manager.suppliers.compute_engine.fake_compute import PROJECT, TEMPLATE, ZONE, FakeCompute

RUNG = Offer(ZONE, "g2-standard-8", "spot", "nvidia-l4")
POOL = Pool("l4", PROJECT, TEMPLATE, (RUNG, replace(RUNG, zone="us-central1-b")), 4, frozenset({"gpu"}))
JOB = Job(JobKey("Example-Org/kernels.cu", 5, 55, 1), frozenset({"gpu"}), "queued", 0, workflow="CI (GPU)")
NOW = 1_795_600_000.0


def wanted(name: str = "l4-0a1b2c3d", **rung: Any) -> Insert:
    chosen = replace(RUNG, **rung)
    return Insert("l4", name, chosen, JOB, request_id(name, chosen.zone))


@dataclass
class Google:
    api: FakeCompute
    manager: ComputeEngine
    now: list[float]

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Return the machines with what they have said."""
        return self.manager.channel.listen(self.manager.list(pools))

    def made(self, **rung: Any) -> dict[str, Any]:
        """Return the body of an insert on this rung."""
        insert = wanted(**rung)
        self.manager.start(POOL, insert)
        body: dict[str, Any] = self.api.machines[insert.rung.zone, insert.machine]["body"]
        return body


@pytest.fixture
def google() -> Google:
    api, now = FakeCompute(), [0.0]
    return Google(api, ComputeEngine("staging", api, monotonic=lambda: now[0]), now)
