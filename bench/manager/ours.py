"""The policy of gpu-ci: the real loop, decision and memory of the runner manager, with a simulated GitHub and Google.

A machine publishes its key after it has booted and checked its GPU. The manager reads keys as often as the real class
allows, and encrypts a real registration for the key.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from gpu_catalog.prices import price
from gpu_manager.cli.run_command import Pauses, is_idle
from gpu_manager.compute.guest_attributes import MachineKeys
from gpu_manager.decision.names import STANDBY, slug
from gpu_manager.github.rate_limits import RateLimits
from gpu_manager.loop import Manager, PassResult
from gpu_manager.memory import Memory
from gpu_manager.model import (
    End,
    Insert,
    InsertError,
    Job,
    JobKey,
    Machine,
    NewRunner,
    OperationState,
    Pool,
    Run,
    Rung,
    RunKey,
    Runner,
)  # fmt: skip
from gpu_manager.ports import GithubView, Metadata

from . import world as simulated
from .history import Place

MACHINE_TYPE = "g2-standard-8"
# Seconds of the requests of a pass, and from the registration to the online runner. Assumptions.
_PASS_SEC, _RUNNER_SEC = 2.0, 5.0
# The agent ends a machine without a registration, or with a runner that gets no job (gpu_agent).
_REGISTER_SEC, _IDLE_SEC = 300.0, 900.0
_EPOCH = 1.7e9
_LABELS = frozenset({"self-hosted", "gpu", "l4"})


@cache
def usd_per_hour(place: Place) -> float:
    found = price(MACHINE_TYPE, place.region, place.market)
    assert found, f"the catalog has no {place.market} price of {MACHINE_TYPE} in {place.region}"
    return found.usd_per_hour


class GpuCi(simulated.Policy):
    """The runner manager of gpu-ci. Passes that would observe no change are skipped, to save time."""

    check_sec, idle_limit_sec = simulated.CHECK_SEC, _IDLE_SEC

    def __init__(
        self, world: simulated.World, places: Sequence[Place], maximum: int, standby: int = 0, hint: bool = False
    ) -> None:
        """Create the manager of one pool. `hint` is the webhook."""
        super().__init__(world)
        rungs = tuple(Rung(each.zone, MACHINE_TYPE, each.market, "nvidia-l4", usd_per_hour(each)) for each in places)
        pool = Pool(
            "l4", "acme-ci", "template", rungs, maximum, _LABELS, idle_sec=600, boot_sec=1200,
            registered_by="manager", standby=standby,
        )  # fmt: skip
        self._cloud, self._hint, self._standby = _Compute(world), hint, standby
        memory = SimpleNamespace(value=Memory())
        store: Any = SimpleNamespace(
            load=lambda: memory.value, save=lambda each: setattr(memory, "value", each), may_act=lambda: True
        )
        github: Any = _Github(world, self._cloud)
        self._manager = Manager([pool], github, self._cloud, store, lambda: _EPOCH + world.now)
        self._limits, self._pauses = RateLimits(lambda: world.now), Pauses(lambda: world.now)
        self._last, self._interval_sec, self._due, self._next, self._asleep = 0.0, 0.0, 0.0, 0, False

    def begin(self) -> None:
        self._step(self._next)

    def queued(self, job: simulated.Job) -> None:
        if self._hint:
            self._pauses.hint()
            if self._asleep or self.world.now + self._limits.hinted_interval_sec() < self._due:
                self._schedule(self.world.now + self._limits.hinted_interval_sec())

    def booted(self, machine: simulated.Machine) -> None:
        self.world.after(_REGISTER_SEC, partial(self._cloud.end_unregistered, machine, machine.boots))

    def changed(self) -> None:
        if self._asleep:
            self._wake(self.world.now)

    def _wake(self, when: float) -> None:
        """Schedule the first pass from that time on, at the regular interval."""
        self._schedule(self._last + max(math.ceil((when - self._last) / self._interval_sec), 1) * self._interval_sec)

    def _schedule(self, when: float) -> None:
        self._due, self._next, self._asleep = when, self._next + 1, False
        self.world.at(when, partial(self._step, self._next))

    def _step(self, number: int) -> None:
        if number != self._next:
            return
        done = self._manager.step()
        self._last = self.world.now
        self._interval_sec = self._limits.interval_sec(self._pauses.hinted or not is_idle(done)) + _PASS_SEC
        tries = [each.next_try - _EPOCH for each in done.decision.reasons.values() if each.next_try is not None]
        if not _is_unchanging(done, self._standby):
            self._wake(self.world.now)
        elif tries:
            self._wake(min(tries))
        else:
            self._asleep = True


def _is_unchanging(done: PassResult, standby: int) -> bool:
    """Return True if further passes do the same until a job, a machine or the time of a next try changes."""
    memory, machines = done.decision.memory, done.observation.machines or ()
    busy = done.decision.actions or memory.pending or memory.lost
    idle = any(not runner.busy for runner in done.observation.runners or ())
    surplus = any(entry.surplus_since is not None for entry in memory.machines.values())
    stopped = [each for each in machines if memory.machines[each.name].stopped_for_later]
    settled = all(each in stopped or (each.status == "RUNNING" and not each.unregistered) for each in machines)
    return not busy and not idle and not surplus and settled and len(stopped) >= standby


class _Github:
    """GitHub, with the jobs of the simulation. Implements ports.Github."""

    def __init__(self, world: simulated.World, cloud: _Compute) -> None:
        self._world, self._cloud = world, cloud

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        runners = tuple(
            Runner(number, f"{each.name}-{number}", each.state in ("idle", "busy"), each.state == "busy")
            for each in self._world.alive.values()
            if (number := self._cloud.runners.get(each.name))
        )
        jobs = tuple(_job(each) for each in self._world.active.values())
        return GithubView(_EPOCH + self._world.now, jobs, runners, {key: self._run(key) for key in runs})

    def _run(self, key: RunKey) -> Run:
        job = self._world.jobs[key.run_id - 1]
        ended = job.status not in ("queued", "in_progress")
        conclusion = {"done": "success", "failed": "failure"}.get(job.status, "cancelled") if ended else ""
        failed = (_key(job).job_id,) if conclusion == "failure" else ()
        status = "completed" if ended else "in_progress"
        return Run(key, job.attempt, status, conclusion, _EPOCH + job.arrival.created, failed)

    def register(self, pool: Pool, name: str) -> NewRunner:
        return NewRunner(int(name.rpartition("-")[2]), name, "the configuration of a runner")

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        machine = self._world.alive.get(runner.name.rpartition("-")[0])
        return machine is None or machine.state != "busy"

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        self._world.rerun(self._world.jobs[run.run_id - 1])


class _Compute:
    """Compute Engine, with the machines of the simulated cloud. Implements ports.Compute."""

    def __init__(self, world: simulated.World) -> None:
        self._world = world
        self._operations: list[tuple[float, InsertError | None]] = []
        self._machines: dict[str, simulated.Machine] = {}
        self._ids: dict[str, int] = {}
        self._jobs: dict[str, str] = {}
        self._keys = MachineKeys(lambda: world.now)
        self._requested_at: dict[str, float] = {}
        self.runners: dict[str, int] = {}
        """The runners of machines with a registration. A runner has its machine's number."""
        self._unregistered: set[str] = set()

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Return the machines. Google deletes a preempted machine, because its template requires it."""
        listed = [each for each in self._machines.values() if not (each.deleted or each.preempted)]
        return self._keys.with_keys([self._machine(each) for each in listed], self._guest_attribute)

    def _machine(self, machine: simulated.Machine) -> Machine:
        name, (zone, market) = machine.name, machine.place
        end = None
        if machine.state in ("stopped", "off"):
            ended = "not-registered" if name in self._unregistered else "job-done"
            status, end = "TERMINATED", End("stopped" if machine.state == "stopped" else ended)
        elif machine.state == "stopping":
            status = "STOPPING"
        else:
            is_new = self._world.now - self._requested_at[name] < simulated.INSERT_ANSWER_SEC
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

    def end_unregistered(self, machine: simulated.Machine, boot: int) -> None:
        """Switch a machine off if its registration has not come in time, as its agent does."""
        if machine.state == "ready" and machine.boots == boot and machine.name not in self.runners:
            self._unregistered.add(machine.name)
            self._world.end(machine)

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
        self._jobs[name] = slug(insert.job.key) if insert.job else STANDBY
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
        self._operations.append((self._world.now + simulated.INSERT_ANSWER_SEC, error))
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


def _key(job: simulated.Job) -> JobKey:
    return JobKey("acme/kernels", job.number, job.number * 10 + job.attempt, job.attempt)


def _job(job: simulated.Job) -> Job:
    running = job.machine.name if job.machine and job.status == "in_progress" else ""
    status = "queued" if job.status == "queued" else "in_progress"
    return Job(_key(job), _LABELS, status, _EPOCH + job.queued_at, runner_name=running)
