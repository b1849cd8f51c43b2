"""The number of series of the manager's metrics: no id becomes a label."""

from __future__ import annotations

from dataclasses import replace

from gpu_manager.decision.decide import decide
from gpu_manager.loop import Event, PassResult
from gpu_manager.memory import Memory
from gpu_manager.metrics.measure import Meter
from gpu_manager.metrics.prometheus import Prometheus
from gpu_manager.model import JobKey
from prometheus_client import generate_latest

from tests.manager.test_decide import POOL, job, observe

LABELS = {"pool", "code", "state", "part", "conclusion", "reason", "team", "share", "le"}


def test_only_these_labels_exist() -> None:
    collectors = Prometheus().registry._collector_to_names
    assert {label for each in collectors for label in each._labelnames} <= LABELS  # type: ignore[attr-defined]
    assert len(collectors) > 10


def test_sixty_pools_and_two_hundred_repositories_stay_under_twenty_thousand_series() -> None:
    pools = [replace(POOL, name=f"pool-{number}") for number in range(60)]
    jobs = tuple(replace(job(), key=JobKey(f"example-org/repository-{number}", 10, number, 1)) for number in range(200))
    observation = observe(jobs=jobs, github_requests_left=1)
    events = [
        Event("insert-failed", f"{pool.name}-{number}", "none", pool.name, "no-capacity")
        for pool in pools
        for number in range(20)
    ]
    result = PassResult(observation, decide(pools, observation, Memory()), events)
    prometheus, meter = Prometheus(), Meter(pools)
    prometheus.add(pools)
    prometheus.take(meter, result, meter.take(result))
    lines = [line for line in generate_latest(prometheus.registry).decode().splitlines() if not line.startswith("#")]
    assert 2000 < len(lines) < 20_000
    assert 'gpu_ci_inserts_failed_total{code="no-capacity",pool="pool-59"} 20.0' in lines
