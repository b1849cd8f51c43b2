"""The runner manager of gpu-ci and a model of RunsOn on the same histories: `make bench ARGS="--only manager"`.

gpu-ci: the real loop, decision and memory of the runner manager, with a simulated GitHub and Google. A machine
publishes its key after it has booted and checked its GPU. The manager reads keys as often as the real class allows, and
encrypts a real registration for the key.

RunsOn: runs-on.com/docs/costs/spot-pricing (spot first, standard seconds later), control-plane/housekeeping (an
interrupted job is run again once), runs-on/runs-on@3e98e5c cloudformation/template.yaml (`SpotCircuitBreaker` 2/15/30).
Its control plane is not public: what is not documented is assumed in its favour, such as a retry each minute. It has
our clouds and prices.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Collection, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from gpu_catalog.prices import price
from gpu_manager import model
from gpu_manager.cli.run_command import is_idle
from gpu_manager.compute.guest_attributes import MachineKeys
from gpu_manager.decision import names
from gpu_manager.github.rate_limits import RateLimits
from gpu_manager.loop import Manager
from gpu_manager.memory import Memory
from gpu_manager.model import End, Insert, InsertError, JobKey, Machine, NewRunner, OperationState, Pool, Rung, RunKey
from gpu_manager.ports import GithubView, Metadata
from rich.console import Console
from rich.table import Table

from tests.manager.machine_key import PRIVATE, certificate_of, published

from . import simulation
from .simulation import FLEET_ANSWER_SEC, INSERT_ANSWER_SEC, QUEUE_LIMIT_SEC, SHARES, Place, Policy, World

MACHINE_TYPE, MAXIMUM, STANDBY = "g2-standard-8", 16, 3
# Seconds of the requests of a pass, and from the registration to the online runner. Assumptions.
_PASS_SEC, _RUNNER_SEC = 2.0, 5.0
# The agent ends a machine whose runner gets no job (gpu_agent).
_IDLE_SEC = 900.0
_EPOCH = 1.7e9
_LABELS = frozenset({"self-hosted", "gpu", "l4"})


@cache
def usd_per_hour(place: Place) -> float:
    found = price(MACHINE_TYPE, place.region, place.market)
    assert found, f"the catalog has no {place.market} price of {MACHINE_TYPE} in {place.region}"
    return found.usd_per_hour


class GpuCi(Policy):
    """The runner manager of gpu-ci with one pool."""

    check_sec, idle_limit_sec, registers = simulation.CHECK_SEC, _IDLE_SEC, True

    def __init__(self, world: World, places: Sequence[Place], standby: int = 0) -> None:
        super().__init__(world)
        rungs = tuple(Rung(each.zone, MACHINE_TYPE, each.market, "nvidia-l4", usd_per_hour(each)) for each in places)
        pool = Pool(
            "l4", "acme-ci", "template", rungs, MAXIMUM, _LABELS, idle_sec=600, boot_sec=1200,
            registered_by="manager", standby=standby,
        )  # fmt: skip
        self._cloud, self._standby = _Compute(world), standby
        memory = SimpleNamespace(value=Memory())
        store: Any = SimpleNamespace(
            load=lambda: memory.value, save=lambda each: setattr(memory, "value", each), may_act=lambda: True
        )
        github: Any = _Github(world)
        self._manager = Manager([pool], github, self._cloud, store, lambda: _EPOCH + world.now)
        self._limits, self._pause_sec, self._acts = RateLimits(lambda: world.now), 0.0, True
        world.at(0, self._step)

    def _step(self) -> None:
        """Run a pass. Without jobs, and with stopped machines alone, a pass would do nothing."""
        only_stopped = [each.state for each in self._cloud.listed()] == ["stopped"] * self._standby
        if self._acts or self.world.active or not only_stopped:
            done = self._manager.step()
            memory = done.decision.memory
            self._acts = bool(done.decision.actions or memory.pending or memory.lost)
            self._pause_sec = self._limits.interval_sec(not is_idle(done)) + _PASS_SEC
        self.world.after(self._pause_sec, self._step)


class _Github:
    """GitHub, with the jobs of the simulation. Implements ports.Github."""

    def __init__(self, world: World) -> None:
        self._world = world

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        runners = tuple(
            model.Runner(each.number, _runner(each), each.state in ("idle", "busy"), each.state == "busy")
            for each in self._world.alive.values()
            if each.sealed
        )
        jobs = tuple(_job(each) for each in self._world.active.values())
        return GithubView(_EPOCH + self._world.now, jobs, runners, {key: self._run(key) for key in runs})

    def _run(self, key: RunKey) -> model.Run:
        job = self._world.jobs[key.run_id - 1]
        ended = job.status not in ("queued", "in_progress")
        status: model.RunStatus = "completed" if ended else "in_progress"
        failed = (_key(job).job_id,) if job.status == "failure" else ()
        return model.Run(key, job.attempt, status, job.status if ended else "", _EPOCH + job.created, failed)

    def register(self, pool: Pool, name: str) -> NewRunner:
        return NewRunner(int(name.rpartition("-")[2]), name, "the configuration of a runner")

    def remove_runner(self, runner: model.Runner | NewRunner) -> bool:
        machine = self._world.alive.get(runner.name.rpartition("-")[0])
        return machine is None or machine.state != "busy"

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        self._world.rerun(self._world.jobs[run.run_id - 1])


class _Compute:
    """Compute Engine, with the machines of the simulated cloud. Implements ports.Compute."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._operations: list[tuple[float, InsertError | None]] = []
        self._machines: dict[str, simulation.Machine] = {}
        self._labels: dict[str, str] = {}
        self._keys = MachineKeys(lambda: world.now)

    def listed(self) -> list[simulation.Machine]:
        """Return the machines. Google deletes a preempted machine, because its template requires it."""
        return [each for each in self._machines.values() if not (each.deleted or each.preempted)]

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return self._keys.with_keys([self._machine(each) for each in self.listed()], self._guest_attribute)

    def _machine(self, machine: simulation.Machine) -> Machine:
        (zone, market), end = machine.place, None
        is_new = self._world.now - machine.requested < INSERT_ANSWER_SEC
        status = "PROVISIONING" if is_new else "RUNNING"
        if machine.state in ("stopped", "off"):
            status, end = "TERMINATED", End("stopped" if machine.state == "stopped" else "job-done")
        elif machine.state == "stopping":
            status = "STOPPING"
        return Machine(
            machine.name, "l4", zone, status, market, MACHINE_TYPE, "template", end, job=self._labels[machine.name],
            id=str(machine.number), registered_by="manager", sealed=machine.sealed,
        )  # fmt: skip

    def _guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        """Return the last published value of the machine, which remains after a stop."""
        machine = self._machines[name]
        content = {"machine": _runner(machine), "certificate": _certificate(machine.ready)}
        return json.dumps(content) if machine.ready else ""

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        done_at, error = self._operations[int(operation)]
        return OperationState(True, error) if self._world.now >= done_at else OperationState(False, None)

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return ()

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        since = self._world.now - 3600
        return frozenset(each.name for each in self._machines.values() if each.preempted and each.ended > since)

    def insert(self, pool: Pool, insert: Insert) -> str:
        name = insert.machine
        self._labels[name] = names.slug(insert.job.key) if insert.job else names.STANDBY
        machine = self._world.create(Place(insert.rung.zone, insert.rung.market), name)
        if machine:
            self._machines[name] = machine
        return self._operation(machine is not None)

    def start(self, machine: Machine, request_id: str) -> str:
        return self._operation(self._world.start(self._machines[machine.name]))

    def _operation(self, worked: bool) -> str:
        """Create an operation whose answer comes later, with or without a machine."""
        error = None if worked else InsertError("no-capacity", "ZONE_RESOURCE_POOL_EXHAUSTED")
        self._operations.append((self._world.now + INSERT_ANSWER_SEC, error))
        return str(len(self._operations) - 1)

    def stop(self, machine: Machine) -> None:
        self._world.stop(self._machines[machine.name])

    def metadata(self, machine: Machine) -> Metadata:
        return Metadata("", {})

    def set_metadata(self, machine: Machine, read: Metadata, key: str, value: str) -> bool:
        listed = self._machines[machine.name]
        listed.sealed = True
        self._world.after(_RUNNER_SEC, lambda: self._world.register(listed))
        return True

    def delete(self, project: str, zone: str, name: str) -> None:
        self._world.end(self._machines[name], deleted=True)


