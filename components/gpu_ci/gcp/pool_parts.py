"""Parts of a runner pool's arguments that are models of their own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, ValidationInfo, field_validator

from ..args import Args, Whole
from . import pool_rules, stack_schema

# Narrower than GitHub's own rule, which is not published: runner labels are handed over as a comma-separated list.
RunnerLabel = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class GuestAccelerator(Args):
    """GPUs attached to an N1 machine."""

    model_config = ConfigDict(json_schema_extra=stack_schema.add_accelerators)

    type: str = Field(description="an accelerator type n1 takes, such as nvidia-tesla-t4")
    count: Whole = Field(default=1, description="how many of them one machine gets")

    @field_validator("type")
    @classmethod
    def _type(cls, value: str) -> str:
        return pool_rules.accelerator_type(value)

    @field_validator("count")
    @classmethod
    def _count(cls, value: int, info: ValidationInfo) -> int:
        return pool_rules.accelerator_count(value, info.data)


class SmokeSettings(Args):
    """How the pool proves its GPU before it takes a template."""

    deadline_sec: Whole = Field(
        default=1200,
        ge=120,
        le=3600,
        description="seconds from the start of the check machine to its verdict, 120 to 3600",
    )
    on_no_capacity: Literal["fail", "unproven"] = Field(
        default="fail",
        description="what to do when no zone has a machine for the check: fail, or take the template unproven",
    )
