"""The policy of gpu-ci: the real loop, decision and memory of the runner manager, with a simulated GitHub and Google.

The manager registers the runners, as by default (docs/adr/0026-the-manager-registers-runners.md). A machine publishes
its key after it has booted and checked its GPU. The manager reads keys as often as the real class allows, and encrypts
a real registration for the key.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from gpu_manager.cli.share_loop import is_idle
from gpu_manager.compute.machine_keys import MachineKeys
from gpu_manager.decision.names import STANDBY, slug
from gpu_manager.github.rate_limits import RateLimits
from gpu_manager.loop import Manager, PassResult
from gpu_manager.memory import Memory
from gpu_manager.model import (
    CommitStatus,
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
)
from gpu_manager.pauses import Pauses
from gpu_manager.ports import GithubView, Metadata

from . import world as simulated
from .availability import Place
from .prices import MACHINE_TYPE, usd_per_hour

# Seconds of one pass for requests to GitHub and Google; an assumption.
_PASS_SEC = 2.0
# Seconds from the accepted metadata to the online runner: the agent decrypts the registration, and the runner connects.
# An assumption.
_RUNNER_SEC = 5.0
# The agent ends a machine without a registration (gpu_agent/config.py), or with a runner that gets no job
# (gpu_agent/broker/registration.py adds 5 minutes to the pool's 10).
_REGISTER_SEC, _IDLE_SEC = 300.0, 900.0
_EPOCH = 1.7e9
_REPOSITORY, _LABELS = "acme/kernels", frozenset({"self-hosted", "gpu", "l4"})
_PREEMPTED_WITHIN_SEC = 3600.0


@dataclass(frozen=True)
class Settings:
    """The settings of a stack file."""

    places: Sequence[Place]
    """The rungs, in order."""
    maximum: int
    hint: bool = False
    """True if GitHub's webhook is received."""
    standby: int = 0
    """The number of stopped machines to keep."""


class GpuCi(simulated.Policy):
    """The runner manager of gpu-ci. Passes that would observe no change are skipped, to save time."""

    check_sec = simulated.CHECK_SEC
    idle_limit_sec = _IDLE_SEC

    def __init__(self, world: simulated.World, settings: Settings) -> None:
        super().__init__(world)
        self.settings = settings
        rungs = tuple(
            Rung(place.zone, MACHINE_TYPE, place.market, "nvidia-l4", usd_per_hour(place)) for place in settings.places
        )
        pool = Pool(
            "l4", "acme-ci", "template", rungs, settings.maximum, _LABELS, idle_sec=600, boot_sec=1200,
            registered_by="manager", standby=settings.standby,
        )  # fmt: skip
        self._cloud = _Compute(world)
        github = _Github(world, self._cloud)
        self._manager = Manager([pool], github, self._cloud, _Store(), lambda: _EPOCH + world.now)
        self._limits = RateLimits(lambda: world.now)
        self._last = 0.0
        self._interval_sec = 0.0
        self._asleep = False
        """True if no pass is scheduled until something changes."""
        self._idle_result: PassResult | None = None
        """The last pass, if the next passes would observe and do the same until something changes. None otherwise."""
        self._pauses = Pauses(lambda: world.now)
        self._next, self._due = 0, 0.0
        """The number and the time of the next pass. An earlier time replaces a later one."""

    def begin(self) -> None:
        self._step(self._next)

    def queued(self, job: simulated.Job) -> None:
        if self.settings.hint:
            self._pauses.hint()
            hinted = self.world.now + self._limits.hinted_interval_sec()
            if self._asleep or hinted < self._due:
                self._asleep = False
                self._schedule(hinted)

    def booted(self, machine: simulated.Machine) -> None:
        """Handle a machine that has published its key and waits for its registration."""
        self.world.after(_REGISTER_SEC, partial(self._cloud.end_unregistered, machine, machine.boots))

    def changed(self) -> None:
        """Resume the passes that were skipped because nothing could have changed."""
        self._idle_result = None
        if self._asleep:
            self._asleep = False
            self._sleep_until(self.world.now)

    def _sleep_until(self, when: float) -> None:
        """Schedule the first pass from that time on, at the regular interval."""
        passes = max(math.ceil((when - self._last) / self._interval_sec), 1)
        self._schedule(self._last + passes * self._interval_sec)

    def _schedule(self, when: float) -> None:
        self._due = when
        self.world.at(when, partial(self._step, self._next))

    def _step(self, number: int) -> None:
        if number != self._next:
            return
        self._next += 1
        if self._idle_result and self._cloud.machines([]) == self._idle_result.observation.machines:
            # The keys were read, and no key is new. The rest of the pass would observe and do the same as before.
            self._last = self.world.now
            self._sleep_until(self.world.now)
            return
        done = self._manager.step()
        self._last = self.world.now
        active = self._pauses.hinted or not is_idle(done)
        self._interval_sec = self._limits.interval_sec(active) + _PASS_SEC
        quiet = _is_unchanging(done, self.settings.standby)
        tries = [reason.next_try - _EPOCH for reason in done.decision.reasons.values() if reason.next_try is not None]
        boots = any(machine.unregistered and not machine.off for machine in done.observation.machines or ())
        self._idle_result = done if quiet and not tries else None
        self._asleep = quiet and not boots
        if not self._asleep:
            self._sleep_until(self.world.now)
        elif tries:
            self._sleep_until(min(tries))


