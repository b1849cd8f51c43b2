"""The configuration of a pool, as the stack's output `manager` has it. A supplier adds the forms of its own values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from .model import Offer, Pool

DEFAULT = "compute-engine"
"""The supplier of a pool whose configuration names none."""
Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]


class Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class RungConfig(Model):
    """One place where the manager requests machines."""

    zone: str = Field(min_length=1)
    """The place in which the supplier starts the machine, such as a zone or a data centre."""
    machine_type: str = Field(min_length=1)
    """A machine type, such as g2-standard-8."""
    market: str = Field(pattern=r"^(spot|standard|reservation|flex-start)$")
    """The market of the machine: spot, standard, reservation or flex-start."""
    gpu: str = ""
    """The supplier's name of the GPU, such as nvidia-l4."""
    usd_per_hour: float | None = Field(default=None, ge=0)
    """The price of one machine."""
    template: str = ""
    """What the machine is made from, if it differs from the pool's template."""


class PoolConfig(Model):
    """A pool. Each supplier has a subclass with its own forms of accounts, templates and zones."""

    name: Name
    """The name of the pool: 1 to 40 lower-case letters, digits and dashes."""
    project: str = Field(min_length=1)
    """The account of the supplier, such as a Google Cloud project."""
    template: str = Field(min_length=1)
    """What the machines are made from, such as an instance template."""
    max: int = Field(ge=1, le=1000)
    """The most machines at any time, 1 to 1000."""
    labels: list[str] = Field(min_length=1, max_length=100)
    """Labels of the runners, 1 to 100."""
    runner_group: str = "Default"
    """The runner group that the runners join."""
    boot_sec: int = Field(default=1500, ge=60)
    """Seconds from the start of a machine to its registered runner, at least 60."""
    idle_sec: int = Field(default=600, ge=1)
    """Seconds that a runner waits for a job, at least 1."""
    rungs: Sequence[RungConfig] = Field(min_length=1)
    """The places where the manager requests machines, in order."""
    price_ceiling_usd: float | None = Field(default=None, gt=0)
    """The highest price of a machine, in USD per hour."""
    registered_by: Literal["machine", "manager"] = "machine"
    """The program that registers the runners: machine or manager."""
    wait_objective_sec: int | None = Field(default=None, ge=1)
    """Seconds that a job may wait for its runner before an alert counts it, at least 1."""
    standby: int = Field(default=0, ge=0, le=1000)
    """The number of stopped machines that wait for jobs, 0 to max. It needs registeredBy: manager."""
    supplier: str = DEFAULT
    """The supplier of the machines."""

    @model_validator(mode="after")
    def _standby(self) -> PoolConfig:
        if self.standby > self.max:
            raise ValueError(f"standby: {self.standby} is more than max, which is {self.max}")
        if self.standby and self.registered_by != "manager":
            raise ValueError(
                "standby: needs registeredBy: manager, because a machine that registers itself cannot wait stopped"
            )
        return self

    def plain(self) -> Pool:
        """Return the pool as the type that the control loop uses."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        rungs = tuple(Offer(**rung.model_dump()) for rung in self.rungs)
        fields["account"], _ = fields.pop("project"), fields.pop("supplier")
        return Pool(**{**fields, "labels": frozenset(label.lower() for label in self.labels), "rungs": rungs})
