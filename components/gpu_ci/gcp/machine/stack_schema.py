"""Adds rules for Google Cloud pools to the JSON Schema of stack files, so that editors can check stack files.

The schema completes machine types and zones. `gpu-ci check` and the preview check which of them go together.
"""

from __future__ import annotations

from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine

Json = dict[str, Any]

_NEEDS = {"flex-start": "maxRunDurationSec", "reservation": "reservation"}
"""The additional field that a market requires."""


def add_machines(schema: Json) -> None:
    """Add the machine types with descriptions, the zones with a GPU, and the fields that other fields require."""
    fields = schema["properties"]
    own = list(catalog.machines(cloud="gcp", n1=False))
    hosts = catalog.n1_shapes()
    fields["machineType"] |= {
        "enum": [*(machine.machine_type for machine in own), *(host.machine_type for host in hosts)],
        "markdownEnumDescriptions": [
            *map(_machine_text, own),
            *(f"{host.vcpus} vCPUs, {host.memory_gib:g} GiB; takes a `guestAccelerator`" for host in hosts),
        ],
    }
    fields["zones"] |= {"uniqueItems": True, "items": _zones([*own, *map(_attached, catalog.attachable())])}
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


def _zones(machines: list[Machine]) -> Json:
    """Return the schema of a zone that has one of the machines.

    For some regions, Google does not publish the zones with the machine. There, every zone is allowed.
    """
    known = sorted({zone for machine in machines for zone in machine.zones})
    regions = sorted({region for machine in machines for region in machine.zoneless_regions})
    if not regions:
        return {"enum": known}
    return {"anyOf": [{"enum": known}, {"pattern": f"^({'|'.join(regions)})-(ai[0-9]+)?[a-z]$"}]}


def _machine_text(machine: Machine) -> str:
    return f"{_gpu_text(machine)}; {machine.vcpus} vCPUs, {machine.memory_gib:g} GiB; {', '.join(machine.markets)}"


def _gpu_text(machine: Machine) -> str:
    gpu = machine.gpu
    return f"{machine.gpu_count:g} x {gpu.name}, {gpu.memory_gib} GiB each, compute capability {gpu.compute_capability}"