@cache
def _certificate(boot: int) -> str:
    """Return the certificate of a boot, a different one for each boot. All machines share them, without an effect."""
    return published(certificate_of(PRIVATE, boot + 1))


def _runner(machine: simulation.Machine) -> str:
    """Return the name of a machine's runner. A runner has its machine's number."""
    return f"{machine.name}-{machine.number}"


def _key(job: simulation.Job) -> JobKey:
    return JobKey("acme/kernels", job.number, job.number * 10 + job.attempt, job.attempt)


def _job(job: simulation.Job) -> model.Job:
    running = job.machine.name if job.machine and job.status == "in_progress" else ""
    status: model.RunStatus = "queued" if job.status == "queued" else "in_progress"
    return model.Job(_key(job), _LABELS, status, _EPOCH + job.queued_at, runner_name=running)


class RunsOn(Policy):
    idle_limit_sec = 600.0
    queue_sec, again_sec, replace_sec = 1.0, 60.0, 30.0
    breaker_count, breaker_within_sec, breaker_open_sec = 2, 900.0, 1800.0

    def __init__(self, world: World, places: Sequence[Place]) -> None:
        super().__init__(world)
        self._places = places
        self._interrupted: list[float] = []
        self._spot_from = 0.0

    def queued(self, job: simulation.Job) -> None:
        self.world.after(self.queue_sec, lambda: self._launch(job, spot=job.attempt == 1))

    def _launch(self, job: simulation.Job, spot: bool) -> None:
        if job.status == "queued":
            spot = spot and self.world.now >= self._spot_from
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, spot))

    def _fleet(self, job: simulation.Job, spot: bool) -> None:
        market = "spot" if spot else "standard"
        if any(self.world.create(place) for place in self._places if place.market == market):
            return
        if spot:
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, spot=False))
        else:
            self.world.after(self.again_sec, lambda: self._launch(job, spot=True))

    def preempted(self, job: simulation.Job | None) -> None:
        now = self.world.now
        self._interrupted = [when for when in self._interrupted if now - when <= self.breaker_within_sec] + [now]
        if len(self._interrupted) >= self.breaker_count:
            self._spot_from = now + self.breaker_open_sec
        if job is None:  # the oldest waiting job has no machine now
            self.world.after(self.replace_sec, self._replace)

    def _replace(self) -> None:
        if self.world.waiting:
            self._launch(self.world.waiting[0], spot=True)

    def completed(self, job: simulation.Job) -> None:
        if job.status == "failure" and job.attempt == 1:
            self.world.rerun(job)


