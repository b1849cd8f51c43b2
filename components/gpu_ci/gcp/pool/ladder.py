"""The capacity ladder of a pool: the other zones, machine types and markets that are tried.

An entry of the ladder is a rung (LadderRung). The runner manager, or a step of a GPU bridge, tries the pool's own
machine first, and then the rungs in order. A job may get any machine of its pool, so the machine of each rung must be
at least as capable as the pool's own machine.

In this module, `pool` is a map of the pool's arguments by their Python names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import gpu_catalog as catalog
from gpu_catalog import Machine
from gpu_catalog.offers import lacking
from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from ... import naming
from ...args import Args, Input
from ...errors import at_path, invalid, raise_problems
from ...machines.rules import LADDER_MARKETS, machine_of
from ..machine import rules
from ..machine.args import GpuMachineArgs, GuestAccelerator
from ..resource_names import REGION, Subnetwork
from .rules import LOCAL_DISKS

# The fields of a machine that a stack file may set.
_MACHINE_FIELDS = tuple(name for name in GpuMachineArgs.model_fields if name not in GpuMachineArgs.WIRING)
Pool = TypeVar("Pool", bound=GpuMachineArgs)
"""Arguments with the fields ladder and ladder_subnetworks."""
Template = TypeVar("Template")


class LadderRung(Args):
    """A rung of the ladder: another region, zone, machine type or market. An omitted field has the pool's value."""

    machine_type: str | None = Field(
        default=None,
        description="a Compute Engine machine type with as many GPUs as the pool's machine type, and at least the "
        "same GPU memory and compute capability; by default the pool's machine type",
    )
    guest_accelerator: GuestAccelerator | None = Field(
        default=None,
        examples=[{"type": "nvidia-tesla-t4"}],
        description="the GPUs to attach, for an n1 machine type; by default the pool's guestAccelerator",
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
        description="how the machine is bought: spot or standard; by default the pool's market",
    )

    @field_validator("machine_type")
    @classmethod
    def _machine_type(cls, value: str | None) -> str | None:
        return None if value is None else rules.machine_type(value)


class _RungProblem(NamedTuple):
    """A problem of a rung, with the invalid value and its path in the rung."""

    error: PydanticCustomError
    value: Any
    path: tuple[str | int, ...]


def own_machine(pool: Mapping[str, Any]) -> Machine | None:
    """Return the pool's own machine.

    Return None if a field of the machine is invalid. The ladder is then not checked.
    """
    return machine_of(pool) if all(name in pool for name in _MACHINE_FIELDS) else None


def _checked(rungs: list[LadderRung], info: ValidationInfo) -> list[LadderRung]:
    """Raise an error with all problems of the ladder. If the pool's own machine is invalid, check nothing."""
    own = own_machine(info.data)
    if own is not None:
        raise_problems(
            [
                at_path(each.error, each.value, number, *each.path)
                for number, rung in enumerate(rungs)
                for each in _problems(rung, info.data, own)
            ]
        )
    return rungs


