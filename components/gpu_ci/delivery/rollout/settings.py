"""The settings of a rollout, which a YAML file has."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from gpu_ci.delivery.judge import Rules

ALL = 100
_WEEK_MINUTES = 7 * 24 * 60


class _Settings(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, alias_generator=to_camel, strict=True
    )


class Step(_Settings):
    """A share of the traffic for a time."""

    percent: int = Field(ge=1, le=99)
    """The share of the requests that the canary gets. The step with 100 follows the last one, and lasts bakeMinutes."""
    minutes: int = Field(10, ge=1, le=_WEEK_MINUTES)
    """The fewest minutes with requests of both models."""


class Errors(_Settings):
    """The rules for failed requests."""

    tolerance: float = Field(1.5, ge=1, le=100)
    """The ratio of the canary's error rate to that of the stable model that is still good."""
    ceiling: float = Field(0.5, gt=0, le=1)
    """The error rate above which the canary is rolled back, whatever the stable model does. 1 turns this off."""


class Latency(_Settings):
    """The rules for slow requests."""

    limit_ms: float = Field(gt=0, le=3_600_000)
    """The time above which a request is slow. The next larger bound of the buckets of Cloud Monitoring applies."""
    tolerance: float = Field(1.5, ge=1, le=100)
    """The ratio of the canary's rate of slow requests to that of the stable model that is still good."""


class Machine(_Settings):
    """The machines of the canary. Without this setting, they are those of the stable model."""

    type: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{1,62}$")
    """The machine type, such as g2-standard-8."""
    accelerator: str | None = Field(None, pattern=r"^[A-Z][A-Z0-9_]+$")
    """Vertex AI's name of the accelerator, such as NVIDIA_L4."""
    accelerator_count: int = Field(1, ge=1, le=16)
    """The number of accelerators of a machine."""
    min_replicas: int = Field(1, ge=1, le=1000)
    """The number of machines that always run."""
    max_replicas: int = Field(1, ge=1, le=1000)
    """The most machines at high load."""
    spot: bool = False
    """Use spot machines."""

    @field_validator("max_replicas")
    @classmethod
    def _not_below_min(cls, value: int, info: object) -> int:
        least = getattr(info, "data", {}).get("min_replicas", 1)
        if value < least:
            from gpu_ci.errors import invalid

            raise invalid("is below minReplicas", expected=f"{least} or more")
        return value


class Settings(_Settings):
    """The settings of a rollout."""

    strategy: Literal["canary", "blue-green", "immediate"] = "canary"
    """canary: all steps. blue-green: all traffic at once, then bakeMinutes. immediate: all traffic at once."""
    steps: Annotated[list[Step], Field(min_length=1, max_length=50)] = [
        Step(percent=percent, minutes=10) for percent in (10, 25, 50, 75)
    ]
    """The steps before all traffic, with rising percentages."""
    errors: Errors = Errors()
    """The rules for failed requests."""
    latency: Latency | None = None
    """The rules for slow requests. Without them, latency is not judged."""
    min_requests: int = Field(100, ge=1, le=10**12)
    """The fewest requests of the canary in a step."""
    max_hold: int = Field(60, ge=0, le=_WEEK_MINUTES)
    """The minutes that a step may last longer than planned."""
    on_max_hold: Literal["pause", "rollback"] = "pause"
    """What happens after that time: pause keeps the traffic split, and waits for `gpu-ci deploy resume`."""
    bake_minutes: int = Field(30, ge=1, le=_WEEK_MINUTES)
    """The fewest minutes with all traffic before the rollout is done. The stable model keeps its machines."""
    keep: int = Field(3, ge=1, le=50)
    """The number of deployed models that stay, with the one that has the traffic."""
    deploy_minutes: int = Field(60, ge=5, le=24 * 60)
    """The most minutes until the machines of the canary run."""
    machine: Machine | None = None
    """The machines of the canary. Required for the first model of an endpoint."""
    service_account: str | None = Field(None, pattern=r"^[^@\s]+@[^@\s]+\.gserviceaccount\.com$")
    """The account of the canary's container. By default that of the stable model."""

    @field_validator("steps")
    @classmethod
    def _rising(cls, value: list[Step]) -> list[Step]:
        percents = [each.percent for each in value]
        if percents != sorted(set(percents)):
            from gpu_ci.errors import invalid

            raise invalid(
                "do not rise", expected=f"rising percentages, such as {', '.join(map(str, sorted(set(percents))))}"
            )
        return value

    @model_validator(mode="after")
    def _steps_of_canary(self) -> Settings:
        if self.strategy != "canary" and "steps" in self.model_fields_set:
            from gpu_ci.errors import invalid

            raise invalid(
                f"the strategy {self.strategy} has no steps", expected="no steps", hint="remove steps, or use canary"
            )
        return self

    def after(self, percent: int) -> int:
        """Return the percentage of the step after this percentage. A changed file may lack the current step."""
        later = [each.percent for each in self.steps if each.percent > percent] if self.strategy == "canary" else []
        return later[0] if later else ALL

    def rules(self, percent: int) -> Rules:
        """Return the rules of the verdict on the step with this percentage."""
        earlier = [each.minutes for each in self.steps if each.percent <= percent] or [self.steps[0].minutes]
        return Rules(
            tolerance=self.errors.tolerance,
            ceiling=self.errors.ceiling,
            slow_tolerance=self.latency.tolerance if self.latency else 1.5,
            min_requests=self.min_requests,
            step_minutes=self.bake_minutes if percent == ALL else earlier[-1],
            max_hold_minutes=self.max_hold,
            on_max_hold=self.on_max_hold,
        )