_DRAIN_DAYS = 2  # jobs of the last day may continue, or wait until GitHub cancels them
# docs.cloud.google.com/compute/disks-image-pricing: 100 GiB of a balanced disk, 730 hours a month. It counts while the
# machine is stopped. As in the catalog, disks of machines that are on do not count, for any policy.
_DISK_USD_PER_HOUR = 100 * 0.10 / 730
REGIONS = tuple(dict.fromkeys(Place(zone, "").region for zone in SHARES))
# Name -> the policy, from the places of a region and from those of all regions. All policies buy spot machines first,
# and standard machines after a stockout.
POLICIES: dict[str, Callable[[World, Sequence[Place], Sequence[Place]], Policy]] = {
    "gpu-ci, one region": lambda world, near, _: GpuCi(world, near),
    "gpu-ci, three regions": lambda world, _, everywhere: GpuCi(world, everywhere),
    f"gpu-ci, three regions, standby {STANDBY}": lambda world, _, everywhere: GpuCi(world, everywhere, STANDBY),
    "RunsOn": lambda world, near, _: RunsOn(world, near),
}


class Total(NamedTuple):
    """The results of a policy over all histories and regions."""

    median_sec: float
    p95_sec: float
    done: int
    jobs: int
    lost: int
    """Jobs whose machine was preempted and that were not run again."""
    usd_per_job_hour: float


def simulate(name: str, region: str, seed: int, days: int) -> World:
    """Return the world at the end of a history."""
    near_first = (region, *(each for each in REGIONS if each != region))
    everywhere = [
        place
        for market in ("spot", "standard")
        for each in near_first
        for place in (Place(zone, market) for zone in SHARES)
        if place.region == each
    ]
    near = [place for place in everywhere if place.region == region]
    all_days = days + _DRAIN_DAYS
    world = World(simulation.zones(seed, all_days), simulation.jobs(seed, days), all_days * 86400.0, seed)
    return world.run(lambda own: POLICIES[name](own, near, everywhere))


def total(worlds: Sequence[World], days: int) -> Total:
    """Return the numbers of a policy. A job that never began counts with a wait of a day."""
    jobs = [job for world in worlds for job in world.jobs if job.status != "cancelled"]
    waits = sorted(QUEUE_LIMIT_SEC if job.began_at is None else job.began_at - job.created for job in jobs)
    done = [job for job in jobs if job.status == "success"]
    usd = sum(
        machine.seconds_on(world.now) / 3600 * usd_per_hour(machine.place)
        + machine.seconds_stopped(days * 86400.0) / 3600 * _DISK_USD_PER_HOUR
        for world in worlds
        for machine in world.machines
    )
    lost = sum(job.status == "failure" for job in jobs)
    hours = sum(job.duration_sec for job in done) / 3600
    median, p95 = statistics.median(waits), waits[int(0.95 * (len(waits) - 1))]
    return Total(median, p95, len(done), len(jobs), lost, usd / hours)


def bench_manager(seeds: int, days: int, console: Console) -> None:
    """Simulate each policy on each history in each region, and print a row for each."""
    table = Table(
        "policy", "median wait", "95th percentile", "done", "lost", "USD per job hour",
        title=f"{seeds} histories of {days} days in each of {len(REGIONS)} regions",
    )  # fmt: skip
    for name in POLICIES:
        each = total([simulate(name, region, seed, days) for region in REGIONS for seed in range(1, seeds + 1)], days)
        table.add_row(
            name, f"{each.median_sec:.0f} s", f"{each.p95_sec:.0f} s", f"{each.done} of {each.jobs}", str(each.lost),
            f"{each.usd_per_job_hour:.3f}",
        )  # fmt: skip
        console.print(f"{name}: median wait {each.median_sec:.0f} s")
    console.print(table)
