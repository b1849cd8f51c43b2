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

import base64
import json
import statistics
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
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

from . import simulation
from .simulation import FLEET_ANSWER_SEC, QUEUE_LIMIT_SEC, SHARES, Place, Policy, World

MACHINE_TYPE = "g2-standard-8"
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

    check_sec, idle_limit_sec = simulation.CHECK_SEC, _IDLE_SEC

    def __init__(self, world: World, places: Sequence[Place], maximum: int, standby: int = 0) -> None:
        super().__init__(world)
        rungs = tuple(Rung(each.zone, MACHINE_TYPE, each.market, "nvidia-l4", usd_per_hour(each)) for each in places)
        pool = Pool(
            "l4", "acme-ci", "template", rungs, maximum, _LABELS, idle_sec=600, boot_sec=1200,
            registered_by="manager", standby=standby,
        )  # fmt: skip
        self._cloud, self._standby = _Compute(world), standby
        memory = SimpleNamespace(value=Memory())
        store: Any = SimpleNamespace(
            load=lambda: memory.value, save=lambda each: setattr(memory, "value", each), may_act=lambda: True
        )
        github: Any = _Github(world, self._cloud)
        self._manager = Manager([pool], github, self._cloud, store, lambda: _EPOCH + world.now)
        self._limits, self._pause_sec, self._acts = RateLimits(lambda: world.now), 0.0, True

    def begin(self) -> None:
        self._step()

    def booted(self, machine: simulation.Machine) -> None:
        """Do nothing: a pass registers the runner."""

    def _step(self) -> None:
        """Run a pass. Without jobs, and with stopped machines alone, a pass would do nothing."""
        if self._acts or self.world.active or not self._cloud.has_only_stopped(self._standby):
            done = self._manager.step()
            memory = done.decision.memory
            self._acts = bool(done.decision.actions or memory.pending or memory.lost)
            self._pause_sec = self._limits.interval_sec(not is_idle(done)) + _PASS_SEC
        self.world.after(self._pause_sec, self._step)


class _Github:
    """GitHub, with the jobs of the simulation. Implements ports.Github."""

    def __init__(self, world: simulation.World, cloud: _Compute) -> None:
        self._world, self._cloud = world, cloud

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        runners = tuple(
            model.Runner(number, f"{each.name}-{number}", each.state in ("idle", "busy"), each.state == "busy")
            for each in self._world.alive.values()
            if (number := self._cloud.runners.get(each.name))
        )
        jobs = tuple(_job(each) for each in self._world.active.values())
        return GithubView(_EPOCH + self._world.now, jobs, runners, {key: self._run(key) for key in runs})

    def _run(self, key: RunKey) -> model.Run:
        job = self._world.jobs[key.run_id - 1]
        ended = job.status not in ("queued", "in_progress")
        conclusion = {"done": "success", "failed": "failure"}.get(job.status, "cancelled") if ended else ""
        failed = (_key(job).job_id,) if conclusion == "failure" else ()
        status = "completed" if ended else "in_progress"
        return model.Run(key, job.attempt, status, conclusion, _EPOCH + job.arrival.created, failed)

    def register(self, pool: Pool, name: str) -> NewRunner:
        return NewRunner(int(name.rpartition("-")[2]), name, "the configuration of a runner")

    def remove_runner(self, runner: model.Runner | NewRunner) -> bool:
        machine = self._world.alive.get(runner.name.rpartition("-")[0])
        return machine is None or machine.state != "busy"

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        self._world.rerun(self._world.jobs[run.run_id - 1])


