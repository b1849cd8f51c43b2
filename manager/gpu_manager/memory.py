"""What the manager remembers between passes, because neither GitHub nor Google could be asked for it again.

Losing it costs time and money, never a job: machines are found by their labels, and waits begin anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter

from .model import Job, JobKey, Rung, RunKey


@dataclass
class Pending:
    """An insert or a start that has been decided on and whose end is not known yet."""

    pool: str
    rung: Rung
    job: Job | None
    """None for a machine that is made for standby."""
    request_id: str
    since: float
    is_start: bool = False
    """Whether it is the start of a stopped machine."""
    operation: str = ""
    """Google's name of it; empty while the answer to the request is unknown."""
    done_since: float | None = None
    """Since when the operation has ended well, while the machine is not in any list yet."""


@dataclass
class Cooldown:
    """A place that had no machine to give."""

    until: float
    stockouts: int
    """In a row."""
    zones_available: tuple[str, ...] = ()


@dataclass
class MachineMemory:
    """What was seen of a machine that is still there."""

    pool: str
    first_seen: float
    """For a machine that waited for capacity, when it had it."""
    id: str = ""
    """Google's number of it; empty where it is not known yet."""
    waits_for: str = ""
    """The slug of its job while it is PENDING: Google looks for capacity, and deletes it where there is none."""
    zone: str = ""
    """The same."""
    runner_group: str = ""
    """Of its pool, which may be removed from the configuration later; empty for a pool that was never in it."""
    boot_sec: float = 0.0
    """The same."""
    idle_sec: float = 0.0
    """The same."""
    registered: bool = False
    """Whether GitHub has listed its runner."""
    missing_since: float | None = None
    """Since when its registered runner is in no list any more."""
    running_since: float | None = None
    """Since when Google lists it as RUNNING: its agent's deadlines count from there."""
    idle_since: float | None = None
    """Since when GitHub lists its runner as idle."""
    offline_since: float | None = None
    """Since when GitHub lists its idle runner as offline."""
    surplus_since: float | None = None
    """Since when no queued job needs it."""
    unregistered: bool = False
    """Whether the manager registers its runner and has not sent it the registration."""
    condemned: bool = False
    """Whether it is to be deleted although it is on."""
    job: JobKey | None = None
    """The job that its runner took."""
    place: str = ""
    """Region and machine type, for the spot breaker."""
    job_over: bool = False
    """Whether that job was seen to have ended before the machine was taken back."""
    taken_back: bool = False
    """Whether its preemption has been counted."""
    stopped_for_later: bool = False
    """Whether the manager stops it, or has stopped it, to start it for a later job."""
    old_key: str = ""
    """The digest of the key that it had before it was stopped."""
    started_for: str = ""
    """The slug of the job that it was last started for, from standby; empty in its first boot."""


@dataclass
class JobMemory:
    """The machines that were started for one attempt of a job."""

    inserts: int = 0
    """All of them; numbers the names."""
    machines: int = 0
    """Those that Google did not refuse."""
    last_seen: float = 0


@dataclass
class StandbyMemory:
    """The machines that were made for a pool's standby."""

    made: int = 0
    """The number in the name of the last one: the second when it was made, or one more than the last.

    A manager that lost its memory would count from 1 again, and send requests that Compute Engine has carried out and
    therefore ignores.
    """
    unproven: int = 0
    """Those that were made since one was last stopped or got a runner."""
    last_made: float = 0.0


@dataclass
class LostJob:
    """A job whose machine Google took back while it ran."""

    key: JobKey
    pool: str
    since: float
    run_attempt: int
    """The run's attempt in which it failed, as far as reruns of ours have not raised it."""
    asked: float | None = None
    asks: int = 0
    waited_for: bool = False
    """Whether GitHub still listed it as running when its runner could no longer answer."""

    @property
    def run(self) -> RunKey:
        return RunKey(self.key.repository, self.key.run_id)


@dataclass
class StoppedPool:
    """A template that nothing more is made from, because another machine would end as this one did."""

    template: str
    machine: str
    reason: str
    detail: str


@dataclass
class WrittenStatus:
    """The commit status that was last written on a commit."""

    description: str
    """Empty where it is not known whether GitHub has the status."""
    url: str
    since: float
    """When the first one was tried."""
    at: float
    """When it was written or last tried."""
    pool: str = ""
    """The share with this pool owns it."""


