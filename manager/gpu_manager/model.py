"""The manager's data types: pools, jobs, machines, the observation of a pass, and the actions that follow from it.

This module sends no requests and reads no clock. `gpu_manager/__init__.py` defines the terms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpu_catalog.locations import region_of
from gpu_ci.machine_records import GpuUse, JobOfMachine
from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import PydanticCustomError

OFF = ("STOPPED", "SUSPENDED", "TERMINATED")
"""Google's states of a machine that is off (discovery document compute v1, Instance.status)."""

GPU_FAULT = "gpu-fault"
"""The reason of a machine's end whose GPU has failed (gpu_agent.outcomes)."""

DEFAULT_SUPPLIER = "compute-engine"
"""The supplier of a pool whose configuration names none."""

CONFIGURED = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", use_attribute_docstrings=True)
"""Of types that are read from the stack's output `manager`. Descriptions of fields are parts of messages."""

Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]
Labels = Annotated[
    frozenset[str],
    Field(min_length=1, max_length=100),
    AfterValidator(lambda labels: frozenset(map(str.lower, labels))),
]

InsertErrorKind = Literal["no-capacity", "over-quota", "refused"]

RunStatus = Literal["queued", "in_progress", "completed", "waiting", "requested", "pending"]
"""GitHub's states of a workflow run and of a job."""


RUN_LABEL = "run-${{ github.run_id }}"
"""The label that jobs of pools with priorities have in addition to those of the pool, as a workflow writes it."""


def printable(text: str) -> str:
    """Return untrusted text as one line, with a space for each character that could control a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)


@pydantic_dataclass(frozen=True, config=CONFIGURED)
class Offer:
    """A machine that a supplier offers: where, of which type, in which market and for which price.

    A pool's offers are the rungs of its capacity ladder.
    """

    zone: Annotated[str, Field(min_length=1)]
    """The place in which the supplier starts the machine, such as a zone or a data centre."""
    machine_type: Annotated[str, Field(min_length=1)]
    """A machine type, such as g2-standard-8."""
    market: Annotated[str, Field(pattern=r"^(spot|standard|reservation|flex-start)$")]
    """The market of the machine: spot, standard, reservation or flex-start."""
    gpu: str = ""
    """The supplier's name of the GPU, such as nvidia-l4."""
    usd_per_hour: float | None = Field(default=None, ge=0)
    """The price of one machine."""
    template: str = ""
    """What the machine is made from, if it differs from the pool's template."""

    @property
    def region(self) -> str:
        return region_of(self.zone)

    @property
    def preemptible(self) -> bool:
        """True if the supplier may preempt the machine."""
        return self.market == "spot"


@dataclass(frozen=True)
class InsertError:
    """The error of a failed insert, from the call or from its operation."""

    kind: InsertErrorKind
    message: str
    zones_available: tuple[str, ...] = ()
    quota: str = ""
    """Google's id of the quota that is used up."""


@dataclass(frozen=True)
class Reason:
    """The reason why a queued job has no machine."""

    code: str
    """at-max, cost-cap, no-answer, no-capacity, over-quota, price-ceiling, pool-stopped, refused, github-limited,
    approval-pending, over-budget, never-picked-up, queue-timeout, expired or no-pool."""
    detail: str
    next_try: float | None = None
    """The time of the next try on the clock of Observation.now; None if it is unknown."""

    @property
    def waiting_helps(self) -> bool:
        """True if the job may get a machine without a change or a cancellation by a person."""
        return self.code not in ("no-pool", "never-picked-up", "queue-timeout", "expired", "over-budget")


_Offer = TypeVar("_Offer", bound=Offer)


def _not_empty(rungs: tuple[_Offer, ...]) -> tuple[_Offer, ...]:
    # pydantic's own minimum would also count a list whose rungs are invalid as empty.
    if not rungs:
        raise PydanticCustomError("too_short", "needs at least one", {"min_length": 1})
    return rungs


Rungs = Annotated[tuple[_Offer, ...], AfterValidator(_not_empty)]


_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TimeOfDay = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone that this computer knows") from None
    return name


