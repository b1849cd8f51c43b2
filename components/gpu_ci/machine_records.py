"""The record of a machine that is gone: when it was on, what it cost, and which job it ran.

The runner manager writes one record for each machine. Cost reports, budgets and metrics are derived from the records. A
file of records has one JSON object per line. docs/machine-record.schema.json is the schema of such an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

VERSION: Literal[1] = 1
"""The version of the schema. A field that is added keeps the version."""

Usd = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("is not in the years 1 to 9999 in UTC") from None


Time = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class _Part(BaseModel):
    """Unknown fields are ignored: a later version of gpu-ci may have written them."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, use_attribute_docstrings=True
    )


def _ordered(interval: tuple[datetime, datetime]) -> tuple[datetime, datetime]:
    if interval[1] < interval[0]:
        raise ValueError("ends before it begins")
    return interval


Interval = Annotated[tuple[Time, Time], AfterValidator(_ordered)]


class End(_Part):
    """The end of a machine."""

    reason: str
    """The reason that the machine's agent reported (docs/reference/runner-ends.md), or `deleted`."""
    detail: str = ""
    """What the agent said about it, in one line."""


class GpuUse(_Part):
    """What the machine's GPUs did while the job ran, as nvidia-smi reported it. A value without a sample is null."""

    util_avg: Annotated[float, Field(ge=0, le=1)] | None = None
    """The mean share of time in which a kernel ran, 0 to 1, over all GPUs."""
    mem_max_mib: Annotated[int, Field(ge=0)] | None = None
    """The most memory of one GPU in use, in MiB."""
    joules: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """The energy of all GPUs, in joules."""


class JobOfMachine(_Part):
    """The job that a machine ran, as GitHub describes it."""

    repository: str
    """The repository as owner/name."""
    run: int
    """The id of the workflow run."""
    attempt: int
    """The attempt of the run."""
    id: int
    """The id of the job."""
    workflow: str = ""
    """The name of the workflow."""
    name: str = ""
    """The name of the job."""
    created: Time
    """When the job was created."""
    started: Time
    """When the runner started it."""
    completed: Time | None = None
    """When it ended; null if GitHub did not say it."""
    conclusion: str = ""
    """GitHub's conclusion, such as success or failure; empty if it is unknown."""

    @classmethod
    def of_github(cls, job: Mapping[str, Any], repository: str) -> JobOfMachine:
        """Return a job of GitHub's REST API that has started.

        Raises KeyError, TypeError or ValueError for a field that is missing or has another form.
        """
        return cls(
            repository=repository,
            run=int(job["run_id"]),
            attempt=int(job.get("run_attempt", 1)),
            id=int(job["id"]),
            workflow=job["workflow_name"] or "",
            name=job["name"],
            created=job["created_at"],
            started=job["started_at"],
            completed=job["completed_at"],
            conclusion=job["conclusion"] or "",
        )


class Parts(NamedTuple):
    """The money of a machine by the time for which it was paid, in USD. The sum is the cost of the machine."""

    job: float
    """While the job ran, and the machine survived it."""
    overhead: float
    """Boot, check, wait for the job and power-off, in the same interval as the job."""
    lost: float
    """While a job ran on a machine that the supplier took back."""
    idle: float
    """All other time: standby, and machines without a job."""