class _Compute:
    """Compute Engine, with the machines of the simulated cloud. Implements ports.Compute."""

    def __init__(self, world: simulation.World) -> None:
        self._world = world
        self._operations: list[tuple[float, InsertError | None]] = []
        self._machines: dict[str, simulation.Machine] = {}
        self._ids: dict[str, int] = {}
        self._jobs: dict[str, str] = {}
        self._keys = MachineKeys(lambda: world.now)
        self._requested_at: dict[str, float] = {}
        self.runners: dict[str, int] = {}
        """The runners of machines with a registration. A runner has its machine's number."""

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Return the machines. Google deletes a preempted machine, because its template requires it."""
        listed = [each for each in self._machines.values() if not (each.deleted or each.preempted)]
        return self._keys.with_keys([self._machine(each) for each in listed], self._guest_attribute)

    def has_only_stopped(self, count: int) -> bool:
        listed = [each.state for each in self._machines.values() if not (each.deleted or each.preempted)]
        return listed == ["stopped"] * count

    def _machine(self, machine: simulation.Machine) -> Machine:
        name, (zone, market) = machine.name, machine.place
        end = None
        if machine.state in ("stopped", "off"):
            status, end = "TERMINATED", End("stopped" if machine.state == "stopped" else "job-done")
        elif machine.state == "stopping":
            status = "STOPPING"
        else:
            is_new = self._world.now - self._requested_at[name] < simulation.INSERT_ANSWER_SEC
            status = "PROVISIONING" if is_new else "RUNNING"
        return Machine(
            name, "l4", zone, status, market, MACHINE_TYPE, "template", end, job=self._jobs[name],
            id=str(self._ids[name]), registered_by="manager", sealed=name in self.runners,
        )  # fmt: skip

    def _guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        """Return the last published value of the machine, which remains after a stop."""
        machine = self._machines[name]
        content = {"machine": f"{name}-{self._ids[name]}", "certificate": _certificate(machine.ready)}
        return json.dumps(content) if machine.ready else ""

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        done_at, error = self._operations[int(operation)]
        return OperationState(True, error) if self._world.now >= done_at else OperationState(False, None)

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return ()

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        since = self._world.now - 3600
        machines = self._machines.values()
        return frozenset(each.name for each in machines if each.preempted and (each.ended or 0) > since)

    def insert(self, pool: Pool, insert: Insert) -> str:
        name = insert.machine
        self._requested_at[name] = self._world.now  # before the insert, which may be visible at once
        self._jobs[name] = names.slug(insert.job.key) if insert.job else names.STANDBY
        self._ids[name] = len(self._ids) + 1
        machine = self._world.create(Place(insert.rung.zone, insert.rung.market), name)
        if machine:
            self._machines[name] = machine
        return self._operation(machine is not None)

    def start(self, machine: Machine, request_id: str) -> str:
        before, self._requested_at[machine.name] = self._requested_at[machine.name], self._world.now
        started = self._world.start(self._machines[machine.name])
        if not started:
            self._requested_at[machine.name] = before
        return self._operation(started)

    def _operation(self, worked: bool) -> str:
        """Create an operation whose answer comes later, with or without a machine."""
        error = None if worked else InsertError("no-capacity", "ZONE_RESOURCE_POOL_EXHAUSTED")
        self._operations.append((self._world.now + simulation.INSERT_ANSWER_SEC, error))
        return str(len(self._operations) - 1)

    def stop(self, machine: Machine) -> None:
        self._world.stop(self._machines[machine.name])

    def metadata(self, machine: Machine) -> Metadata:
        return Metadata("", {})

    def set_metadata(self, machine: Machine, read: Metadata, key: str, value: str) -> bool:
        listed = self._machines[machine.name]
        self.runners[machine.name] = int(machine.id)
        self._world.after(_RUNNER_SEC, lambda: self._world.register(listed))
        return True

    def delete(self, project: str, zone: str, name: str) -> None:
        self._world.end(self._machines[name], deleted=True)


@cache
def _private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def _certificate(boot: int) -> str:
    """Return the certificate of a boot, a different one for each boot. All machines share them, without an effect."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gpu-agent")])
    builder = x509.CertificateBuilder(name, name, _private_key().public_key(), boot + 1)
    builder = builder.not_valid_before(datetime(2020, 1, 1, tzinfo=UTC)).not_valid_after(
        datetime(2020, 1, 3, tzinfo=UTC)
    )
    return base64.b64encode(builder.sign(_private_key(), SHA256()).public_bytes(Encoding.DER)).decode()


def _key(job: simulation.Job) -> JobKey:
    return JobKey("acme/kernels", job.number, job.number * 10 + job.attempt, job.attempt)


def _job(job: simulation.Job) -> model.Job:
    running = job.machine.name if job.machine and job.status == "in_progress" else ""
    status = "queued" if job.status == "queued" else "in_progress"
    return model.Job(_key(job), _LABELS, status, _EPOCH + job.queued_at, runner_name=running)


class RunsOn(Policy):
    idle_limit_sec = 600.0
    queue_sec, again_sec, replace_sec = 1.0, 60.0, 30.0
    breaker_count, breaker_within_sec, breaker_open_sec = 2, 900.0, 1800.0

    def __init__(self, world: World, spot: Sequence[Place], standard: Sequence[Place]) -> None:
        super().__init__(world)
        self.spot, self.standard = spot, standard
        self._interrupted: list[float] = []
        self._spot_from = 0.0

    def queued(self, job: simulation.Job) -> None:
        self.world.after(self.queue_sec, lambda: self._launch(job, spot=job.attempt == 1))

    def _launch(self, job: simulation.Job, spot: bool) -> None:
        if job.status == "queued":
            spot = spot and self.world.now >= self._spot_from
            self.world.after(FLEET_ANSWER_SEC, lambda: self._fleet(job, spot))

    def _fleet(self, job: simulation.Job, spot: bool) -> None:
        if any(self.world.create(place) for place in (self.spot if spot else self.standard)):
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
            waiting = self.world.waiting
            self.world.after(self.replace_sec, lambda: waiting and self._launch(waiting[0], spot=True))

    def completed(self, job: simulation.Job) -> None:
        if job.status == "failed" and job.attempt == 1:
            self.world.rerun(job)


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
    f"gpu-ci, three regions, standby {STANDBY}": lambda world, region: GpuCi(
        world, _everywhere(region), MAXIMUM, STANDBY
    ),
    "RunsOn": lambda world, region: RunsOn(world, _places(region, "spot"), _places(region, "standard")),
}


def _everywhere(region: str) -> tuple[Place, ...]:
    return _ladder(region, *(each for each in REGIONS if each != region))


def simulate(name: str, region: str, seed: int, days: int) -> World:
    """Return the world at the end of a history."""
    all_days = days + _DRAIN_DAYS
    world = World(simulation.zones(seed, all_days), simulation.jobs(seed, days), all_days * 86400.0, seed)
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
