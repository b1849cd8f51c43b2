"""What an editor can know of a pool on Google Cloud while its stack file is written: the rules of `machine.rules`
that a JSON Schema can say, each from the catalog. What it cannot say (zones of one region, say) the preview tells.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine

Json = dict[str, Any]

_MARKETS = ("spot", "standard", "flex-start", "reservation")
"""Those that Google sells in, the default first."""
_NEEDS = {"flex-start": "maxRunDurationSec", "reservation": "reservation"}
"""What a market asks besides."""


def add_machines(schema: Json) -> None:
    """Machine types with a word on each, and for each machine the zones, markets and disks it can have."""
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
    # Which of the two it is the machine type decides; as an `anyOf` a mistake inside would be told of the whole.
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
        *_rules(own, attached),
    ]


def add_accelerators(schema: Json) -> None:
    """The accelerators that N1 takes, and how many of each."""
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
    """The smallest machine with one of them, which is in every zone that has any."""
    host = min(catalog.n1_shapes(), key=lambda host: (host.vcpus, host.memory_gib))
    return catalog.attached(host.machine_type, accelerator)


def _rules(own: list[Machine], attached: Mapping[str, Machine]) -> Iterator[Json]:
    """For each field that hangs on the machine, what it can be; machines that agree share a rule."""
    for field, values in _FIELDS.items():
        alike: dict[str, tuple[Json, list[str], list[str]]] = {}
        for machine in own:
            found = values(machine)
            alike.setdefault(json.dumps(found), (found, [], []))[1].append(machine.machine_type)
        for name, machine in attached.items():
            found = values(machine)
            alike.setdefault(json.dumps(found), (found, [], []))[2].append(name)
        for found, types, accelerators in alike.values():
            then: Json = {"properties": {field: found}}
            if field == "market" and "spot" not in found["enum"]:  # left out it is spot
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
    """How it is sold, as far as it is not known not to be."""
    return [market for market in _MARKETS if market in (*machine.markets, *machine.unverified_markets)]


def _zones(machines: list[Machine]) -> Json:
    """A zone that one of them is in; of some regions nobody has named the zones."""
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
"""The fields that hang on the machine, each with the schema of what it can be."""


def _machine_text(machine: Machine) -> str:
    return f"{_gpu_text(machine)}; {machine.vcpus} vCPUs, {machine.memory_gib:g} GiB; {', '.join(machine.markets)}"


def _gpu_text(machine: Machine) -> str:
    gpu = machine.gpu
    return f"{machine.gpu_count:g} x {gpu.name}, {gpu.memory_gib} GiB each, compute capability {gpu.compute_capability}"
