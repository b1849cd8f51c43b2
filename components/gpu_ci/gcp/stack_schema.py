"""What an editor can know of a pool on Google Cloud while its stack file is written: the rules of `pool_rules` that a
JSON Schema can say, each from the catalog. What it cannot say (zones of one region, say) the preview tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine

Json = dict[str, Any]

_MARKETS = ("spot", "standard")
"""Those that pools buy in."""


def add_machines(schema: Json) -> None:
    """Machine types with a word on each, and for each machine the zones, markets and disks it can have."""
    fields = schema["properties"]
    own = [machine for machine in catalog.machines(cloud="gcp", n1=False) if _is_choosable(machine)]
    hosts = catalog.n1_shapes()
    attached = {name: _attached(name) for name in catalog.attachable()}
    fields["machineType"] |= {
        "enum": [*(machine.machine_type for machine in own), *(host.machine_type for host in hosts)],
        "markdownEnumDescriptions": [
            *map(_in_words, own),
            *(f"{host.vcpus} vCPUs, {host.memory_gib:g} GiB; takes a `guestAccelerator`" for host in hosts),
        ],
    }
    fields["zones"] |= {"uniqueItems": True, "items": _zones([*own, *attached.values()])}
    # Which of the two it is the machine type decides; as an `anyOf` a mistake inside would be told of the whole.
    model, _ = fields["guestAccelerator"].pop("anyOf")
    n1 = {"properties": {"machineType": {"enum": [host.machine_type for host in hosts]}}, "required": ["machineType"]}
    schema["allOf"] = [
        {
            "if": n1,
            "then": {"required": ["guestAccelerator"], "properties": {"guestAccelerator": {"type": "object", **model}}},
            "else": {"properties": {"guestAccelerator": {"type": "null"}}},
        },
        *(_rule({"machineType": {"enum": names}}, machine) for names, machine in _alike(own)),
        *(
            _rule({"guestAccelerator": {"type": "object", "properties": {"type": {"const": name}}}}, machine)
            for name, machine in attached.items()
        ),
    ]


def add_accelerators(schema: Json) -> None:
    """The accelerators that N1 takes, and how many of each."""
    names = catalog.attachable()
    schema["properties"]["type"] |= {
        "enum": list(names),
        "markdownEnumDescriptions": [_gpu_in_words(_attached(name)) for name in names],
    }
    schema["allOf"] = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"properties": {"count": {"enum": list(catalog.attachment_counts(name))}}},
        }
        for name in names
    ]


def _is_choosable(machine: Machine) -> bool:
    """A whole GPU, sold in a way that pools buy; the rest is refused whatever else stands there."""
    return machine.gpu_count >= 1 and bool({*_MARKETS} & {*machine.markets})


def _attached(accelerator: str) -> Machine:
    """The smallest machine with one of them, which is in every zone that has any."""
    host = min(catalog.n1_shapes(), key=lambda host: (host.vcpus, host.memory_gib))
    return catalog.attached(host.machine_type, accelerator)


def _alike(machines: Iterable[Machine]) -> list[tuple[list[str], Machine]]:
    """Machine types that can be had in the same places and ways, and one of them."""
    found: dict[Any, tuple[list[str], Machine]] = {}
    for machine in machines:
        key = (machine.zones, machine.zoneless_regions, machine.markets, machine.boot_disks)
        found.setdefault(key, ([], machine))[0].append(machine.machine_type)
    return list(found.values())


def _rule(condition: Json, machine: Machine) -> Json:
    """Where the condition holds, what this machine has."""
    markets = [market for market in _MARKETS if market in machine.markets]
    fields: Json = {
        "zones": {"items": _zones([machine])},
        "market": {"enum": markets},
        "diskType": {"enum": [*machine.boot_disks, None]},
    }
    # Left out it is spot, which not every machine is sold as.
    required = {} if "spot" in markets else {"required": ["market"]}
    return {
        "if": {"properties": condition, "required": list(condition)},
        "then": {"properties": fields, **required},
    }


def _zones(machines: list[Machine]) -> Json:
    """A zone that one of them is in; of some regions nobody has named the zones."""
    known = sorted({zone for machine in machines for zone in machine.zones})
    regions = sorted({region for machine in machines for region in machine.zoneless_regions})
    if not regions:
        return {"enum": known}
    return {"anyOf": [{"enum": known}, {"pattern": f"^({'|'.join(regions)})-(ai[0-9]+)?[a-z]$"}]}


def _in_words(machine: Machine) -> str:
    return f"{_gpu_in_words(machine)}; {machine.vcpus} vCPUs, {machine.memory_gib:g} GiB; {', '.join(machine.markets)}"


def _gpu_in_words(machine: Machine) -> str:
    gpu = machine.gpu
    return f"{machine.gpu_count:g} x {gpu.name}, {gpu.memory_gib} GiB each, compute capability {gpu.compute_capability}"
