"""The capacity ladder of a runner pool: other zones and machine types, checked against the pool's own machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import gpu_catalog as catalog
from gpu_catalog import Machine
from gpu_catalog.needs import missing_needs, needs_of
from pydantic import Field, ValidationError, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from ...args import Args
from ...errors import at_path, invalid, raise_problems
from ..machine import rules
from ..machine.args import GpuMachineArgs, GuestAccelerator
from ..machine.rules import machine_of
from ..resource_names import REGION
from .rules import LOCAL_DISKS

# The machine fields that a stack file may set.
_CHOICES = tuple(name for name in GpuMachineArgs.model_fields if name not in GpuMachineArgs.WIRING)
_ANY_WIRING = {"project": "acme-ci", "subnetwork": "projects/acme-ci/regions/us-central1/subnetworks/ci"}
# The manager can switch between these two markets when it inserts a machine. Reservations and flex-start require other
# templates, and flex-start also another API call.
MARKETS = ("spot", "standard")


class LadderRung(Args):
    """Another region, zone, machine type or market to try. Omitted fields have the value of the pool."""

    machine_type: str | None = Field(
        default=None,
        description="a Compute Engine machine type with as many GPUs as the pool's, where each GPU has as much "
        "memory and the same or a later compute capability; by default the pool's",
    )
    guest_accelerator: GuestAccelerator | None = Field(
        default=None,
        examples=[{"type": "nvidia-tesla-t4"}],
        description="the GPUs to attach, for an n1 machine type; by default the pool's",
    )
    # The format is not checked here, so that the hint for a wrong region lists the regions that have the machine.
    region: Annotated[str, Field(json_schema_extra={"pattern": REGION})] | None = Field(
        default=None,
        examples=["us-east1"],
        description="a region, such as us-east1, to use all of its zones that have the machine",
    )
    zones: list[str] | None = Field(
        default=None,
        min_length=1,
        examples=[["us-east1-b"]],
        description="zones of one region that have the machine, in the order in which they are tried; an alternative "
        "to region",
    )
    market: Literal["spot", "standard"] | None = Field(
        default=None,
        examples=["standard"],
        description="how the machine is bought: spot or standard; by default as the pool's machines",
    )

    @field_validator("machine_type")
    @classmethod
    def _machine_type(cls, value: str | None) -> str | None:
        return None if value is None else rules.machine_type(value)


class _Found(NamedTuple):
    """A problem of a rung, with the invalid value and its path."""

    problem: PydanticCustomError
    value: Any
    at: tuple[str | int, ...]


def own_machine(pool: Mapping[str, Any]) -> Machine | None:
    """Return the pool's own machine, or None if its fields are invalid. The ladder is not checked in that case."""
    return machine_of(pool) if all(name in pool for name in _CHOICES) else None


def check(rungs: Sequence[LadderRung], pool: Mapping[str, Any]) -> None:
    """Raise the problems of a ladder if the pool's own machine is valid."""
    own = own_machine(pool)
    if own is None:
        return
    asked: dict[tuple[str, str, str], str] = {}
    if pool["reservation"] is None:
        asked = {(own.key, pool["market"], zone): "the pool" for zone in pool["zones"]}
    problems = []
    for number, rung in enumerate(rungs):
        found = [*_problems(rung, pool, own)] or [*_repeated(rung, number, pool, asked)]
        problems += [at_path(each.problem, each.value, number, *each.at) for each in found]
    raise_problems(problems)


