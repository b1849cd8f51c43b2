"""Run every policy on the same histories, and print a table: `make bench ARGS="--only manager --seeds 1 --days 2"`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from . import history
from .history import SHARES, Place
from .ours import GpuCi, usd_per_hour
from .peers import RunsOn, TerraformAws
from .world import QUEUE_LIMIT_SEC, Policy, World

MAXIMUM, STANDBY = 16, 3
_DRAIN_DAYS = 2  # jobs of the last day may continue, or wait until GitHub cancels them
# docs.cloud.google.com/compute/disks-image-pricing: 100 GiB of a balanced disk, 730 hours a month. It counts while the
# machine is stopped. As in the catalog, disks of machines that are on do not count, for any policy.
_DISK_USD_PER_HOUR = 100 * 0.10 / 730
REGIONS = tuple(dict.fromkeys(Place(zone, "").region for zone in SHARES))


class Total(NamedTuple):
    """The results of a policy over all histories and regions."""

    policy: str
    median_sec: float
    p95_sec: float
    done: int
    jobs: int
    lost: int
    """Jobs whose machine was preempted and that were not run again."""
    usd_per_job_hour: float


def _places(region: str, market: str) -> tuple[Place, ...]:
    return tuple(Place(zone, market) for zone in SHARES if Place(zone, market).region == region)


def _ladder(*regions: str) -> tuple[Place, ...]:
    return tuple(place for market in ("spot", "standard") for region in regions for place in _places(region, market))


# Name -> the policy in a region. All of them buy spot machines first, and standard machines after a stockout.
POLICIES: dict[str, Callable[[World, str], Policy]] = {
    "gpu-ci, one region": lambda world, region: GpuCi(world, _ladder(region), MAXIMUM),
    "gpu-ci, three regions": lambda world, region: GpuCi(world, _everywhere(region), MAXIMUM),
    "gpu-ci, three regions, webhook": lambda world, region: GpuCi(world, _everywhere(region), MAXIMUM, hint=True),
    f"gpu-ci, three regions, standby {STANDBY}": lambda world, region: GpuCi(
        world, _everywhere(region), MAXIMUM, STANDBY
    ),
    "terraform-aws-github-runner": lambda world, region: TerraformAws(
        world, _places(region, "spot"), _places(region, "standard"), MAXIMUM
    ),
    "RunsOn": lambda world, region: RunsOn(world, _places(region, "spot"), _places(region, "standard")),
}


def _everywhere(region: str) -> tuple[Place, ...]:
    return _ladder(region, *(each for each in REGIONS if each != region))


def simulate(name: str, region: str, seed: int, days: int) -> World:
    """Return the world at the end of a history."""
    all_days = days + _DRAIN_DAYS
    world = World(history.zones(seed, all_days), history.jobs(seed, days), all_days * 86400.0, seed)
    return world.run(lambda own: POLICIES[name](own, region))


def total(name: str, worlds: Sequence[World], days: int) -> Total:
    """Return the numbers of a policy. A job that never began counts with a wait of a day."""
    jobs = [job for world in worlds for job in world.jobs if job.status != "cancelled"]
    waits = sorted(QUEUE_LIMIT_SEC if job.began_at is None else job.began_at - job.arrival.created for job in jobs)
    done = [job for job in jobs if job.status == "done"]
    usd = sum(
        machine.seconds_on(world.now) / 3600 * usd_per_hour(machine.place)
        + machine.seconds_stopped(days * 86400.0) / 3600 * _DISK_USD_PER_HOUR
        for world in worlds
        for machine in world.machines
    )
    lost = sum(job.status == "failed" for job in jobs)
    hours = sum(job.arrival.duration_sec for job in done) / 3600
    median, p95 = statistics.median(waits), waits[int(0.95 * (len(waits) - 1))]
    return Total(name, median, p95, len(done), len(jobs), lost, usd / hours)


def bench_manager(seeds: int, days: int, console: Console) -> None:
    """Simulate each policy on each history in each region, and print a row for each."""
    table = Table(
        "policy", "median wait", "95th percentile", "done", "lost", "USD per job hour",
        title=f"{seeds} histories of {days} days in each of {len(REGIONS)} regions",
    )  # fmt: skip
    for name in POLICIES:
        worlds = [simulate(name, region, seed, days) for region in REGIONS for seed in range(1, seeds + 1)]
        each = total(name, worlds, days)
        table.add_row(
            name, f"{each.median_sec:.0f} s", f"{each.p95_sec:.0f} s", f"{each.done} of {each.jobs}", str(each.lost),
            f"{each.usd_per_job_hour:.3f}",
        )  # fmt: skip
        console.print(f"{name}: median wait {each.median_sec:.0f} s")
    console.print(table)
