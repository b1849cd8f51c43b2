"""Run every policy on the same histories, and print a table of the results.

make bench ARGS="--only manager"
make bench ARGS="--only manager --seeds 1 --days 2"
make bench ARGS="--only manager --traces spot-traces/availability/1-node/aws-02-15-2023"
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from . import arrivals, availability, report
from .availability import SHARES, Place, Series
from .ours import GpuCi
from .ours import Settings as OurSettings
from .peers.garm import Garm
from .peers.garm import Settings as GarmSettings
from .peers.google_cloud import GoogleCloud
from .peers.google_cloud import Settings as GoogleSettings
from .peers.runs_on import RunsOn
from .peers.runs_on import Settings as RunsOnSettings
from .peers.terraform_aws import Settings as AwsSettings
from .peers.terraform_aws import TerraformAws
from .prices import DISK_USD_PER_HOUR, usd_per_hour
from .report import Total
from .world import QUEUE_LIMIT_SEC, START_SEC, Policy, World

MAXIMUM = 16
STANDBY = 3
"""The number of stopped machines in the rows with standby, and in the pool of RunsOn. `standby.py` varies it."""
# Jobs of the last day may continue, or wait until GitHub cancels them.
_DRAIN_DAYS = 2
BOTH = ("spot", "standard")
REGIONS = tuple(dict.fromkeys(Place(zone, "").region for zone in SHARES))


class Row(NamedTuple):
    """A policy with its settings."""

    name: str
    markets: str
    """The markets in which the policy buys."""
    make: Callable[[str], Callable[[World], Policy]]
    """Creates the policy for a region."""
    ours: bool = False
    """True for the policy of gpu-ci."""
    keeps_machines: bool = False
    """True if machines are started before jobs need them."""


@dataclass(frozen=True)
class Outcome:
    """The result of one policy on one history."""

    waits_sec: tuple[float, ...]
    """Seconds from the queueing of a job until a runner first starts it; a day for jobs that never started."""
    delays_sec: tuple[float, ...]
    """Seconds from the queue to the end without the job's own duration; a day for jobs that were never done."""
    jobs: int
    """The number of jobs without the cancelled ones."""
    done: int
    lost: int
    """Jobs whose machine was preempted and that were not run again."""
    expired: int
    """Jobs without a machine within a day."""
    reruns: int
    machine_hours: float
    """The hours in which machines were on."""
    usd: float
    """The cost of machines that were on, and of the disks of stopped machines."""
    disk_usd: float
    """The cost of the disks of stopped machines."""
    hours_done: float
    """The hours of completed jobs."""


def zones(region: str, market: str) -> tuple[Place, ...]:
    return tuple(Place(zone, market) for zone in SHARES if Place(zone, market).region == region)


def everywhere(region: str, market: str) -> tuple[Place, ...]:
    """Return the region's zones first, then those of the other regions."""
    others = [each for each in REGIONS if each != region]
    return tuple(place for each in (region, *others) for place in zones(each, market))


def ours(
    places: Callable[[str, str], tuple[Place, ...]], markets: Sequence[str], *, hint: bool = False, standby: int = 0
) -> Callable[[str], Callable[[World], Policy]]:
    """Return our policy with a rung for each place and market."""

    def of_region(region: str) -> Callable[[World], Policy]:
        ladder = tuple(place for market in markets for place in places(region, market))
        return lambda world: GpuCi(world, OurSettings(ladder, MAXIMUM, hint, standby))

    return of_region


def with_standby(count: int) -> tuple[Row, Row]:
    """Return our policy with this number of stopped machines, without and with the webhook's hint."""
    name = f"gpu-ci, three regions, standby {count}"
    hinted = ours(everywhere, BOTH, hint=True, standby=count)
    return (
        Row(name, "spot, standard", ours(everywhere, BOTH, standby=count), ours=True, keeps_machines=True),
        Row(
            f"{name}, hint",
            "spot, standard",
            hinted,
            ours=True,
            keeps_machines=True,
        ),
    )