@dataclass
class Registration:
    """A runner that the manager has registered for a machine, or may have."""

    machine_id: str
    asked: float
    """When GitHub was asked for it last."""


@dataclass
class Memory:
    """All of it. Keys that are texts are made by the functions of the modules that use them."""

    begun: bool = False
    """Whether the machines that started before this memory began were all in a list since."""
    pending: dict[str, Pending] = field(default_factory=dict)
    """By the machine's name."""
    cooldowns: dict[str, Cooldown] = field(default_factory=dict)
    """By zone, machine type and market."""
    closed_quotas: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Until when a quota counts as used up, and Google's id of it; by region, GPU and market."""
    preferred: dict[str, float] = field(default_factory=dict)
    """Places that Google named as available, and until when that counts."""
    preemptions: dict[str, list[float]] = field(default_factory=dict)
    """When machines were taken back, by region and machine type."""
    machines: dict[str, MachineMemory] = field(default_factory=dict)
    """By name."""
    jobs: dict[str, JobMemory] = field(default_factory=dict)
    """By the job's slug."""
    lost: dict[str, LostJob] = field(default_factory=dict)
    """By the job's slug."""
    steady: dict[str, float] = field(default_factory=dict)
    """Runs that lost a job, and until when their pools buy no machine that can be taken back while such a job waits."""
    refusals: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Until when nothing is asked that was refused, and why: by pool where GitHub refuses its runners; by pool, region,
    machine type and market where Google refuses the machine."""
    stopped: dict[str, StoppedPool] = field(default_factory=dict)
    """By template."""
    statuses: dict[str, WrittenStatus] = field(default_factory=dict)
    """By repository and commit, and by context where that is another than gpu-ci."""
    registrations: dict[str, Registration] = field(default_factory=dict)
    """By the machine's name; kept until machine and runner are gone."""
    standby: dict[str, StandbyMemory] = field(default_factory=dict)
    """By pool."""


def merged(memories: Sequence[Memory]) -> Memory:
    """One memory of several managers whose pools differ. What is known of a place by several is what lasts longest."""
    whole = Memory(begun=bool(memories) and all(each.begun for each in memories))
    for each in memories:
        whole.pending |= each.pending
        whole.machines |= each.machines
        whole.lost |= each.lost
        whole.stopped |= each.stopped
        whole.statuses |= each.statuses
        whole.registrations |= each.registrations
        whole.standby |= each.standby
        for name, job in each.jobs.items():
            known = whole.jobs.setdefault(name, JobMemory())
            known.inserts = max(known.inserts, job.inserts)
            known.machines = max(known.machines, job.machines)
            known.last_seen = max(known.last_seen, job.last_seen)
        for place, cooldown in each.cooldowns.items():
            if place not in whole.cooldowns or whole.cooldowns[place].until < cooldown.until:
                whole.cooldowns[place] = cooldown
        for place, times in each.preemptions.items():
            whole.preemptions[place] = sorted({*whole.preemptions.get(place, []), *times})
        _keep_latest(whole.closed_quotas, each.closed_quotas)
        _keep_latest(whole.preferred, each.preferred)
        _keep_latest(whole.steady, each.steady)
        _keep_latest(whole.refusals, each.refusals)
    return whole


def of_pools(memory: Memory, pools: Collection[str]) -> Memory:
    """What is remembered of these pools alone, and of places and templates."""
    return replace(
        memory,
        pending={name: each for name, each in memory.pending.items() if each.pool in pools},
        machines={name: each for name, each in memory.machines.items() if each.pool in pools},
        lost={name: each for name, each in memory.lost.items() if each.pool in pools},
        refusals={key: each for key, each in memory.refusals.items() if key.partition(" ")[0] in pools},
        registrations={name: each for name, each in memory.registrations.items() if name.rpartition("-")[0] in pools},
        standby={name: each for name, each in memory.standby.items() if name in pools},
    )


def _keep_latest(whole: dict[str, Any], more: dict[str, Any]) -> None:
    for key, until in more.items():
        whole[key] = max(whole.get(key, until), until)


_ADAPTER = TypeAdapter(Memory)


def to_json(memory: Memory) -> bytes:
    """As stored."""
    return _ADAPTER.dump_json(memory)


def from_json(content: bytes) -> Memory:
    """As stored by this or an earlier version. ValueError where it is no memory."""
    return _ADAPTER.validate_json(content)