def choices(rung: LadderRung, pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine fields of a rung, with the pool's values for omitted fields. Rungs use no reservation."""
    machine_type = rung.machine_type or pool["machine_type"]
    attaches = catalog.takes_accelerator(machine_type)
    changed = {
        "machine_type": machine_type,
        "guest_accelerator": rung.guest_accelerator or (pool["guest_accelerator"] if attaches else None),
        "market": rung.market or pool["market"],
        "reservation": None,
    }
    machine = _machine(changed)
    in_region = catalog.zones(machine, rung.region) if machine and rung.region else ()
    return {**changed, "zones": list(rung.zones or in_region)}


def cheapest_usd(value: float, offers: Sequence[Mapping[str, Any]]) -> float:
    """Return the price ceiling. Raise an error if every machine of the pool costs more, by the known prices."""
    prices = [
        catalog.price(machine, catalog.region_of(offer["zones"][0]), catalog.market(offer["market"]))
        for offer in offers
        if (machine := machine_of(offer))
    ]
    known = [price.usd_per_hour for price in prices if price]
    if known and len(known) == len(offers) and min(known) > value:
        raise invalid(
            "is below the price of every machine of the pool, so no machine would start",
            expected=f"at least {min(known):g}",
            hint="raise priceCeilingUsd, or add a cheaper rung to ladder",
        )
    return value


def _machine(chosen: Mapping[str, Any]) -> Machine | None:
    """Return the machine of a rung. Return None if its GPUs are missing or cannot be attached to it."""
    try:
        return machine_of(chosen)
    except catalog.DoesNotFit:
        return None


def _problems(rung: LadderRung, pool: Mapping[str, Any], own: Machine) -> Iterator[_Found]:
    """Yield the problems of one rung by itself."""
    if rung.zones and rung.region:
        yield _Found(
            invalid("is not allowed together with region", hint="remove one of the two"), rung.zones, ("zones",)
        )
        return
    if not rung.zones and not rung.region:
        yield _Found(
            invalid("is missing", safe_hint="such as region: us-east1, or zones: [us-east1-b]"), None, ("zones",)
        )
        return
    if not rung.market and pool["market"] not in MARKETS:
        text = f"is missing: the pool's market is {pool['market']}, which a rung cannot have"
        yield _Found(invalid(text, safe_hint="such as market: standard"), None, ("market",))
        return
    chosen = choices(rung, pool)
    machine = _machine(chosen)
    if machine and rung.region and not chosen["zones"]:
        hint = f"regions that have it: {', '.join(machine.regions)}"
        yield _Found(invalid(f"has no {machine.accelerator}", hint=hint), rung.region, ("region",))
        return
    # Without a machine the region has no zones, and another problem is reported for that.
    zones = chosen["zones"] or pool["zones"]
    yield from _against_catalog(rung, {**{name: pool[name] for name in _CHOICES}, **chosen, "zones": zones})
    if machine:
        yield from _worse(rung, machine, own)
    if _may_wait_stopped(chosen, pool) and rules.has_local_disks(chosen):
        hint = "use a machine type without local SSDs, use another market, or remove standby"
        yield _Found(
            invalid(f"{LOCAL_DISKS}, and the pool has standby", safe_hint=hint),
            chosen["machine_type"],
            ("machine_type",),
        )


def _may_wait_stopped(chosen: Mapping[str, Any], pool: Mapping[str, Any]) -> bool:
    """Return True if the runner manager may stop machines of the rung: those with the pool's own market."""
    managed = pool.get("github") is not None and pool.get("standby") is not None
    # If the pool's own machine has local disks, that is a problem of `standby`.
    return managed and chosen["market"] == pool["market"] and not rules.has_local_disks(pool)


def _against_catalog(rung: LadderRung, chosen: Mapping[str, Any]) -> Iterator[_Found]:
    """Yield the errors that a pool with this machine would have."""
    try:
        GpuMachineArgs.__pydantic_validator__.validate_python({**chosen, **_ANY_WIRING})
    except ValidationError as error:
        for line in error.errors(include_url=False):
            field, *rest = line["loc"]
            if field == "zones" and rung.region:
                yield _Found(invalid(**line["ctx"]), rung.region, ("region",))
            elif field in LadderRung.model_fields:
                yield _Found(invalid(**line["ctx"]), line["input"], (field, *rest))
            else:
                context = line["ctx"] | {
                    "text": f"is not compatible with the pool's {to_camel(str(field))}: {line['msg']}"
                }
                yield _Found(invalid(**context), chosen["machine_type"], ("machine_type",))


def _worse(rung: LadderRung, machine: Machine, own: Machine) -> Iterator[_Found]:
    """Yield the differences that make the machine less capable than the pool's machine."""
    texts = [each.text for each in missing_needs(machine, needs_of(own)) if each.need != "gpu_count"]
    if machine.gpu_count != own.gpu_count:
        texts.append(f"has {machine.gpu_count:g} GPUs, not {own.gpu_count:g}")
    at = "guest_accelerator" if rung.guest_accelerator and not rung.machine_type else "machine_type"
    for text in texts:
        hint = "a job may get any machine of its pool; create another pool for other machines"
        yield _Found(invalid(text, safe_hint=hint), machine.machine_type, (at,))


def _repeated(
    rung: LadderRung, number: int, pool: Mapping[str, Any], asked: dict[tuple[str, str, str], str]
) -> Iterator[_Found]:
    """Yield zones that an earlier rung already lists for the same machine and market. Add the others to `asked`."""
    chosen = choices(rung, pool)
    machine = machine_of(chosen)
    key = machine.key if machine else ""
    for index, zone in enumerate(chosen["zones"]):
        place = (key, chosen["market"], zone)
        if place in asked:
            at: tuple[str | int, ...] = ("zones", index) if rung.zones else ("region",)
            text = f"{asked[place]} already lists {zone} for {chosen['market']} {chosen['machine_type']}"
            hint = "remove it" if rung.zones else "list only the other zones of the region"
            yield _Found(invalid(text, safe_hint=hint), zone, at)
        else:
            asked[place] = f"ladder[{number}]"
