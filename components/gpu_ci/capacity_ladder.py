"""The arguments of a capacity ladder: the ordered list of machine types, markets and regions that a pool tries.

Each entry (class Rung) is a step of the ladder. The catalog checks the steps.
"""

from __future__ import annotations

from typing import Annotated, Any

from gpu_catalog import ladder
from gpu_catalog.models import Architecture, Cloud, Market
from gpu_catalog.needs import Dtype, Needs
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails

from .args import Args, Integer
from .errors import at_path, invalid, raise_problems


def _capability(value: Any) -> Any:
    """Return a number as text, because YAML reads 8.9 as a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


ComputeCapability = Annotated[str, Field(pattern=r"^[0-9]{1,2}(\.[0-9])?$"), BeforeValidator(_capability)]


class JobNeeds(Args):
    """The minimum that a job requires of its machine, on every step."""

    gpu_memory_gib: float = Field(default=0, ge=0, description="GiB of one GPU, by its nominal size: 24 for an L4")
    gpu_count: Integer = Field(default=1, ge=1, le=16, description="how many GPUs, 1 to 16")
    compute_capability: ComputeCapability | None = Field(
        default=None, description="the lowest compute capability, such as 8.0"
    )
    dtype: Dtype | None = Field(
        default=None, description="a number type the GPU has to multiply matrices of in hardware, such as bf16"
    )
    architecture: Architecture | None = Field(default=None, description="the machine's processor: x86_64 or arm64")
    memory_gib: float = Field(default=0, ge=0, description="GiB of the machine itself")
    vcpus: Integer = Field(default=0, ge=0, description="how many vCPUs")
    torch: str = Field(
        default="",
        pattern=r"^([0-9]+\.[0-9]+(\.[0-9]+)?(\+[a-z]+[0-9.]*)?)?$",
        description="a torch wheel that has to run on the GPU, such as 2.9.1+cu129",
    )
    budget_usd_per_hour: float | None = Field(
        default=None, gt=0, description="the most one machine may cost, in USD an hour, where its price is known"
    )

    def plain(self) -> Needs:
        """Return the needs in the catalog's type."""
        return Needs(**{**dict(self), "compute_capability": self.compute_capability or ""})


class Rung(Args):
    """One step of a capacity ladder: a machine type, its market and its region."""

    machine: str = Field(
        description="a machine type, such as g2-standard-8; n1 with its GPUs, as n1-standard-8+nvidia-tesla-t4x1"
    )
    market: Market = Field(
        description="how it is bought: spot, standard, flex-start, reservation or capacity-block, where it is sold so"
    )
    region: str = Field(description="the region, such as us-central1")
    zones: list[str] = Field(
        default=[], description="zones of the region, tried together; by default they are left to the cloud"
    )
    cloud: Cloud | None = Field(default=None, description="gcp or aws; by default the one with that machine type")
    timeout_sec: Integer = Field(
        default=ladder.TIMEOUT_SEC,
        ge=10,
        le=604800,
        description="seconds to wait before the next rung is tried, 10 to 604800",
    )

    def plain(self) -> ladder.Rung:
        """Return the step in the catalog's type."""
        return ladder.Rung(**{**dict(self), "zones": tuple(self.zones)})


class CapacityLadder(Args):
    """The machines that a pool tries to get, from the first step on. Each step meets the needs of the job."""

    needs: JobNeeds | None = Field(
        default=None,
        description="what every rung must have; by default as many GPUs as the first, each no smaller and no older",
    )
    rungs: list[Rung] = Field(min_length=1, max_length=50, description="the rungs, in the order they are tried")

    @field_validator("rungs")
    @classmethod
    def _rungs(cls, values: list[Rung], info: ValidationInfo) -> list[Rung]:
        if "needs" not in info.data:  # `needs` is invalid, which is already reported
            return values
        needs = info.data["needs"]
        problems = ladder.check_ladder([each.plain() for each in values], needs.plain() if needs else None)
        raise_problems([_details(each, values) for each in problems])
        return values


def _details(problem: ladder.RungProblem, rungs: list[Rung]) -> InitErrorDetails:
    """Return a problem of the ladder as a validation error, with the value that it refers to."""
    value: Any = rungs
    for step in problem.at:
        value = getattr(value, step) if isinstance(step, str) else value[step]
    given = dict(value) if isinstance(value, Rung) else value
    return at_path(invalid(problem.text, hint=problem.hint), given, *problem.at)