class MachineRecord(_Part):
    """One machine from its request to its deletion."""

    schema_version: Literal[1] = Field(default=VERSION, alias="schema")
    """The version of the schema."""
    manager: str
    """The name of the runner manager."""
    supplier: str = "compute-engine"
    """The supplier of the machine."""
    pool: str
    """The pool of the machine."""
    machine: str
    """The name of the machine. A later machine may have the same name."""
    id: str = ""
    """The supplier's id of the machine. With the name, it identifies the record."""
    zone: str
    """The zone of the machine."""
    machine_type: str
    """The machine type, such as g2-standard-8."""
    market: str
    """The market: spot, standard, reservation or flex-start."""
    gpu: str = ""
    """The supplier's name of the GPU, such as nvidia-l4."""
    template: str = ""
    """What the machine was made from, such as an instance template; empty in records of earlier versions."""
    usd_per_hour: Usd | None = None
    """The price of the machine when it was started; null if it is not published."""
    requested: Time
    """When the manager requested the machine."""
    on: list[Interval] = []
    """The times during which the machine had power, in order. A machine on standby has several."""
    gone: Time
    """When the machine was deleted, or when the manager first missed it."""
    end: End | None = None
    """The last end that the machine reported; null if it reported none."""
    taken_back: bool = False
    """True if the supplier reported that it took the machine back. A job can write the reason of its machine's end."""
    phases: dict[str, Seconds] = {}
    """The seconds that each step of the last boot took, such as driver, check and runner."""
    gpu_use: GpuUse | None = None
    """What the GPUs did; null if the machine ran no job or measured nothing."""
    job: JobOfMachine | None = None
    """The job; null if the machine ran none, or if it is unknown (`incomplete`)."""
    incomplete: list[str] = []
    """What is missing: `job` (a job ran, and GitHub did not say which), `job-times`, `price`, `on` (a time at which the
    machine was switched on or off is that of the pass that saw it), or `node` (of a job on a cluster: the node's other
    time)."""

    @model_validator(mode="after")
    def _times(self) -> MachineRecord:
        times = [self.requested, *(each for interval in self.on for each in interval), self.gone]
        if times != sorted(times):
            raise ValueError("requested, on and gone are not in order")
        return self

    @property
    def key(self) -> str:
        """The identity of the record. Two records with one key are the same record."""
        return f"{self.machine}-{self.id}"

    @property
    def on_sec(self) -> float:
        """The seconds during which the machine had power."""
        return sum(map(_seconds, self.on))

    @property
    def usd(self) -> float | None:
        """The catalog price of the machine's time; None if the price is unknown."""
        return None if self.usd_per_hour is None else self.on_sec * self.usd_per_hour / 3600

    @property
    def job_sec(self) -> float:
        """The seconds in which the job ran on the machine. Without an end of the job, until the machine was off."""
        return sum(map(self._time_of_job, self.on))

    @property
    def is_lost(self) -> bool:
        """True if the job ended with the machine: the supplier took it back."""
        return self.taken_back and self.job is not None and self.job.conclusion != "success"

    def parts(self, usd: float) -> Parts:
        """Return what the parts of an amount were paid for. `usd` is the catalog price, or the bill of the machine."""
        if not self.on_sec:
            return Parts(0.0, 0.0, 0.0, usd)
        # Each part is a difference of sums of seconds, which rounding may make a little negative.
        with_job_sec = sum(_seconds(each) for each in self.on if self._time_of_job(each))
        of_job, overhead, idle = (
            usd * max(seconds, 0.0) / self.on_sec
            for seconds in (self.job_sec, with_job_sec - self.job_sec, self.on_sec - with_job_sec)
        )
        return Parts(0.0, overhead, of_job, idle) if self.is_lost else Parts(of_job, overhead, 0.0, idle)

    def _time_of_job(self, interval: tuple[datetime, datetime]) -> float:
        """Return the seconds of the job within an interval."""
        if self.job is None:
            return 0.0
        end = min(interval[1], self.job.completed or self.gone)
        return max((end - max(interval[0], self.job.started)).total_seconds(), 0.0)

    def line(self) -> str:
        """Return the record as one line of JSON."""
        return self.model_dump_json(by_alias=True)


def _seconds(interval: tuple[datetime, datetime]) -> float:
    return (interval[1] - interval[0]).total_seconds()


def schema() -> Mapping[str, Any]:
    """Return the JSON schema of a record."""
    return MachineRecord.model_json_schema(by_alias=True)