@pydantic_dataclass(frozen=True, config=CONFIGURED)
class Schedule:
    """The times of a week."""

    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...]
    """The days on which the times begin."""
    start: _TimeOfDay
    """When the times of a day begin."""
    end: _TimeOfDay
    """When they end; on the next day if it is not after start."""
    time_zone: Annotated[str, AfterValidator(_time_zone)]
    """A time zone of the IANA database."""

    def has(self, unix: float) -> bool:
        """Return True if the time belongs to the schedule."""
        local = datetime.fromtimestamp(unix, ZoneInfo(self.time_zone))
        now, today = local.strftime("%H:%M"), _DAYS[local.weekday()]
        if self.start < self.end:
            return today in self.days and self.start <= now < self.end
        yesterday = _DAYS[local.weekday() - 1]
        return (today in self.days and now >= self.start) or (yesterday in self.days and now < self.end)


@pydantic_dataclass(frozen=True, config=CONFIGURED)
class Warm:
    """Machines that are on and wait for a job, without a runner."""

    size: Annotated[int, Field(ge=1, le=1000)]
    """The number of machines, 1 to 1000."""
    schedule: Schedule
    """When they wait."""
    most_wait_sec: Annotated[int, Field(ge=600, le=43200)]
    """Seconds after which a waiting machine is replaced, 600 to 43200."""


@pydantic_dataclass(frozen=True, config=CONFIGURED)
class Priorities:
    """The order in which the jobs of a pool get its machines."""

    order: Annotated[tuple[str, ...], Field(min_length=1, max_length=20)]
    """The classes of jobs, the first one first: events, such as merge_group, some with a branch, such as push:main."""
    aging_sec: int = Field(default=1800, ge=60, le=86400)
    """Seconds of waiting that raise a job by one class, 60 to 86400."""
    repository_share: float | None = Field(default=None, gt=0, le=1)
    """The part of max that one repository gets before the jobs of others; all by default."""