def _is_unchanging(done: PassResult, standby: int) -> bool:
    """Return True if further passes do the same until a job, a machine or the time of a next try changes.

    The decision also depends on times: of pending inserts and starts, lost jobs, idle runners, unneeded machines,
    places without capacity, and missing machines on standby. A boot ends before its deadline.
    """
    memory, machines = done.decision.memory, done.observation.machines or ()
    waits = done.decision.actions or memory.pending or memory.lost
    idle = any(not runner.busy for runner in done.observation.runners or ())
    surplus = any(entry.surplus_since is not None for entry in memory.machines.values())
    needed = set(done.decision.assigned.values())
    # Machines that are stopped, being stopped, or booting to be stopped.
    for_standby = [each for each in machines if memory.machines[each.name].stopped_for_later]
    for_standby += [
        each for each in machines if each.unregistered and each not in for_standby and each.name not in needed
    ]
    settled = all(each.status == "RUNNING" or each in for_standby for each in machines)
    return not waits and not idle and not surplus and settled and len(for_standby) >= standby


class _Store:
    def __init__(self) -> None:
        self._memory = Memory()

    def load(self) -> Memory:
        return self._memory

    def save(self, memory: Memory) -> None:
        self._memory = memory

    def may_act(self) -> bool:
        return True


class _Github:
    """GitHub, with the jobs of the simulation. Implements ports.Github."""

    def __init__(self, world: simulated.World, cloud: _Compute) -> None:
        self._world = world
        self._cloud = cloud

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        return GithubView(
            unix=_EPOCH + self._world.now,
            jobs=tuple(_job(each) for each in self._world.active.values()),
            runners=tuple(self._runners()),
            runs={key: self._run(key) for key in runs},
        )

    def _runners(self) -> Iterator[Runner]:
        for machine in self._world.alive.values():
            if number := self._cloud.runners.get(machine.name):
                online, busy = machine.state in ("idle", "busy"), machine.state == "busy"
                yield Runner(number, f"{machine.name}-{number}", online, busy)

    def _run(self, key: RunKey) -> Run:
        job = next(each for each in self._world.jobs if each.number == key.run_id)
        ended = job.status not in ("queued", "in_progress")
        conclusion = {"done": "success", "failed": "failure"}.get(job.status, "cancelled") if ended else ""
        failed = (_key(job).job_id,) if conclusion == "failure" else ()
        status = "completed" if ended else "in_progress"
        return Run(key, job.attempt, status, conclusion, _EPOCH + job.arrival.created, failed)

    def register(self, pool: Pool, name: str) -> NewRunner:
        return NewRunner(int(name.rpartition("-")[2]), name, "the configuration of a runner")

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        machine = self._world.alive.get(runner.name)
        return machine is None or self._world.unregister(machine)

    def commit_status(self, status: CommitStatus) -> None:
        raise AssertionError("this manager writes no commit statuses")

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        self._world.rerun(next(each for each in self._world.jobs if each.number == run.run_id))


