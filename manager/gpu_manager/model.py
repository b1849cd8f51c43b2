"""What the manager observes, remembers and does, as plain values. Nothing here asks anybody or reads a clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gpu_catalog.locations import region_of

OFF = ("STOPPED", "SUSPENDED", "TERMINATED")
"""Google's states of a machine that is off (discovery document compute v1, Instance.status)."""

RunStatus = Literal["queued", "in_progress", "completed", "waiting", "requested", "pending"]
"""GitHub's words for the state of a workflow run and of a job."""


@dataclass(frozen=True)
class Rung:
    """One place to ask for a machine: a zone, a machine type, and how it is bought."""

    zone: str
    machine_type: str
    market: str
    """spot, standard, reservation or flex-start. Google may take a spot machine back."""
    gpu: str = ""
    """Google's accelerator type, such as nvidia-l4: quotas are per region, GPU and market."""
    usd_per_hour: float | None = None
    """The catalog's price of one machine; None where there is none."""
    template: str = ""
    """Self link of the instance template for this rung whose check passed; empty where it is the pool's."""

    @property
    def region(self) -> str:
        return region_of(self.zone)

    @property
    def preemptible(self) -> bool:
        return self.market == "spot"


@dataclass(frozen=True)
class Pool:
    """What the manager has to know of a pool. All of it comes from the stack's outputs."""

    name: str
    project: str
    template: str
    """Self link of the instance template whose check passed."""
    rungs: tuple[Rung, ...]
    """In the order in which they are asked."""
    max: int
    """The most machines there may be at any time."""
    labels: frozenset[str]
    """Lower-case labels of the pool's runners. A job matches where its own labels are a subset."""
    runner_group: str = "Default"
    boot_sec: int = 1200
    """From the start of a machine to its registered runner; the agent ends the machine after that."""
    idle_sec: int = 600
    """How long a registered runner waits for a job before the agent ends its machine."""
    rerun_preempted: bool = True
    """Whether the job of a machine that Google took back is run again."""
    machines_per_job: int = 3
    """The most machines that are started for one job."""
    price_ceiling_usd: float | None = None
    """Rungs that cost more an hour are skipped."""
    registered_by: str = "machine"
    """Who registers the runner of a machine: `machine` or `manager`."""
    wait_objective_sec: int | None = None
    """How long a job may wait for its runner before an alert counts it; None for no objective."""
    standby: int = 0
    """How many machines are kept stopped, checked and ready to be started for a job."""

    @property
    def templates(self) -> tuple[str, ...]:
        """Those that its machines are made from, in the order of the rungs."""
        return tuple(dict.fromkeys(map(self.template_of, self.rungs)))

    def template_of(self, rung: Rung) -> str:
        """The template that a machine on this rung is made from."""
        return rung.template or self.template

    def rung_of(self, machine: Machine) -> Rung | None:
        """The rung on which this machine would be made now; None where there is none any more."""
        for rung in self.rungs:
            made = (rung.zone, rung.machine_type, rung.market, self.template_of(rung))
            if made == (machine.zone, machine.machine_type, machine.market, machine.template):
                return rung
        return None


class JobKey(NamedTuple):
    """One attempt of one job."""

    repository: str
    """owner/name."""
    run_id: int
    job_id: int
    attempt: int


class RunKey(NamedTuple):
    """One workflow run, whatever its attempt."""

    repository: str
    run_id: int


@dataclass(frozen=True)
class Job:
    """A job of a workflow run, as GitHub's REST API shows it."""

    key: JobKey
    labels: frozenset[str]
    """Lower-case."""
    status: RunStatus
    created_unix: float
    """By GitHub's clock."""
    conclusion: str = ""
    runner_name: str = ""
    name: str = ""
    workflow: str = ""
    url: str = ""
    head_sha: str = ""
    started_unix: float = 0
    """By GitHub's clock, of a job that runs."""
    runner_groups: frozenset[str] | None = None
    """Names of the pools' runner groups that its repository may use; None where that is not known."""


@dataclass(frozen=True)
class Run:
    """The state of a workflow run: what decides whether a lost job can be run again."""

    key: RunKey
    attempt: int
    status: RunStatus
    conclusion: str = ""
    created_unix: float = 0
    failed_jobs: tuple[int, ...] = ()
    """Ids of the latest attempt's jobs that ended in another way than success or skipped."""


@dataclass(frozen=True)
class Runner:
    """A registered runner. One that is offline and busy has lost its connection."""

    id: int
    name: str
    """The name of its machine."""
    online: bool
    busy: bool


@dataclass(frozen=True)
class NewRunner:
    """A runner that GitHub has just registered, for one job."""

    id: int
    name: str
    jit_config: str = field(repr=False)
    """What the runner starts with; a secret."""


@dataclass(frozen=True)
class End:
    """How a machine ended, in the agent's words (gpu_agent/outcomes.py)."""

    reason: str
    detail: str = ""
    stops_pool: bool = False