def with_pool(count: int) -> Row:
    """Return RunsOn with a pool of this number of stopped machines."""
    return Row(f"RunsOn, pool of {count} stopped", "spot, standard", runs_on(count), keeps_machines=True)


def runs_on(stopped: int) -> Callable[[str], Callable[[World], Policy]]:
    """Return the policy of RunsOn with this number of stopped machines in its pool."""

    def of_region(region: str) -> Callable[[World], Policy]:
        settings = RunsOnSettings(zones(region, "spot"), zones(region, "standard"), stopped)
        return lambda world: RunsOn(world, settings)

    return of_region


def rows() -> tuple[Row, ...]:
    """Return all policies, ordered by the markets in which they buy."""

    def aws(failover: bool):
        def of_region(region: str) -> Callable[[World], Policy]:
            standard = zones(region, "standard") if failover else ()
            settings = AwsSettings(zones(region, "spot"), standard, MAXIMUM, job_retry=failover, queued_check=failover)
            return lambda world: TerraformAws(world, settings)

        return of_region

    def google(market: str):
        return lambda region: lambda world: GoogleCloud(world, GoogleSettings(zones(region, market)[0]))

    def garm(market: str):
        return lambda region: lambda world: Garm(world, GarmSettings(zones(region, market), MAXIMUM))

    return (
        Row("gpu-ci, one region", "spot", ours(zones, ["spot"]), ours=True),
        Row("gpu-ci, three regions", "spot", ours(everywhere, ["spot"]), ours=True),
        Row("terraform-aws-github-runner", "spot", aws(failover=False)),
        Row("google-cloud-github-runner", "spot", google("spot")),
        Row("GARM, a provider with spot", "spot", garm("spot")),
        Row("gpu-ci, one region", "spot, standard", ours(zones, BOTH), ours=True),
        Row("gpu-ci, three regions", "spot, standard", ours(everywhere, BOTH), ours=True),
        Row(
            "gpu-ci, three regions, hint",
            "spot, standard",
            ours(everywhere, BOTH, hint=True),
            ours=True,
        ),
        *with_standby(STANDBY),
        Row("terraform-aws-github-runner, failover", "spot, standard", aws(failover=True)),
        Row("RunsOn", "spot, standard", runs_on(0)),
        with_pool(STANDBY),
        Row("gpu-ci, one region", "standard", ours(zones, ["standard"]), ours=True),
        Row("google-cloud-github-runner", "standard", google("standard")),
        Row("GARM", "standard", garm("standard")),
    )


@dataclass(frozen=True)
class History:
    """The events that are the same for every policy."""

    places: dict[Place, Series]
    jobs: Sequence[arrivals.Arrival]
    seed: int
    days: int
    depth: int | None = None
    start_sec: tuple[float, float] = START_SEC


class Options(NamedTuple):
    """The options of the simulation."""

    seeds: int = 3
    days: int = 7
    traces: Path | None = None
    """The folder with recorded spot availability."""
    depth: int | None = None
    """The most machines of a place."""
    start_sec: tuple[float, float] = START_SEC


def histories(options: Options) -> Iterator[History]:
    """Return one history for each seed. Its capacity goes on for _DRAIN_DAYS after the last day with jobs."""
    days, all_days = options.days, options.days + _DRAIN_DAYS
    for number, seed in enumerate(range(1, options.seeds + 1)):
        if options.traces:
            places = availability.recorded(options.traces, all_days, number * days, seed)
        else:
            places = availability.synthetic(seed, all_days)
        yield History(places, arrivals.week(seed, days), seed, days, options.depth, options.start_sec)


def simulate(history: History, policy: Callable[[World], Policy]) -> World:
    """Return the world at the end of the history."""
    until = (history.days + _DRAIN_DAYS) * 86400.0
    world = World(history.places, history.jobs, until, history.seed, history.depth, history.start_sec)
    world.run(policy)
    return world


