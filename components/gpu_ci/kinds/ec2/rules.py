"""Validates the fields of Ec2MachineArgs by the rules of EC2 and the facts of gpu_catalog.

Each function validates the field of its name: it returns a valid value and raises an error for an invalid value.
`others` has the fields validated before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine

from ...aws.nodes import rules as aws_rules
from ...aws.resource_names import ZONE
from ...errors import at_path, invalid, raise_problems
from ...machines.rules import torch_of

_ZONE = re.compile(ZONE)


def machine_of(choices: Mapping[str, Any]) -> Machine | None:
    """Return the machine of these fields, or None if the type is invalid."""
    name = choices.get("machine_type")
    return catalog.machine(name, "aws") if name else None


def machine_type(value: str, _others: Mapping[str, Any]) -> str:
    """Return the instance type. It must have a GPU that the smoke check supports."""
    _, problem = aws_rules.machine_in_region(value, "")
    if problem:
        raise problem
    return value


def zones(values: list[str], others: Mapping[str, Any]) -> list[str]:
    """Return the zones. All must be in one region, and the region must have the instance type."""
    region = next((catalog.region_of(each) for each in values if _ZONE.fullmatch(each)), "")
    name, problems = str(others.get("machine_type") or ""), []
    for index, zone in enumerate(values):
        problem = aws_rules.zone_problem(zone, region)
        if zone in values[:index]:
            problem = invalid("is a duplicate", "duplicate", hint="remove it")
        if not problem and name:
            _, problem = aws_rules.machine_in_region(name, region)
        if problem:
            problems.append(at_path(problem, zone, index))
    raise_problems(problems)
    return values


def subnets(values: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the subnets by zone. Each zone of the pool must have one."""
    aws_rules.subnets(values, {})
    if missing := without_subnet(others.get("zones", ()), values):
        raise invalid(
            f"has no subnet of {', '.join(missing)}",
            "zone-without-subnet",
            hint=f"add {missing[0]}: subnet-…, or remove it from zones",
        )
    return values


def without_subnet(places: Iterable[str], known: Mapping[str, Any]) -> list[str]:
    """Return the zones that have no subnet."""
    return [zone for zone in places if zone not in known]


def market_of(chosen: str) -> catalog.Market:
    """Return the catalog's market: the runner manager's market `reservation` is a Capacity Block on EC2."""
    return catalog.market("capacity-block" if chosen == "reservation" else chosen)


def market(value: str, others: Mapping[str, Any]) -> str:
    """Return the market. EC2 must sell the machine in it."""
    machine = machine_of(others)
    if machine and market_of(value) not in (*machine.markets, *machine.unverified_markets):
        hint = f"use {' or '.join(each for each in machine.markets if each != 'capacity-block')}"
        if value == "reservation":
            hint = "use market: standard, and set capacityReservationId for an On-Demand Capacity Reservation"
        raise invalid(f"{machine.machine_type} is not available for this market", "market-without-machine", hint=hint)
    return value


def capacity_reservation_id(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the capacity reservation, which is in one zone. Market reservation requires it, spot does not allow it."""
    chosen, places = others.get("market"), others.get("zones", ())
    if chosen == "reservation" and value is None:
        raise invalid("is missing; market: reservation requires it", "missing", hint="such as cr-0123456789abcdef0")
    if value is not None and chosen == "spot":
        hint = "use market: standard or reservation, or remove it"
        raise invalid("cannot be used by spot machines", "not-for-market", hint=hint)
    if value is not None and len(places) > 1:
        hint = f"zones: [{places[0]}], if that is the zone of the reservation"
        raise invalid("is in one zone, but zones has more", "one-zone-in-reservation", hint=hint)
    return value


def torch(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the torch version. It must have kernels for the GPU. Without a value, the default version is checked."""
    return torch_of(value, machine_of(others))