@dataclass(frozen=True)
class Machine:
    """A VM of a pool, by its labels."""

    name: str
    pool: str
    zone: str
    status: str
    """Google's: PROVISIONING, STAGING, RUNNING, STOPPING, TERMINATED and so on."""
    market: str
    machine_type: str
    template: str
    """Self link of the template it was made from; empty where it is unknown."""
    end: End | None = None
    """Of a machine that is off, where it said one."""
    preempted: bool = False
    """Whether an operation of Google says that it was taken back."""
    project: str = ""
    job: str = ""
    """The label gpu-ci-job: the slug of the job it was made for; empty for a machine that was made for standby."""
    id: str = ""
    """Google's number of it: a later machine of the same name has another one."""
    registered_by: str = "machine"
    """Who registers its runner, as its label says: `machine` or `manager`."""
    key: str = ""
    """The certificate that it published, base64; a runner that the manager registers is sealed to it."""
    sealed: bool = False
    """Whether its metadata has the registration of a runner."""

    @property
    def off(self) -> bool:
        return self.status in OFF

    @property
    def waits(self) -> bool:
        """Whether Google still looks for its capacity (discovery document compute v1, Instance.status PENDING)."""
        return self.status == "PENDING"

    @property
    def unregistered(self) -> bool:
        """Whether the manager registers its runner and has not sent it the registration."""
        return self.registered_by == "manager" and not self.sealed


@dataclass(frozen=True)
class InsertError:
    """Why an insert failed, from the call or from its operation."""

    kind: Literal["no-capacity", "over-quota", "refused"]
    message: str
    zones_available: tuple[str, ...] = ()
    quota: str = ""
    """Google's id of the quota that is used up."""


@dataclass(frozen=True)
class OperationState:
    """An insert's operation: whether it has ended, and how."""

    done: bool
    error: InsertError | None = None


@dataclass(frozen=True)
class Observation:
    """What one pass saw. A source that failed is None: unknown, and never empty."""

    now: float
    """Seconds since 1970 by GitHub's clock, at the start of the sweep. What is remembered counts from here, so that no
    computer's clock matters."""
    github_unix: float
    """The same at the end of the sweep: what the ages of jobs count from."""
    jobs: tuple[Job, ...] | None
    """Queued, waiting and running jobs of the sweep's repositories."""
    runners: tuple[Runner, ...] | None
    machines: tuple[Machine, ...] | None
    """Of all pools, in all zones."""
    operations: Mapping[str, OperationState] = field(default_factory=dict)
    """Of the pending inserts and starts, by the machine's name; those that could not be asked are left out."""
    runs: Mapping[RunKey, Run] = field(default_factory=dict)
    """The runs of lost jobs."""
    preempted: frozenset[str] = frozenset()
    """Names of machines that Google took back lately, those that are gone too."""
    github_requests_left: int | None = None
    """Of GitHub's limit of this hour; None where it is not known."""
    github_limited_until: float | None = None
    """On the clock of `now`; None where GitHub limits nothing."""


@dataclass(frozen=True)
class Insert:
    """Start a machine from the pool's template."""

    pool: str
    machine: str
    """Its name, which follows from the job and the number of the try."""
    rung: Rung
    job: Job | None
    """None for a machine on standby."""
    request_id: str
    """The same for the same machine and zone, so that a repeated request starts nothing twice."""


@dataclass(frozen=True)
class Stop:
    """Stop a machine that has published its key and that no job needs, to start it for a later job."""

    machine: Machine


@dataclass(frozen=True)
class Start:
    """Start a stopped machine for a job."""

    machine: Machine
    rung: Rung
    job: Job
    request_id: str
    """The same for a repeated request."""


@dataclass(frozen=True)
class Delete:
    """Delete a machine: one that is off, or one that can have no job."""

    machine: Machine
    why: str


@dataclass(frozen=True)
class RemoveRunner:
    """Unregister an idle runner; its machine is deleted only where GitHub did so, as a busy one is refused."""

    runner: Runner
    machine: Machine | None
    """None where it is gone already."""
    why: str


@dataclass(frozen=True)
class Rerun:
    """Run a lost job again."""

    run: RunKey
    attempt: int
    """The attempt that failed."""
    job_id: int | None
    """One job, or all failed jobs of the run where it is None."""


@dataclass(frozen=True)
class Register:
    """Register a runner for a machine that has published its key, and send it there."""

    machine: Machine


Action = Insert | Delete | Stop | Start | RemoveRunner | Rerun | Register


@dataclass(frozen=True)
class CommitStatus:
    """A commit status of one commit."""

    repository: str
    """owner/name."""
    sha: str
    state: str
    """GitHub's word: pending, error or success."""
    description: str
    """At most 140 characters."""
    url: str
    """The page of a waiting job."""
    context: str = "gpu-ci"
    """GitHub's word for its name."""


@dataclass(frozen=True)
class Reason:
    """Why a queued job has no machine."""

    code: str
    """at-max, no-answer, no-capacity, over-quota, price-ceiling, pool-stopped, refused, github-limited,
    approval-pending, never-picked-up, expired or no-pool."""
    detail: str
    next_try: float | None = None
    """On the clock of Observation.now; None where no time is known."""

    @property
    def waiting_helps(self) -> bool:
        """Whether the job may get a machine although nobody changes or cancels it."""
        return self.code not in ("no-pool", "never-picked-up", "expired")