class _Compute:
    """Compute Engine, with the machines of the simulated cloud. Implements ports.Compute."""

    def __init__(self, world: simulated.World) -> None:
        self._world = world
        self._operations: dict[str, tuple[float, InsertError | None]] = {}
        self._listed: dict[str, simulated.Machine] = {}
        self._ids: dict[str, int] = {}
        self._jobs: dict[str, str] = {}
        """The value of the label gpu-ci-job."""
        self._gone: dict[str, simulated.Machine] = {}
        self._keys = MachineKeys(lambda: world.now)
        self._requested_at: dict[str, float] = {}
        """When each machine was requested, by insert or start."""
        self.runners: dict[str, int] = {}
        """The runners of machines with a registration. A runner has its machine's number."""
        self._unregistered: set[str] = set()
        """Machines that ended because no registration came."""

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Return the machines. Google deletes a preempted machine, because its template requires it."""
        gone = [name for name, each in self._listed.items() if each.deleted or each.preempted]
        self._gone |= {name: self._listed.pop(name) for name in gone}
        return self._keys.with_keys([self._machine(each) for each in self._listed.values()], self._guest_attribute)

    def _machine(self, machine: simulated.Machine) -> Machine:
        end = None
        if machine.state == "stopped":
            status, end = "TERMINATED", End("stopped")
        elif machine.state == "off":
            status = "TERMINATED"
            end = End("not-registered" if machine.name in self._unregistered else "job-done")
        elif machine.state == "stopping":
            status = "STOPPING"
        elif self._world.now - self._requested_at[machine.name] < simulated.INSERT_ANSWER_SEC:
            status = "PROVISIONING"
        else:
            status = "RUNNING"
        zone, market = machine.place
        return Machine(
            machine.name, "l4", zone, status, market, MACHINE_TYPE, "template", end,
            job=self._jobs[machine.name], id=str(self._ids[machine.name]), registered_by="manager",
            sealed=machine.name in self.runners,
        )  # fmt: skip

    def _guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        """Return the last published value of the machine, which remains after a stop."""
        machine = self._listed[name]
        content = {"machine": f"{name}-{self._ids[name]}", "certificate": _certificate(machine.ready)}
        return json.dumps(content) if machine.ready else ""

    def end_unregistered(self, machine: simulated.Machine, boot: int) -> None:
        """Switch a machine off if its registration has not come in time, as its agent does."""
        if machine.state == "ready" and machine.boots == boot and machine.name not in self.runners:
            self._unregistered.add(machine.name)
            self._world.end(machine)

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        done_at, error = self._operations[operation]
        done = self._world.now >= done_at
        return OperationState(done, error if done else None)

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return ()

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        now = self._world.now
        return frozenset(
            each.name
            for each in (*self._listed.values(), *self._gone.values())
            if each.preempted and each.ended is not None and now - each.ended < _PREEMPTED_WITHIN_SEC
        )

    def insert(self, pool: Pool, insert: Insert) -> str:
        name = insert.machine
        # Set before the insert, which may be visible at once.
        self._requested_at[name] = self._world.now
        self._jobs[name] = slug(insert.job.key) if insert.job else STANDBY
        self._ids[name] = len(self._ids) + 1
        machine = self._world.create(Place(insert.rung.zone, insert.rung.market), name)
        if machine:
            self._listed[name] = machine
        return self._operation(machine is not None)

    def start(self, machine: Machine, request_id: str) -> str:
        requested_before, self._requested_at[machine.name] = self._requested_at[machine.name], self._world.now
        started = self._world.start(self._listed[machine.name])
        if not started:
            self._requested_at[machine.name] = requested_before
        return self._operation(started)

    def _operation(self, worked: bool) -> str:
        """Create an operation whose answer comes later, with or without a machine."""
        error = None if worked else InsertError("no-capacity", "ZONE_RESOURCE_POOL_EXHAUSTED")
        operation = f"operation-{len(self._operations)}"
        self._operations[operation] = (self._world.now + simulated.INSERT_ANSWER_SEC, error)
        return operation

    def stop(self, machine: Machine) -> None:
        self._world.stop(self._listed[machine.name])

    def metadata(self, machine: Machine) -> Metadata:
        return Metadata("", {})

    def set_metadata(self, machine: Machine, read: Metadata, key: str, value: str) -> bool:
        listed = self._listed[machine.name]
        self.runners[machine.name] = int(machine.id)
        self._world.after(_RUNNER_SEC, lambda: self._world.register(listed))
        return True

    def delete(self, project: str, zone: str, name: str) -> None:
        self._world.delete(self._listed[name])


@cache
def _private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def _certificate(boot: int) -> str:
    """Return the certificate of a boot, a different one for each boot. All machines share them, which has no effect
    here.
    """
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gpu-agent")])
    builder = x509.CertificateBuilder(name, name, _private_key().public_key(), boot + 1)
    builder = builder.not_valid_before(datetime(2020, 1, 1, tzinfo=UTC)).not_valid_after(
        datetime(2020, 1, 3, tzinfo=UTC)
    )
    return base64.b64encode(builder.sign(_private_key(), SHA256()).public_bytes(Encoding.DER)).decode()


def _key(job: simulated.Job) -> JobKey:
    return JobKey(_REPOSITORY, job.number, job.number * 10 + job.attempt, job.attempt)


def _job(job: simulated.Job) -> Job:
    running = job.machine.name if job.machine and job.status == "in_progress" else ""
    status = "queued" if job.status == "queued" else "in_progress"
    return Job(_key(job), _LABELS, status, _EPOCH + job.queued_at, runner_name=running)