def outcome(world: World) -> Outcome:
    """Return the results of one history."""
    jobs = [job for job in world.jobs if job.status != "cancelled"]
    expired = [job for job in jobs if job.status in ("expired", "queued")]
    done = [job for job in jobs if job.status == "done"]
    hours = [machine.seconds_on(world.now) / 3600 for machine in world.machines]
    # Jobs of the last day may still run. The disks of the days after it do not count.
    last = max((math.ceil(job.arrival.created / 86400) for job in world.jobs), default=0) * 86400.0
    disk_usd = sum(machine.seconds_stopped(last) for machine in world.machines) / 3600 * DISK_USD_PER_HOUR
    return Outcome(
        waits_sec=tuple(
            QUEUE_LIMIT_SEC if job.began_at is None else job.began_at - job.arrival.created for job in jobs
        ),
        delays_sec=tuple(
            QUEUE_LIMIT_SEC if job.done_at is None else job.done_at - job.arrival.created - job.arrival.duration_sec
            for job in jobs
        ),
        jobs=len(jobs),
        done=len(done),
        lost=sum(job.status == "failed" for job in jobs),
        expired=len(expired),
        reruns=sum(job.reruns for job in world.jobs),
        machine_hours=sum(hours),
        usd=disk_usd + sum(on * usd_per_hour(machine.place) for on, machine in zip(hours, world.machines, strict=True)),
        disk_usd=disk_usd,
        hours_done=sum(job.arrival.duration_sec for job in done) / 3600,
    )


def total(row: Row, outcomes: Sequence[Outcome]) -> Total:
    """Return the medians, percentiles and sums of a row over these outcomes."""
    waits = sorted(wait for each in outcomes for wait in each.waits_sec)
    delays = sorted(delay for each in outcomes for delay in each.delays_sec)
    usd, hours = sum(each.usd for each in outcomes), sum(each.hours_done for each in outcomes)
    return Total(
        row.name,
        row.markets,
        row.ours,
        row.keeps_machines,
        statistics.median(waits),
        waits[int(0.95 * (len(waits) - 1))],
        waits[-1],
        statistics.median(delays),
        delays[int(0.95 * (len(delays) - 1))],
        sum(each.jobs for each in outcomes),
        sum(each.done for each in outcomes),
        sum(each.reruns for each in outcomes),
        sum(each.lost for each in outcomes),
        sum(each.expired for each in outcomes),
        sum(each.machine_hours for each in outcomes),
        usd,
        sum(each.disk_usd for each in outcomes),
        usd / hours,
    )


def simulate_row(row: Row, all_histories: Sequence[History]) -> dict[str, list[Outcome]]:
    """Return the results of each history in each region."""
    return {region: [outcome(simulate(history, row.make(region))) for history in all_histories] for region in REGIONS}


def bench_manager(options: Options, console: Console, out: Path | None = None) -> list[Total]:
    """Run every row on every history and region, print the table, and write it to `out`."""
    all_histories = list(histories(options))
    totals, regions = [], {}
    for row in rows():
        by_region = simulate_row(row, all_histories)
        totals.append(total(row, [each for found in by_region.values() for each in found]))
        regions[f"{row.name} ({row.markets})"] = {
            region: total(row, found)._asdict() for region, found in by_region.items()
        }
        console.print("  ".join(report.cells(totals[-1])))
    title = f"{options.seeds} histories of {options.days} days in each of {len(REGIONS)} regions"
    report.show(totals, title, console)
    if out:
        content = {
            "seeds": options.seeds,
            "days": options.days,
            "availability": "recorded" if options.traces else "synthetic",
            "depth": options.depth,
            "rows": [each._asdict() for each in totals],
            "regions": regions,
        }
        out.write_text(json.dumps(content, indent=1) + "\n")
    return totals