@pydantic_dataclass(frozen=True, config=CONFIGURED)
class Pool:
    """A pool, as the stack's output `manager` has it. A supplier may have a subclass with its own forms of fields."""

    name: Name
    """The name of the pool: 1 to 40 lower-case letters, digits and dashes."""
    account: Annotated[str, Field(min_length=1, alias="project")]
    """The account of the supplier, such as a Google Cloud project."""
    template: Annotated[str, Field(min_length=1)]
    """What the machines are made from, such as an instance template. Only the supplier knows its meaning."""
    rungs: Rungs[Offer]
    """The places where the manager requests machines, in order."""
    max: Annotated[int, Field(ge=1, le=1000)]
    """The most machines at any time, 1 to 1000."""
    labels: Labels
    """Labels of the runners, 1 to 100. A job matches if its labels are a subset of them."""
    runner_group: str = "Default"
    """The runner group that the runners join."""
    boot_sec: int = Field(default=1500, ge=60, le=604800)
    """Seconds from the start of a machine to its registered runner, 60 to 604800. Then the agent powers it off."""
    idle_sec: int = Field(default=600, ge=1, le=604800)
    """Seconds that a runner waits for a job before the agent powers its machine off, 1 to 604800."""
    price_ceiling_usd: float | None = Field(default=None, gt=0)
    """The highest price of a machine, in USD per hour. Rungs with a higher price are skipped."""
    max_usd_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The catalog price of the pool's machines in one day in UTC, in USD, after which no further one starts."""
    max_run_duration_sec: int = Field(default=604800, ge=600, le=604800)
    """Seconds after which a machine is deleted even if it has a job, 600 to 604800. The default is for suppliers that
    have a limit of their own, which is at most that long.
    """
    registered_by: Literal["machine", "manager"] = "machine"
    """The program that registers the runners: machine or manager."""
    wait_objective_sec: int | None = Field(default=None, ge=1)
    """Seconds that a job may wait for its runner before an alert counts it, at least 1."""
    queue_timeout_sec: int | None = Field(default=None, ge=300, le=86400)
    """Seconds that a job may be queued before its workflow run is cancelled, 300 to 86400; never by default."""
    standby: int = Field(default=0, ge=0, le=1000)
    """The number of stopped machines that wait for jobs, 0 to max. It needs registeredBy: manager."""
    warm: Warm | None = None
    """The machines that are on and wait for jobs; none by default. It needs registeredBy: manager."""
    priorities: Priorities | None = None
    """The order of the jobs; by default the repositories take turns. It needs registeredBy: manager."""
    supplier: str = DEFAULT_SUPPLIER
    """The supplier of the machines."""
    public: bool = False
    """True if public repositories may use the runner group. Each runner then accepts only the run of one job."""

    reuse = 0
    """The most jobs of one host, for a supplier that reuses hosts."""

    @model_validator(mode="after")
    def _standby(self) -> Pool:
        if self.standby > self.max:
            raise ValueError(f"standby: {self.standby} is more than max, which is {self.max}")
        if self.standby and self.registered_by != "manager":
            raise ValueError(
                "standby: needs registeredBy: manager, because a machine that registers itself cannot wait stopped"
            )
        if self.warm and (self.warm.size > self.max or self.registered_by != "manager"):
            raise ValueError("warm: needs registeredBy: manager, and a size of at most max")
        if self.priorities and self.registered_by != "manager":
            raise ValueError("priorities: needs registeredBy: manager, which selects the job of each runner")
        return self

    @property
    def has_runners_for_one_job(self) -> bool:
        """True if the manager registers each runner for one job, which is known when the machine is ready."""
        return self.public or self.priorities is not None

    @property
    def ready_sec(self) -> int:
        """Seconds from the start of a machine after which it has a runner, or is of no use."""
        return self.boot_sec + (self.warm.most_wait_sec if self.warm else 0)

    @property
    def kept(self) -> int:
        """The most stopped machines: those on standby, and those on hosts that have run a job."""
        return self.max if self.reuse else self.standby

    def may_use(self, machine: Machine) -> bool:
        """Return True if the machine's host may run another job."""
        return machine.jobs < (self.reuse or 1)

    @property
    def templates(self) -> tuple[str, ...]:
        """The templates of the pool's machines, in the order of the rungs."""
        return tuple(dict.fromkeys(map(self.template_of, self.rungs)))

    def template_of(self, rung: Offer) -> str:
        """Return the template for a machine on this rung."""
        return rung.template or self.template

    def rung_of(self, machine: Machine) -> Offer | None:
        """Return the rung on which the pool would create an equal machine now, or None if there is no such rung."""
        for rung in self.rungs:
            equal = (rung.zone, rung.machine_type, rung.market, self.template_of(rung))
            if equal == (machine.zone, machine.machine_type, machine.market, machine.template):
                return rung
        return None


@pydantic_dataclass(frozen=True, config=CONFIGURED)
class OtherPool:
    """A pool of another manager of the stack."""

    manager: Name
    """The name of that manager."""
    labels: Labels
    """Labels of its runners, 1 to 100."""
    runner_group: str = "Default"
    """The runner group that its runners join."""
    priorities: bool = False
    """True if it has priorities."""


class JobKey(NamedTuple):
    """One attempt of one job."""

    repository: str
    """The repository as owner/name."""
    run_id: int
    job_id: int
    attempt: int


class RunKey(NamedTuple):
    """One workflow run with all its attempts."""

    repository: str
    run_id: int


@dataclass(frozen=True)
class Job:
    """A job of a workflow run, as GitHub's REST API shows it."""

    key: JobKey
    labels: frozenset[str]
    """The job's labels in lower case."""
    status: RunStatus
    created_unix: float
    """When the job was created, by GitHub's clock."""
    conclusion: str = ""
    runner_name: str = ""
    """The name of its runner. The control loop empties it for a runner that is in none of the pools' runner groups."""
    name: str = ""
    workflow: str = ""
    url: str = ""
    started_unix: float = 0
    """When a running job started, by GitHub's clock."""
    runner_groups: frozenset[str] | None = None
    """The pools' runner groups that its repository and its workflow may use; None if that is unknown."""
    runner_id: int = 0
    """GitHub's id of its runner; 0 without a runner."""
    refusal: Reason | None = None
    """Why no machine may run it: it is not approved, in a runner group that public repositories may use."""
    event: str = ""
    """The event of its run, such as pull_request."""
    branch: str = ""
    """The branch of its run."""

    @property
    def run_label(self) -> str:
        """The label of its run, which the jobs of pools with priorities have (RUN_LABEL)."""
        return f"run-{self.key.run_id}"


