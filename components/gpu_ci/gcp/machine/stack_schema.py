"""Adds rules for Google Cloud pools to the JSON Schema of stack files, so that editors can check stack files.

A JSON Schema can express some rules of `machine.rules`, such as the zones of a machine type. `gpu-ci check` and the
preview check all rules, such as the rule that all zones are in one region.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine

Json = dict[str, Any]

_MARKETS = ("spot", "standard", "flex-start", "reservation")
"""The markets of Google, the default first."""
_NEEDS = {"flex-start": "maxRunDurationSec", "reservation": "reservation"}
"""The additional field that a market requires."""


def add_machines(schema: Json) -> None:
    """Add the machine types with descriptions, and the possible zones, markets and disks of each machine type."""
    fields = schema["properties"]
    own = list(catalog.machines(cloud="gcp", n1=False))
    hosts = catalog.n1_shapes()
    attached = {name: _attached(name) for name in catalog.attachable()}
    fields["machineType"] |= {
        "enum": [*(machine.machine_type for machine in own), *(host.machine_type for host in hosts)],
        "markdownEnumDescriptions": [
            *map(_machine_text, own),
            *(f"{host.vcpus} vCPUs, {host.memory_gib:g} GiB; takes a `guestAccelerator`" for host in hosts),
        ],
    }
    fields["zones"] |= {"uniqueItems": True, "items": _zones([*own, *attached.values()])}
    # The machine type decides which of the two variants applies. With `anyOf`, an editor would report an error inside
    # the map as an error of the whole map.
    model, _ = fields["guestAccelerator"].pop("anyOf")
    n1 = {"properties": {"machineType": {"enum": [host.machine_type for host in hosts]}}, "required": ["machineType"]}
    schema["allOf"] = [
        *(
            {"if": {"properties": {"market": {"const": market}}, "required": ["market"]}, "then": {"required": [key]}}
            for market, key in _NEEDS.items()
        ),
        {
            "if": n1,
            "then": {"required": ["guestAccelerator"], "properties": {"guestAccelerator": {"type": "object", **model}}},
            "else": {"properties": {"guestAccelerator": {"type": "null"}}},
        },
        *_rules(own, attached, fields),
    ]


def add_accelerators(schema: Json) -> None:
    """Add the accelerators of N1 machines, and the possible numbers of each."""
    names = catalog.attachable()
    schema["properties"]["type"] |= {
        "enum": list(names),
        "markdownEnumDescriptions": [_gpu_text(_attached(name)) for name in names],
    }
    schema["allOf"] = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"properties": {"count": {"enum": list(catalog.attachment_counts(name))}}},
        }
        for name in names
    ]


def _attached(accelerator: str) -> Machine:
    """Return the smallest N1 machine with one GPU of this type. Every zone with the accelerator has this machine."""
    host = min(catalog.n1_shapes(), key=lambda host: (host.vcpus, host.memory_gib))
    return catalog.attached(host.machine_type, accelerator)


def _rules(own: list[Machine], attached: Mapping[str, Machine], fields: Json) -> Iterator[Json]:
    """Yield rules with the possible values of each of the fields that depends on the machine.

    Machines with the same values share a rule.
    """
    for field, values in _FIELDS.items():
        if field not in fields:
            continue
        by_schema: dict[str, tuple[Json, list[str], list[str]]] = {}
        for machine in own:
            schema = values(machine)
            by_schema.setdefault(json.dumps(schema), (schema, [], []))[1].append(machine.machine_type)
        for name, machine in attached.items():
            schema = values(machine)
            by_schema.setdefault(json.dumps(schema), (schema, [], []))[2].append(name)
        for schema, types, accelerators in by_schema.values():
            then: Json = {"properties": {field: schema}}
            if field == "market" and "spot" not in schema["enum"]:  # the default is spot
                then["required"] = [field]
            if types:
                yield {"if": _has({"machineType": {"enum": types}}), "then": then}
            if accelerators:
                chosen = {"type": "object", "properties": {"type": {"enum": accelerators}}}
                yield {"if": _has({"guestAccelerator": chosen}), "then": then}


def _has(fields: Json) -> Json:
    return {"properties": fields, "required": list(fields)}


def _local_ssds(machine: Machine) -> Json:
    disks = machine.local_disks
    return {"enum": [0, *(disks.counts if disks.mode == "optional" else ())]}


def _markets(machine: Machine) -> list[str]:
    """Return the markets of a machine, including markets that no source confirms."""
    return [market for market in _MARKETS if market in (*machine.markets, *machine.unverified_markets)]


def _zones(machines: list[Machine]) -> Json:
    """Return the schema of a zone that has one of the machines.

    For some regions, Google does not publish the zones with the machine. There, every zone is allowed.
    """
    known = sorted({zone for machine in machines for zone in machine.zones})
    regions = sorted({region for machine in machines for region in machine.zoneless_regions})
    if not regions:
        return {"enum": known}
    return {"anyOf": [{"enum": known}, {"pattern": f"^({'|'.join(regions)})-(ai[0-9]+)?[a-z]$"}]}


_FIELDS: dict[str, Callable[[Machine], Json]] = {
    "zones": lambda machine: {"items": _zones([machine])},
    "market": lambda machine: {"enum": _markets(machine)},
    "diskType": lambda machine: {"enum": [*machine.boot_disks, None]},
    "nicType": lambda machine: {"enum": [*machine.nics, None]},
    "localSsdCount": _local_ssds,
}
"""The fields that depend on the machine, each with the function that returns its schema."""


def _machine_text(machine: Machine) -> str:
    return f"{_gpu_text(machine)}; {machine.vcpus} vCPUs, {machine.memory_gib:g} GiB; {', '.join(machine.markets)}"


def _gpu_text(machine: Machine) -> str:
    gpu = machine.gpu
    return f"{machine.gpu_count:g} x {gpu.name}, {gpu.memory_gib} GiB each, compute capability {gpu.compute_capability}"