def machine_fields(rung: LadderRung, pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine fields of a rung, with the pool's values for omitted fields. Rungs use no reservation."""
    machine_type = rung.machine_type or pool["machine_type"]
    attaches_gpus = catalog.takes_accelerator(machine_type)
    fields = {
        "machine_type": machine_type,
        "guest_accelerator": rung.guest_accelerator or (pool["guest_accelerator"] if attaches_gpus else None),
        "market": rung.market or pool["market"],
        "reservation": None,
    }
    machine = _machine(fields)
    zones_of_region = catalog.zones(machine, rung.region) if machine and rung.region else ()
    return {**fields, "zones": list(rung.zones or zones_of_region)}


def _checked_subnetworks(subnetworks: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """Raise an error if a region of the ladder has no subnetwork. If a field of the machine is invalid, check nothing.

    `subnetworks` has the subnetworks of the ladder's regions.
    """
    pool = info.data
    if "ladder" in pool and own_machine(pool):
        own_region = catalog.region_of(pool["zones"][0])
        regions = dict.fromkeys(catalog.region_of(machine_fields(rung, pool)["zones"][0]) for rung in pool["ladder"])
        if missing := [region for region in regions if region not in (own_region, *subnetworks)]:
            raise invalid(f"has no subnetwork for {', '.join(missing)}, which ladder uses", "no-subnetwork")
    return subnetworks


Ladder = Annotated[list[LadderRung], AfterValidator(_checked)]
"""The ladder of a pool. The fields of the pool's own machine come before this field."""
LadderSubnetworks = Annotated[
    dict[str, Input[Subnetwork]],
    AfterValidator(_checked_subnetworks),
    Field(
        validate_default=True,
        description="for each other region of the ladder, the subnetwork of its machines, as "
        "projects/<project>/regions/<region>/subnetworks/<name>",
    ),
]


def rungs(pool: Pool) -> list[Pool]:
    """Return the arguments of the pool itself, followed by the arguments of a pool with the machine of each rung."""
    given: Any = pool
    offers = [pool]
    for rung in given.ladder:
        changed = machine_fields(rung, dict(pool))
        region = catalog.region_of(changed["zones"][0])
        subnetwork = given.subnetwork if region == given.region else given.ladder_subnetworks[region]
        offers.append(pool.model_copy(update={**changed, "subnetwork": subnetwork, "ladder": []}))
    return offers


def template_name(pool: GpuMachineArgs) -> str:
    """Return the region and the machine, which identify a template of the pool.

    Rungs that differ only in their market share a template.
    """
    gpus = pool.guest_accelerator
    attached = f"-{gpus.type.removeprefix('nvidia-').removeprefix('tesla-')}x{gpus.count}" if gpus else ""
    return f"{pool.region}-{pool.machine_type}{attached}"


def rung_templates(
    name: str, pool: Pool, check: Callable[[str, Pool, list[str]], Template]
) -> Iterator[tuple[Pool, Template | None]]:
    """Yield the pool and each rung of its ladder with the checked template of its region and machine.

    None stands for the pool's own template. The market does not affect the GPU, so rungs that differ only in their
    market share a template. If the pool has a reservation, rungs do not use the pool's own template, because it is for
    machines of the reservation only. `check` creates a template and its check, given a logical name and the zones.
    """
    yield pool, None
    others = rungs(pool)[1:]
    templates: dict[str, Template | None] = {} if pool.reservation else {template_name(pool): None}
    for rung in others:
        key = template_name(rung)
        if key not in templates:
            zones = [zone for each in others if template_name(each) == key for zone in each.zones]
            # Google's limit is 63 characters. The suffix -template and Pulumi's random suffix need the rest.
            templates[key] = check(naming.fit(f"{name}-{key}", 45), rung, list(dict.fromkeys(zones)))
        yield rung, templates[key]


def _machine(chosen: Mapping[str, Any]) -> Machine | None:
    """Return the machine of a rung. Return None if its GPUs are missing or cannot be attached to it."""
    try:
        return machine_of(chosen)
    except catalog.DoesNotFit:
        return None


def _problems(rung: LadderRung, pool: Mapping[str, Any], own: Machine) -> Iterator[_RungProblem]:
    """Yield the problems of one rung."""
    if rung.zones and rung.region:
        yield _RungProblem(
            invalid("is not allowed together with region", "zones-and-region", hint="remove one of the two"),
            rung.zones,
            ("zones",),
        )
        return
    if not rung.zones and not rung.region:
        yield _RungProblem(
            invalid("is missing", "missing", safe_hint="such as region: us-east1, or zones: [us-east1-b]"),
            None,
            ("zones",),
        )
        return
    if not rung.market and pool["market"] not in LADDER_MARKETS:
        text = f"is missing: the pool's market is {pool['market']}, which is not supported in a ladder"
        yield _RungProblem(
            invalid(text, "market-not-in-ladder", safe_hint="such as market: standard"), None, ("market",)
        )
        return
    chosen = machine_fields(rung, pool)
    machine = _machine(chosen)
    if machine and rung.region and not chosen["zones"]:
        near = catalog.closest_location(rung.region, machine.regions)
        hint = f"did you mean {near}" if near else rules.places_with(machine, machine.regions, "regions")
        yield _RungProblem(
            invalid(f"has no {machine.accelerator}", "region-without-gpu", hint=hint), rung.region, ("region",)
        )
        return
    # Without a valid machine, the zones of the region are unknown. The zones of the pool are then used, so that only
    # the problem of the machine is reported.
    zones = chosen["zones"] or pool["zones"]
    yield from _machine_problems(rung, {**{name: pool[name] for name in _MACHINE_FIELDS}, **chosen, "zones": zones})
    if machine:
        yield from _missing_capabilities(rung, machine, own)
    if _may_wait_stopped(chosen, pool) and rules.has_local_disks(chosen):
        hint = "use a machine type without local SSDs, use another market, or remove standby"
        yield _RungProblem(
            invalid(f"{LOCAL_DISKS}, and the pool has standby", "local-disks-cannot-stop", safe_hint=hint),
            chosen["machine_type"],
            ("machine_type",),
        )


def _may_wait_stopped(chosen: Mapping[str, Any], pool: Mapping[str, Any]) -> bool:
    """Return True if the manager may stop machines of the rung: the pool has standby, and the market is the same.

    If the pool's own machine has local disks, return False, because the validator of `standby` already reports this.
    """
    has_standby = pool.get("github") is not None and pool.get("standby") is not None
    return has_standby and chosen["market"] == pool["market"] and not rules.has_local_disks(pool)


def _machine_problems(rung: LadderRung, chosen: Mapping[str, Any]) -> Iterator[_RungProblem]:
    """Yield the problems that a pool with this machine would have, each at a field of the rung."""
    try:
        GpuMachineArgs.__pydantic_validator__.validate_python({**chosen, **GpuMachineArgs.open_wiring()})
    except ValidationError as error:
        for line in error.errors(include_url=False):
            field, *rest = line["loc"]
            if field == "zones" and rung.region:
                yield _RungProblem(invalid(**line["ctx"]), rung.region, ("region",))
            elif field in LadderRung.model_fields:
                yield _RungProblem(invalid(**line["ctx"]), line["input"], (field, *rest))
            else:
                text = f"is not compatible with the pool's {to_camel(str(field))}: {line['msg']}"
                context = line["ctx"] | {"text": text}
                yield _RungProblem(invalid(**context), chosen["machine_type"], ("machine_type",))


def _missing_capabilities(rung: LadderRung, machine: Machine, own: Machine) -> Iterator[_RungProblem]:
    """Yield a problem for each property in which the machine is less capable than the pool's machine."""
    texts = lacking(machine, own)
    if machine.gpu_count != own.gpu_count:
        texts.append(f"has {machine.gpu_count:g} GPUs, not {own.gpu_count:g}")
    field = "guest_accelerator" if rung.guest_accelerator and not rung.machine_type else "machine_type"
    for text in texts:
        hint = "a job may get any machine of its pool; create another pool for other machines"
        yield _RungProblem(invalid(text, "less-capable", safe_hint=hint), machine.machine_type, (field,))
