"""The control loop with the supplier for EC2, in worlds where everything can fail (tests/manager/test_histories.py)."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from gpu_manager.model import Pool
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manager import simulated_world
from tests.manager.dead_managers import killed_manager, reap_alone
from tests.manager.suppliers.ec2.conftest import ACCOUNT, SUBNETS
from tests.manager.suppliers.ec2.conftest import pool as ec2_pool
from tests.manager.suppliers.ec2.simulated import Ec2World, SimulatedEc2
from tests.manager.test_histories import POOLS, ends_well, history_in

_ZONES = dict(zip((*simulated_world.ZONES, "us-east1-b"), SUBNETS, strict=True))


def on_ec2(pool: Pool, *, standby: bool = False) -> Pool:
    """Return an equal pool on EC2, which has no flex-start there, and standby of standard machines only."""
    [offer] = ec2_pool().rungs
    rungs = tuple(
        replace(
            offer,
            zone=_ZONES[rung.zone],
            subnet=SUBNETS[_ZONES[rung.zone]],
            market="standard" if rung.market == "flex-start" else rung.market,
            usd_per_hour=rung.usd_per_hour,
            template=rung.template and "lt-0a1b2c3d4e5f60719:1",
        )
        for rung in pool.rungs
    )
    given = {"name": pool.name, "rungs": rungs, "max": pool.max, "labels": pool.labels}
    if standby and pool.standby:
        standard_first = tuple(sorted(rungs, key=lambda each: each.market != "standard"))
        given |= {"rungs": standard_first, "standby": pool.standby}
    return ec2_pool(**given, boot_sec=pool.boot_sec, idle_sec=pool.idle_sec, account=ACCOUNT)


# `make test-histories` runs 2,000.
@pytest.mark.slow
@settings(max_examples=int(os.environ.get("HISTORIES", "10")))
@given(st.integers(min_value=0, max_value=10**6))
def test_in_any_history_no_instance_is_left_doubled_or_deleted_with_its_job(seed: int) -> None:
    standby = seed % 2 == 1
    pools = [on_ec2(each, standby=standby) for each in POOLS]
    world = Ec2World(seed, pools, skew_sec=(-600.0, 0.0, 600.0)[seed % 3])
    # EC2 says no time of a stop.
    ends_well(history_in(world, SimulatedEc2), has_times=not standby)


@pytest.mark.slow
def test_if_the_manager_is_dead_from_any_request_on_the_reaper_alone_ends_all_instances() -> None:
    seed, reaps = 2, 0
    for last in range(1, 100_000, 3):
        world = Ec2World(seed, [on_ec2(each) for each in POOLS], skew_sec=(-600.0, 0.0, 600.0)[seed])
        if not killed_manager(world, SimulatedEc2, last):
            assert reaps > 15
            return
        reaps += bool(on(world))
        reap_alone(world, SimulatedEc2, lambda: bool(on(world)), (0.0, 0.3)[last % 2])  # noqa: B023
        assert on(world) == [], f"after the request {last}"


def on(world: Ec2World) -> list[str]:
    """Return the instances that cost money."""
    return [each.number for each in world.instances.values() if not each.vm.machine.off]
