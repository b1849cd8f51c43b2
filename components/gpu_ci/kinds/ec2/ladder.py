"""The capacity ladder of a pool on EC2: the other zones, instance types and markets that are tried.

`gcp/pool/ladder.py` explains the terms. In this module, `pool` is a map of the pool's arguments by their Python names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from ...args import Args
from ...errors import at_path, invalid, raise_problems
from ...machines.rules import LADDER_MARKETS, less_capable
from . import rules

_FIELDS = ("machine_type", "zones", "subnets", "market", "capacity_reservation_id")


class Ec2Rung(Args):
    """A rung of the ladder: another zone, instance type or market. An omitted field has the pool's value."""

    machine_type: str | None = Field(
        default=None,
        description="an EC2 instance type with as many GPUs as the pool's type, and at least the same GPU memory and "
        "compute capability; by default the pool's type",
    )
    zones: list[str] | None = Field(
        default=None,
        min_length=1,
        examples=[["us-east-2a"]],
        description="zones of one region, each with an entry in subnets; by default the pool's zones",
    )
    market: Literal["spot", "standard"] | None = Field(
        default=None,
        examples=["standard"],
        description="how the machine is bought: spot or standard; by default the pool's market",
    )

    @field_validator("machine_type")
    @classmethod
    def _machine_type(cls, value: str | None) -> str | None:
        return None if value is None else rules.machine_type(value, {})


def machine_fields(rung: Ec2Rung, pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine fields of a rung, with the pool's values for omitted fields. Rungs use no reservation."""
    own = {name: getattr(rung, name) or pool[name] for name in ("machine_type", "zones", "market")}
    return {**own, "capacity_reservation_id": None}


def _checked(rungs: list[Ec2Rung], info: ValidationInfo) -> list[Ec2Rung]:
    """Raise an error with all problems of the ladder. If the pool's own machine is invalid, check nothing."""
    pool = info.data
    if all(name in pool for name in _FIELDS):
        raise_problems([each for number, rung in enumerate(rungs) for each in _problems(number, rung, pool)])
    return rungs


Ladder = Annotated[list[Ec2Rung], AfterValidator(_checked)]
"""The ladder of a pool. The fields of the pool's own machine come before this field."""


def _problems(number: int, rung: Ec2Rung, pool: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
    if not rung.market and pool["market"] not in LADDER_MARKETS:
        text = f"is missing: the pool's market is {pool['market']}, which is not supported in a ladder"
        error = invalid(text, "market-not-in-ladder", safe_hint="such as market: standard")
        yield at_path(error, None, number, "market")
        return
    chosen = machine_fields(rung, pool)
    if chosen["market"] == pool["market"] and not rung.machine_type and not rung.zones:
        error = invalid("is the pool itself", "same-as-pool", safe_hint="add machineType, zones or another market")
        yield at_path(error, None, number)
        return
    checks: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {"zones": rules.zones, "market": rules.market}
    for name, check in checks.items():
        # A value of the pool does not fit another machine type of the rung.
        field = name if getattr(rung, name) else "machine_type"
        try:
            check(chosen[name], chosen)
        except PydanticCustomError as wrong:
            yield at_path(wrong, chosen[field], number, field)
        except ValidationError as wrong:
            for line in wrong.errors(include_url=False):
                at = line["loc"] if field == "zones" else ()
                yield at_path(invalid(**line["ctx"]), line["input"] if at else chosen[field], number, field, *at)
    if missing := rules.without_subnet(chosen["zones"], pool["subnets"]):
        error = invalid(f"subnets has no {', '.join(missing)}", "zone-without-subnet", hint="add its subnet to subnets")
        yield at_path(error, missing[0], number, "zones")
    own, machine = rules.machine_of(pool), rules.machine_of(chosen)
    assert own is not None  # noqa: S101 - for the type checker
    assert machine is not None  # noqa: S101 - for the type checker
    for problem in less_capable(machine, own):
        yield at_path(problem, machine.machine_type, number, "machine_type")
