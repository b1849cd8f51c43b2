"""The memory: facts that the manager stores between two passes, because neither GitHub nor Google reports them again.

A pass is one round of the manager (loop.py). A manager that loses its memory loses time and money, but no job. It finds
its machines by their labels, and starts each wait from zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter

from .model import End, Job, JobKey, Offer, RunKey


@dataclass
class Cooldown:
    """A place (zone, machine type and market) that had no capacity for a machine, and the end of its pause."""

    until: float
    stockouts: int
    """The number of consecutive failures."""
    zones_available: tuple[str, ...] = ()
    """The zones that Google's answer named as available."""


@dataclass
class StoppedPool:
    """A template from which no more machines are created, because the next one would fail like this one."""

    template: str
    machine: str
    reason: str
    detail: str


def _known_fields(offer: Any) -> Any:
    """Return a stored offer without the fields of a later version, which its model would refuse."""
    known = {each.name for each in fields(Offer)}
    return {name: each for name, each in offer.items() if name in known} if isinstance(offer, Mapping) else offer


@dataclass
class Pending:
    """An insert or a start of a machine without a known result. It is stored before the request is sent."""

    pool: str
    rung: Annotated[Offer, BeforeValidator(_known_fields)]
    job: Job | None
    """The job of the machine; None for a machine that is made for standby."""
    request_id: str
    since: float
    is_start: bool = False
    """True for the start of a stopped machine."""
    operation: str = ""
    """Google's name of the operation; empty while the answer to the request is unknown."""
    done_since: float | None = None
    """When the operation ended without an error, while no list contains the machine yet."""
    id: str = ""
    """Google's id of the machine; empty while the answer to the request is unknown."""


@dataclass
class MachineMemory:
    """The facts about one machine that still exists. The decision modules call it the machine's entry."""

    pool: str
    first_seen: float
    """When a list first contained the machine. For a machine that waited for capacity, when it got the capacity."""
    id: str = ""
    """Google's id of the machine; empty if it is not known yet."""
    waits_for: str = ""
    """The slug of the machine's job (names.slug) while the machine is PENDING. Google then looks for capacity, and
    deletes the machine if it finds no capacity.
    """
    zone: str = ""
    """The machine's zone while the machine is PENDING."""
    runner_group: str = ""
    """The runner group of its pool, also after the pool was removed from the configuration. Empty if the pool was never
    in it.
    """
    boot_sec: float = 0.0
    """The bootSec of its pool."""
    idle_sec: float = 0.0
    """The idleSec of its pool."""
    registered: bool = False
    """True if GitHub has listed its runner."""
    missing_since: float | None = None
    """When its registered runner was first missing from GitHub's list."""
    running_since: float | None = None
    """When Google first listed it as RUNNING. The agent's deadlines count from this time."""
    idle_since: float | None = None
    """When GitHub first listed its runner as idle."""
    offline_since: float | None = None
    """When GitHub first listed its idle runner as offline."""
    surplus_since: float | None = None
    """When the manager first found that no queued job needs the machine."""
    unregistered: bool = False
    """True if the manager registers its runner and has not sent the registration yet."""
    warm_sec: int = 0
    """Seconds that it may wait for a job in addition to boot_sec, since it was ready; 0 for a machine that does not."""
    condemned: bool = False
    """True if the manager has decided to delete the machine although it is on."""
    job: JobKey | None = None
    """The job that its runner took."""
    ran_another_job: bool = False
    """True if its runner took another job than the one for which the machine was started (machines.update)."""
    place: str = ""
    """Region and machine type. The manager counts preemptions by this key (Memory.preemptions)."""
    job_over: bool = False
    """True if the job in `job` had ended before a pass saw the preemption of the machine."""
    taken_back: bool = False
    """True if Google has preempted the machine and the preemption has been counted."""
    stopped_for_later: bool = False
    """True if the manager stops it, or has stopped it, to start it for a later job."""
    old_key: str = ""
    """The digest of the key that it published before it was stopped."""
    started_for: str = ""
    """The slug of the job for which it was last started from standby; empty in its first boot."""


@dataclass
class MachineHistory:
    """What the record of a machine needs (gpu_ci.machine_records), from the request until the record is stored."""

    machine: str
    pool: str
    zone: str
    machine_type: str
    market: str
    requested: float
    gpu: str = ""
    usd_per_hour: float | None = None
    template: str = ""
    """What it was made from (Machine.template)."""
    id: str = ""
    existed: bool = False
    """False until a list contains it with another status than PENDING, in which it waits for capacity."""
    on: list[tuple[float, float | None]] = field(default_factory=list)
    """The times during which it was on. The last one has no end while it is on."""
    is_estimated: bool = False
    """True if a time in `on` is that of the pass that saw the change."""
    runs: list[RunKey] = field(default_factory=list)
    """The runs that may contain its job: of its seen job, and of the jobs for which it was started."""
    reported: RunKey | None = None
    """The run that the machine named at its end. The author of a job can forge it."""
    job: Job | None = None
    """The job that a pass saw on it."""
    registered: bool = False
    """True if a pass saw its runner before it was gone."""
    taken_back: bool = False
    """True if the supplier preempted it."""
    end: End | None = None
    """The end that it reported since its last start."""
    earlier_end: End | None = None
    """The end that it reported before its last start."""
    gone: float = 0.0
    """When it was first missing from the list; 0 while the list contains it."""
    asked: float = 0.0
    """When the manager last asked GitHub for its job."""


@dataclass
class JobMemory:
    """The machines that were started for one attempt of a job."""

    inserts: int = 0
    """The number of all inserts; it numbers the machine names."""
    machines: int = 0
    """The number of inserts that Google did not refuse."""
    last_seen: float = 0
    queued_since: float = 0.0
    """When a pass first saw the job queued; 0 if no pool is for it."""