@dataclass(frozen=True)
class RanJob:
    """A job that a runner has run or runs, with GitHub's times."""

    runner_name: str
    job: JobOfMachine


@dataclass(frozen=True)
class Run:
    """The state of a workflow run. It decides if a job that lost its machine can be run again."""

    key: RunKey
    attempt: int
    status: RunStatus
    conclusion: str = ""
    created_unix: float = 0
    failed_jobs: tuple[int, ...] = ()
    """Ids of jobs of the latest attempt whose conclusion is neither success nor skipped."""


@dataclass(frozen=True)
class Runner:
    """A registered runner. A runner that is offline and busy has lost its connection."""

    id: int
    name: str
    """The name of its machine."""
    online: bool
    busy: bool
    labels: frozenset[str] | None = None
    """Its labels in lower case; None if GitHub does not list them."""


@dataclass(frozen=True)
class NewRunner:
    """A runner that GitHub has just registered for one job."""

    id: int
    name: str
    jit_config: str = field(repr=False)
    """The just-in-time configuration with which the runner starts; a secret."""


@dataclass(frozen=True)
class End:
    """The end of a machine, with the reason that the agent reported (gpu_agent/outcomes.py)."""

    reason: str
    detail: str = ""
    stops_pool: bool = False
    """True if each machine of the template would end like this one, so the pool no longer uses the template."""
    phases: Mapping[str, float] = field(default_factory=dict, hash=False)
    """The seconds of each step of the last boot."""
    gpu_use: GpuUse | None = None
    """What the GPUs did while the job ran; None if nothing was measured."""
    run: RunKey | None = None
    """The run of the job that the machine reported. The author of the job can change it, so it is only a hint."""

    @property
    def fault(self) -> str:
        """The fault of the machine's GPU, such as `Xid 79`; empty without one. It has no characters of Markdown."""
        name = self.detail.partition(":")[0]
        return name if self.reason == GPU_FAULT and re.fullmatch(r"[A-Za-z0-9 -]{1,60}", name) else ""


@dataclass(frozen=True)
class Machine:
    """A machine of a pool, in a supplier's list."""

    name: str
    pool: str
    zone: str
    """The place in which it is (Offer.zone)."""
    status: str
    """Compute Engine's status, to which other suppliers map theirs: PROVISIONING, STAGING, RUNNING, STOPPING,
    TERMINATED and so on.
    """
    market: str
    machine_type: str
    template: str
    """Self link of the machine's template; empty if it is unknown."""
    end: End | None = None
    """The end that the machine reported before it was switched off; None if it is on or reported none."""
    account: str = ""
    """The account in which it is (Pool.account)."""
    job: str = ""
    """The label gpu-ci-job: the slug of the machine's job; `standby` for a machine that was created for standby."""
    id: str = ""
    """The supplier's id of the machine. A later machine of the same name has another id."""
    registered_by: str = "machine"
    """The program that registers its runner, from its label: `machine` or `manager`."""
    key: str = ""
    """The certificate that the machine published, base64. The manager encrypts the runner's registration with it."""
    sealed: bool = False
    """True if the registration of a runner was sent to it."""
    on_unix: float = 0.0
    """When it was last switched on, by the supplier's clock; 0 if the supplier does not say it."""
    off_unix: float = 0.0
    """When it was last switched off, by the supplier's clock; 0 if the supplier does not say it, or if it never was."""
    jobs: int = 0
    """The number of jobs that earlier machines have run on its host."""

    @property
    def region(self) -> str:
        return region_of(self.zone)

    @property
    def off(self) -> bool:
        return self.status in OFF

    @property
    def waits_for_capacity(self) -> bool:
        """True if Google still looks for capacity for it (discovery document compute v1, Instance.status PENDING)."""
        return self.status == "PENDING"

    @property
    def unregistered(self) -> bool:
        """True if the manager registers its runner and has not sent the registration yet."""
        return self.registered_by == "manager" and not self.sealed


