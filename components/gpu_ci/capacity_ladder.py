"""The arguments of a capacity ladder: the ordered list of machine types, markets and regions that a pool tries.

An entry of the list is a rung (class Rung). `gpu_catalog.ladder` checks the list.
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
    """The minimum that a job requires of its machine. Every rung must meet it."""

    gpu_memory_gib: float = Field(default=0, ge=0, description="GiB of one GPU, by its nominal size: 24 for an L4")
    gpu_count: Integer = Field(default=1, ge=1, le=16, description="the number of GPUs, 1 to 16")
    compute_capability: ComputeCapability | None = Field(
        default=None, description="the lowest compute capability, such as 8.0"
    )
    dtype: Dtype | None = Field(
        default=None, description="a number type, such as bf16, whose matrices the GPU multiplies in hardware"
    )
    architecture: Architecture | None = Field(default=None, description="the machine's processor: x86_64 or arm64")
    memory_gib: float = Field(default=0, ge=0, description="the memory of the machine in GiB, without GPU memory")
    vcpus: Integer = Field(default=0, ge=0, description="the number of vCPUs")
    torch: str = Field(
        default="",
        pattern=r"^([0-9]+\.[0-9]+(\.[0-9]+)?(\+[a-z]+[0-9.]*)?)?$",
        description="a torch wheel that has to run on the GPU, such as 2.9.1+cu129",
    )
    budget_usd_per_hour: float | None = Field(
        default=None, gt=0, description="the maximum price of a machine in USD an hour; unknown prices are allowed"
    )

    def plain(self) -> Needs:
        """Return the needs in the catalog's type."""
        return Needs(**{**dict(self), "compute_capability": self.compute_capability or ""})


class Rung(Args):
    """One entry of a capacity ladder: a machine type, its market and its region."""

    machine: str = Field(
        description="a machine type, such as g2-standard-8; n1 with its GPUs, as n1-standard-8+nvidia-tesla-t4x1"
    )
    market: Market = Field(
        description="how the machine is bought: spot, standard, flex-start, reservation or capacity-block"
    )
    region: str = Field(description="the region, such as us-central1")
    zones: list[str] = Field(
        default=[], description="zones of the region, tried together; by default the cloud chooses the zone"
    )
    cloud: Cloud | None = Field(default=None, description="gcp or aws; by default the cloud with that machine type")
    timeout_sec: Integer = Field(
        default=ladder.TIMEOUT_SEC,
        ge=10,
        le=604800,
        description="seconds to wait before the next rung is tried, 10 to 604800",
    )

    def plain(self) -> ladder.Rung:
        """Return the rung in the catalog's type."""
        return ladder.Rung(**{**dict(self), "zones": tuple(self.zones)})


class CapacityLadder(Args):
    """The machines that a pool tries to get, the first rung first. Each rung meets the needs of the job."""

    needs: JobNeeds | None = Field(
        default=None,
        description="what every rung must have; by default the GPUs of the first rung: as many, with at least the same "
        "memory and compute capability",
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
    for key in problem.at:
        value = getattr(value, key) if isinstance(key, str) else value[key]
    given = dict(value) if isinstance(value, Rung) else value
    return at_path(invalid(problem.text, hint=problem.hint), given, *problem.at)