@dataclass
class StandbyMemory:
    """The machines that were created for a pool's standby."""

    made: int = 0
    """The number in the name of the last machine: the second when it was made, or one more than the previous number.

    A plain count would start again from 1 after a loss of the memory. Compute Engine would ignore those requests,
    because it has already carried them out.
    """
    unproven: int = 0
    """The number of machines that were created for standby since one of them last reached standby or got a runner.

    If it reaches the pool's standby, new machines seem to fail. `standby.refill` then pauses before each further one.
    """
    last_made: float = 0.0
    """When the last machine was created."""


@dataclass
class LostJob:
    """A job that failed because of its machine: Google preempted the machine, or its GPU failed."""

    key: JobKey
    pool: str
    since: float
    run_attempt: int
    """The run's attempt in which the job failed, or the attempt of the manager's own last rerun."""
    asked: float | None = None
    """When the manager last requested the rerun of the job; None if it has not requested one."""
    asks: int = 0
    """The number of requests for a rerun of the job."""
    waited_for: bool = False
    """True if GitHub still listed the job as running when its runner could no longer answer."""
    by_fault: bool = False
    """True if the GPU failed."""

    @property
    def run(self) -> RunKey:
        return RunKey(self.key.repository, self.key.run_id)


@dataclass
class GpuFault:
    """A job whose machine reported a fault of its GPU."""

    key: JobKey
    machine: str
    pool: str
    fault: str
    """The fault, such as `Xid 79`."""
    since: float
    failed: bool | None = None
    """True if the job failed, by GitHub's answer; None until its run has ended."""
    reported: bool = False
    """True if the commit has its check run, or if GitHub refuses it."""
    asked: float = 0.0
    """When the manager last requested the check run."""
    asks: int = 0
    """The number of requests."""

    @property
    def run(self) -> RunKey:
        return RunKey(self.key.repository, self.key.run_id)


@dataclass
class CancelledRun:
    """An attempt of a workflow run that the manager cancels."""

    run: RunKey
    attempt: int
    detail: str
    """The reason."""
    asked: float = 0.0
    """When the manager last requested the cancellation."""
    asks: int = 0
    """The number of requests."""
    code: str = "queue-timeout"
    """The code of the reason."""


@dataclass
class Registration:
    """A runner that the manager has requested from GitHub for a machine. The answer may have been lost."""

    machine_id: str
    asked: float
    """When the manager last requested the registration."""
    job: JobKey | None = None
    """The job whose run is the only one that the machine accepts; None if it accepts every job."""
    labels: frozenset[str] | None = None
    """The labels of the runner; None for those of its pool."""


@dataclass
class Memory:
    """The whole memory. The modules that use a key of type `str` have a function that makes the key."""

    begun: bool = False
    """False in a new memory, until one list of machines has contained every machine whose insert was pending. Until
    then the manager also reads the pending inserts (Supplier.starting).
    """
    pending: dict[str, Pending] = field(default_factory=dict)
    """Inserts and starts without a known result, by machine name."""
    cooldowns: dict[str, Cooldown] = field(default_factory=dict)
    """Places without capacity, by zone, machine type and market."""
    closed_quotas: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Quotas that are used up, by region, GPU and market: until when they count as used up, and Google's id of the
    quota.
    """
    preferred: dict[str, float] = field(default_factory=dict)
    """Places that Google named as available, and until when the manager prefers each of them."""
    preemptions: dict[str, list[float]] = field(default_factory=dict)
    """The times of preemptions, by region and machine type."""
    machines: dict[str, MachineMemory] = field(default_factory=dict)
    """Machines, by name."""
    jobs: dict[str, JobMemory] = field(default_factory=dict)
    """Jobs, by slug."""
    unassigned: dict[str, float] = field(default_factory=dict)
    """Jobs of a workflow to which GitHub did not assign the machine that was started for one of them, by repository,
    workflow and name. Until the time, no further machine is started for them.
    """
    lost: dict[str, LostJob] = field(default_factory=dict)
    """Jobs that lost their machine, by slug."""
    faults: dict[str, GpuFault] = field(default_factory=dict)
    """Jobs of the last day on machines whose GPU failed, by slug."""
    steady: dict[str, float] = field(default_factory=dict)
    """Runs that lost a job to a preemption, each with an end time. Until that time, while a job of the run waits, the
    pools that fit the job start no preemptible machine.
    """
    cancelled: dict[str, CancelledRun] = field(default_factory=dict)
    """Cancelled runs of the last day, by repository, run and attempt."""
    refusals: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Refused requests: until when they are not repeated, and the reason.

    The key is the pool if GitHub refuses its runners. It is the pool, region, machine type and market if Google refuses
    the machine.
    """
    stopped: dict[str, StoppedPool] = field(default_factory=dict)
    """Stopped pools, by template."""
    registrations: dict[str, Registration] = field(default_factory=dict)
    """Registrations, by machine name. An entry stays until the machine and its runner are gone."""
    standby: dict[str, StandbyMemory] = field(default_factory=dict)
    """Machines made for standby, by pool."""
    histories: dict[str, MachineHistory] = field(default_factory=dict)
    """The histories of requested and existing machines, by machine name."""
    ended: dict[str, MachineHistory] = field(default_factory=dict)
    """The histories of machines that are gone and whose record is not stored yet, by machine name and id."""


_ADAPTER = TypeAdapter(Memory)


def to_json(memory: Memory) -> bytes:
    """Return the memory in its stored form."""
    return _ADAPTER.dump_json(memory)


def from_json(content: bytes) -> Memory:
    """Return the memory from the stored form of this or an earlier version.

    Raises:
        ValueError: The content is not a memory.
    """
    return _ADAPTER.validate_json(content)