@dataclass(frozen=True)
class OperationState:
    """The state of an insert's operation."""

    done: bool
    error: InsertError | None = None
    id: str = ""
    """The supplier's id of the machine."""


@dataclass(frozen=True)
class Observation:
    """Everything that one pass has read. None in a field means that the source could not be read, not an empty list."""

    now: float
    """Seconds since 1970 by GitHub's clock, at the start of the sweep. All times in the memory are on this clock, so
    the clock of the manager's computer does not matter.
    """
    github_unix: float
    """Seconds since 1970 by GitHub's clock, at the end of the sweep. The ages of jobs are measured at this time."""
    jobs: tuple[Job, ...] | None
    """Queued, waiting and running jobs of the repositories in the sweep."""
    unread: frozenset[str] = field(default=frozenset(), kw_only=True)
    """The repositories whose jobs could not be read. `jobs` has their last known jobs, or none of them."""
    runners: tuple[Runner, ...] | None
    machines: tuple[Machine, ...] | None
    """The machines of all pools in all zones."""
    operations: Mapping[str, OperationState] = field(default_factory=dict)
    """The states of pending inserts and starts, by machine name. A state that could not be read is missing."""
    runs: Mapping[RunKey, Run] = field(default_factory=dict)
    """The runs of jobs that lost their machine."""
    preempted: frozenset[str] = frozenset()
    """Names of machines that Google preempted within the last hour, including deleted machines."""
    over_budget: Mapping[str, str] = field(default_factory=dict)
    """The repositories whose team has spent its budget, in lower case, each with the reason."""
    cost_caps: Mapping[str, Reason] = field(default_factory=dict)
    """The pools whose machines have reached max_usd_per_day, by name."""
    github_requests_left: int | None = None
    """The requests that GitHub still allows in this hour; None if unknown."""
    github_limited_until: float | None = None
    """When GitHub's rate limit ends, on the clock of `now`; None without a limit."""


@dataclass(frozen=True)
class Insert:
    """Start a machine from the pool's template."""

    pool: str
    machine: str
    """The machine's name. It follows from the job and the number of the try."""
    rung: Offer
    job: Job | None
    """The job of the machine; None for a machine on standby."""
    request_id: str
    """An id that is the same for the same machine and zone, so that a repeated request starts no second machine."""


@dataclass(frozen=True)
class Stop:
    """Stop a machine that no job needs and that has published its key, so that it can start for a later job."""

    machine: Machine


@dataclass(frozen=True)
class Start:
    """Start a stopped machine for a job."""

    machine: Machine
    rung: Offer
    job: Job
    request_id: str
    """An id that is the same for a repeated request."""


@dataclass(frozen=True)
class Delete:
    """Delete a machine that is off, or that is on and cannot have a job."""

    machine: Machine
    reason: str


@dataclass(frozen=True)
class RemoveRunner:
    """Unregister an idle runner, and then delete its machine. If the runner is busy, GitHub refuses to unregister it,
    and the machine stays.
    """

    runner: Runner
    machine: Machine | None
    """The runner's machine; None if it is gone already."""
    reason: str


@dataclass(frozen=True)
class Rerun:
    """Run a job again that lost its machine."""

    run: RunKey
    attempt: int
    """The attempt that failed."""
    job_id: int | None
    """The id of one job, or None for all failed jobs of the run."""


@dataclass(frozen=True)
class Report:
    """Write a check run on the commit of a job: the machine failed, and not the change."""

    job: JobKey
    title: str
    summary: str


@dataclass(frozen=True)
class Cancel:
    """Cancel the workflow run of a job that waits too long."""

    job: JobKey
    reason: str


@dataclass(frozen=True)
class Register:
    """Register a runner for a machine that has published its key, and send the registration to the machine."""

    machine: Machine
    job: JobKey | None = None
    """The job whose run is the only one that the machine accepts; None if it accepts every job."""
    labels: frozenset[str] | None = None
    """The labels of the runner; None for those of the pool."""


Action = Insert | Delete | Stop | Start | RemoveRunner | Rerun | Cancel | Register | Report
