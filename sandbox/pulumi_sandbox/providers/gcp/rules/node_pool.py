"""Check rules for GKE node pools that no schema contains, each with its source.

- "upstream": terraform-provider-google e03b7622, google/services/container/resource_container_node_pool.go and
  node_config.go.
- Messages in gke_errors.py are those of the API. The other messages are our own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp import gke_errors
from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.outputs.container import accelerators
from pulumi_sandbox.providers.gcp.rules import template
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

Inputs = dict[str, Any]


def node_pool(inputs: Inputs) -> Iterator[Problem]:
    zones = [zone for zone in rows(inputs.get("nodeLocations")) if isinstance(zone, str)]
    place = text_of(inputs, "location")
    for index, zone in enumerate(zones):
        if place and not zone.startswith(place.rpartition("-")[0] if place.count("-") == 2 else f"{place}-"):
            text = f"the zone {zone} is not in the region of the cluster, which is in {place}"
            yield Problem(f"nodeLocations[{index}]", text)
    if isinstance(inputs.get("nodeConfig"), dict):
        yield from machine(inputs)
        yield from machines_in(inputs, zones)


def machine(inputs: Inputs) -> Iterator[Problem]:
    config = table(inputs.get("nodeConfig"))
    name, gpus = config.get("machineType"), config.get("guestAccelerators")
    if name is UNKNOWN or gpus is UNKNOWN:
        return
    if name in (None, ""):
        if accelerators(config):
            yield Problem("nodeConfig.machineType", gke_errors.DEFAULT_MACHINE)
        return
    machine_type = machine_types.machine(machine_types.short(str(name)))
    if machine_type is None:
        zone = next(iter(rows(inputs.get("nodeLocations"))), None) or text_of(inputs, "location")
        did_you_mean = machine_types.did_you_mean(machine_types.short(str(name)))
        yield Problem("nodeConfig.machineType", gke_errors.no_machine(str(name), str(zone)), did_you_mean)
        return
    for problem in template.accelerators(machine_type, accelerators(config)):
        # GKE's GPUs are in the machine type and in guestAccelerators; the two must agree.
        yield Problem(f"nodeConfig.{problem.path}", problem.text)


def machines_in(inputs: Inputs, zones: Collection[str]) -> Iterator[Problem]:
    """Yield the error of each zone that does not have the GPU or the machine type."""
    config = table(inputs.get("nodeConfig"))
    name = config.get("machineType")
    if not isinstance(name, str) or (machine_type := machine_types.machine(machine_types.short(name))) is None:
        return
    attached = machine_types.short(text_of(next(iter(accelerators(config)), {}), "type"))
    offer = machine_types.offer_of(machine_type, attached)
    for index, zone in enumerate(zones if offer else ()):
        known = gpu_catalog.zones(offer, gpu_catalog.region_of(zone)) if offer else ()
        if zone not in known:
            hint = f"zones of the region with it: {', '.join(known)}" if known else ""
            text = gke_errors.no_accelerator(attached, zone) if attached else gke_errors.no_machine(name, zone)
            yield Problem(f"nodeLocations[{index}]", text, hint)
