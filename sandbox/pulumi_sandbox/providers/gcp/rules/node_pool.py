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
    yield from sizes(inputs)
    yield from upgrades(table(inputs.get("upgradeSettings")))
    zones = [zone for zone in rows(inputs.get("nodeLocations")) if isinstance(zone, str)]
    place = text_of(inputs, "location")
    for index, zone in enumerate(zones):
        if place and not zone.startswith(place.rpartition("-")[0] if place.count("-") == 2 else f"{place}-"):
            text = f"the zone {zone} is not in the region of the cluster, which is in {place}"
            yield Problem(f"nodeLocations[{index}]", text)
    config = inputs.get("nodeConfig")
    if isinstance(config, dict):
        yield from machine(inputs)
        yield from machines_in(inputs, zones)
        yield from driver(table(config))
        yield from capacity(inputs, table(config))


def sizes(inputs: Inputs) -> Iterator[Problem]:
    scaling = inputs.get("autoscaling")
    most = [table(scaling).get(name) for name in ("maxNodeCount", "totalMaxNodeCount")]
    if isinstance(scaling, dict) and not any(most):
        yield Problem("autoscaling", gke_errors.NO_MAXIMUM)


def upgrades(settings: Inputs) -> Iterator[Problem]:
    strategy = settings.get("strategy") or "SURGE"
    if settings and strategy == "SURGE" and not settings.get("maxSurge") and not settings.get("maxUnavailable"):
        # hashicorp/terraform-provider-google#17164: the provider sends 0 and 0, with which no node can be upgraded.
        text = "maxSurge and maxUnavailable are both 0, so GKE cannot upgrade a node"
        yield Problem("upgradeSettings.maxSurge", text, "set maxSurge to 1 and maxUnavailable to 0")


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


def driver(config: Inputs) -> Iterator[Problem]:
    for index, row in enumerate(accelerators(config)):
        version = table(row.get("gpuDriverInstallationConfig")).get("gpuDriverVersion")
        if version == "LATEST" and text_of(config, "imageType").upper().startswith("UBUNTU"):
            # docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus (2026-04-08)
            path = f"nodeConfig.guestAccelerators[{index}].gpuDriverInstallationConfig.gpuDriverVersion"
            text = f"the driver version LATEST exists for Container-Optimized OS only, got {config['imageType']}"
            yield Problem(path, text, "use DEFAULT")


def capacity(inputs: Inputs, config: Inputs) -> Iterator[Problem]:
    kind = table(config.get("reservationAffinity")).get("consumeReservationType")
    path = "nodeConfig.reservationAffinity.consumeReservationType"
    is_spot = config.get("spot") is True or config.get("preemptible") is True
    if kind == "SPECIFIC_RESERVATION" and is_spot:
        # docs.cloud.google.com/compute/docs/instances/reservations-consume, "Limitations"
        yield Problem(path, "a Spot VM cannot consume a reservation")
    is_queued = table(inputs.get("queuedProvisioning")).get("enabled") is True
    if is_queued and kind not in ("NO_RESERVATION", UNKNOWN):
        yield Problem(path, gke_errors.QUEUED_RESERVATION, "set consumeReservationType to NO_RESERVATION")
    if config.get("flexStart") is not True:
        return
    # The requirements of docs.cloud.google.com/kubernetes-engine/docs/how-to/dws-flex-start.
    if is_spot:
        yield Problem("nodeConfig.flexStart", "flexStart cannot be used with spot or preemptible nodes")
    if kind not in ("NO_RESERVATION", UNKNOWN):
        yield Problem(path, f"flexStart requires consumeReservationType NO_RESERVATION, got {kind or 'nothing'}")
    if table(inputs.get("management")).get("autoRepair") not in (False, UNKNOWN):
        # https://github.com/GoogleCloudPlatform/cluster-toolkit/pull/4027
        yield Problem("management.autoRepair", "flexStart needs auto_repair set to false")
    scaling = inputs.get("autoscaling")
    if scaling is not UNKNOWN and table(scaling).get("locationPolicy") not in ("ANY", UNKNOWN):
        yield Problem("autoscaling.locationPolicy", "flexStart requires autoscaling with the location policy ANY")
