"""The control loop with the supplier for Jarvis Labs, in worlds where everything can fail
(tests/manager/test_histories.py).
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from gpu_manager.model import Pool
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manager import simulated_world
from tests.manager.dead_managers import killed_manager, reap_alone
from tests.manager.histories import History
from tests.manager.simulated_world import BrokenRuleError
from tests.manager.suppliers.jarvislabs.conftest import pool as jarvis_pool
from tests.manager.suppliers.jarvislabs.simulated import JarvisWorld, Naive, SimulatedJarvisLabs
from tests.manager.test_histories import POOLS, ends_well, history_in

_ZONES = dict(zip(simulated_world.ZONES, ("IN1", "IN2", "EU1"), strict=True))


def rented(pool: Pool, reuse: int = 0) -> Pool:
    """Return an equal pool on Jarvis Labs, which has no spot VMs."""
    offer = jarvis_pool().rungs[0]
    rungs = tuple(replace(offer, zone=zone, usd_per_hour=0.4) for zone in _ZONES.values())
    given = {"name": pool.name, "max": pool.max, "labels": pool.labels, "standby": pool.standby}
    given |= {"reuse": reuse, "runner_group": "gpu"}
    return jarvis_pool(**given, rungs=rungs, boot_sec=pool.boot_sec, idle_sec=pool.idle_sec)


def world_of(seed: int, reuse: int = 0) -> JarvisWorld:
    """Return a world in which the second pool reuses its hosts."""
    pools = [rented(each, reuse * (number == 1)) for number, each in enumerate(POOLS)]
    return JarvisWorld(seed, pools, skew_sec=(-600.0, 0.0, 600.0)[seed % 3])


# `make test-histories` runs 2,000.
@pytest.mark.slow
@settings(max_examples=int(os.environ.get("HISTORIES", "10")))
@given(st.integers(min_value=0, max_value=10**6))
def test_in_any_history_no_vm_is_left_doubled_or_deleted_with_its_job(seed: int) -> None:
    ends_well(history_in(world_of(seed, (0, 2, 5)[seed // 3 % 3]), SimulatedJarvisLabs), has_times=False)


@pytest.mark.slow
def test_hosts_run_several_jobs_and_never_more_than_they_may() -> None:
    jobs = set()
    for seed in range(1, 9):
        world = world_of(seed, 2 + seed % 3)
        made = History(world, vendor=SimulatedJarvisLabs)
        for _ in range(8):
            world.queue({"gpu", "l4"}, 20)
            made.run(30)
            jobs |= {(world.pools[1].reuse, each.jobs + 1) for each in world.rented.values()}
        ends_well(made, has_times=False)
        assert {each.status for each in world.jobs.values()} == {"completed"}
    assert {(2, 2), (3, 3), (4, 4)} <= jobs
    assert all(count <= most for most, count in jobs)


@pytest.mark.slow
def test_a_supplier_that_repeats_a_lost_request_breaks_the_rules() -> None:
    broken = 0
    for seed in range(40):
        try:
            ends_well(history_in(world_of(seed), Naive), has_times=False)
        except BrokenRuleError as error:
            broken += "a second VM" in str(error)
    assert broken >= 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 4])
def test_if_the_manager_is_dead_from_any_request_on_the_reaper_alone_ends_all_vms(seed: int) -> None:
    reaps = 0
    for last in range(1, 100_000, 3):
        world = world_of(seed, 2 * (seed == 4))
        if not killed_manager(world, SimulatedJarvisLabs, last):
            assert reaps > 15
            return
        scripts = world.scripts
        reaps += bool(billed(world))
        reap_alone(world, SimulatedJarvisLabs, lambda: bool(billed(world)), (0.0, 0.3)[last % 2])  # noqa: B023
        assert (billed(world), world.scripts) == ([], scripts), f"after the request {last}"


def billed(world: JarvisWorld) -> list[str]:
    """Return the VMs whose GPUs the vendor bills."""
    return [each.row.name for each in world.rented.values() if each.seen.has_power]
