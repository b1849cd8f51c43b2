"""Check rules for GKE clusters and node pools that no schema contains, each with its source.

- "upstream": terraform-provider-google e03b7622, google/services/container/resource_container_{cluster,node_pool}.go,
  node_config.go. These messages are the provider's.
- Messages in gke_errors.py are those of the API. The other messages are our own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp import gke_errors
from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.outputs.container import accelerators
from pulumi_sandbox.providers.gcp.rules import template
from pulumi_sandbox.providers.inputs import is_known, rows, table, text_of
from pulumi_sandbox.providers.resource import DEFAULTS, Problem
from pulumi_sandbox.providers.values import UNKNOWN

Inputs = dict[str, Any]
# Discovery document container v1, NodePool.name has no pattern. The length is upstream's: "name is limited to 40".
NAME, PREFIX_MOST = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", 31
DISK_LEAST_GB = 10
# docs.cloud.google.com/kubernetes-engine/docs/concepts/dws: at most seven days.
FLEX_START_MOST_SEC = 604_800
# https://github.com/GoogleCloudPlatform/cluster-toolkit/pull/5737
COMPACT_FLEX_START = ("a3-ultragpu-", "a4-", "h4d-")
# docs.cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus: at most 48 containers share a GPU.
SHARED_MOST = 48


def cluster(inputs: Inputs) -> Iterator[Problem]:
    name = inputs.get("name")
    if not isinstance(name, str):
        return
    if len(name) > 40:  # upstream
        yield Problem("name", '"name" cannot be longer than 40 characters')
    if not re.fullmatch(r"[a-z0-9-]+", name):
        yield Problem("name", '"name" can only contain lowercase letters, numbers and hyphens')
    if not re.match(r"[a-z]", name):
        yield Problem("name", '"name" must start with a letter')
    if not re.search(r"[a-z0-9]$", name):
        yield Problem("name", '"name" must end with a number or a letter')


def node_pool(inputs: Inputs) -> Iterator[Problem]:
    yield from names(inputs)
    yield from sizes(inputs)
    yield from upgrades(table(inputs.get("upgradeSettings")))
    zones = [zone for zone in rows(inputs.get("nodeLocations")) if isinstance(zone, str)]
    place = text_of(inputs, "location")
    for index, zone in enumerate(zones):
        if place and not zone.startswith(place.rpartition("-")[0] if place.count("-") == 2 else f"{place}-"):
            text = f"the zone {zone} is not in the region of the cluster, which is in {place}"
            yield Problem(f"nodeLocations[{index}]", text)
    config = inputs.get("nodeConfig")
    if not isinstance(config, dict):
        return
    yield from machine(inputs)
    yield from machines_in(inputs, zones)
    yield from driver(table(config))
    yield from capacity(inputs, table(config))
    disk = config.get("diskSizeGb")
    if isinstance(disk, int | float) and disk < DISK_LEAST_GB:  # upstream
        text = f"expected node_config.0.disk_size_gb to be at least ({DISK_LEAST_GB}), got {disk:.0f}"
        yield Problem("nodeConfig.diskSizeGb", text)


def names(inputs: Inputs) -> Iterator[Problem]:
    name, prefix = inputs.get("name"), inputs.get("namePrefix")
    if isinstance(name, str) and not re.fullmatch(NAME, name):
        yield Problem("name", f'"name" ("{name}") doesn\'t match regexp "^{NAME}$"')
    if isinstance(prefix, str) and len(prefix) > PREFIX_MOST:
        yield Problem(
            "namePrefix", f'"name_prefix" cannot be longer than {PREFIX_MOST} characters, name is limited to 40'
        )
    if is_known(name) and is_known(prefix) and "name" not in rows(inputs.get(DEFAULTS)):
        yield Problem("name", "Cannot specify both name and name_prefix for a node_pool")


def sizes(inputs: Inputs) -> Iterator[Problem]:
    if inputs.get("initialNodeCount") and inputs.get("nodeCount"):  # upstream
        name = text_of(inputs, "name")
        text = f"Cannot set both initial_node_count and node_count on node pool {name}"
        yield Problem("nodeCount", text)
    scaling = inputs.get("autoscaling")
    if not isinstance(scaling, dict):
        return
    numbers = table(scaling)
    if UNKNOWN in numbers.values():
        return
    per_zone, total = (
        [name for name in pair if numbers.get(name)]
        for pair in (("minNodeCount", "maxNodeCount"), ("totalMinNodeCount", "totalMaxNodeCount"))
    )
    if per_zone and total:
        # Discovery document container v1, NodePoolAutoscaling: the fields exclude each other.
        text = f"{' and '.join(per_zone)} cannot be used with {' and '.join(total)}: limits are per zone or in total"
        yield Problem(f"autoscaling.{per_zone[0]}", text)
    elif not numbers.get("maxNodeCount") and not numbers.get("totalMaxNodeCount"):
        yield Problem("autoscaling", gke_errors.NO_MAXIMUM)
    for low, high in (("minNodeCount", "maxNodeCount"), ("totalMinNodeCount", "totalMaxNodeCount")):
        if numbers.get(high) and (numbers.get(low) or 0) > numbers[high]:
            # The same document: ">= 0 and <= max_node_count".
            yield Problem(f"autoscaling.{low}", f"{low} {numbers[low]:.0f} is above {high} {numbers[high]:.0f}")


def upgrades(settings: Inputs) -> Iterator[Problem]:
    strategy = settings.get("strategy") or "SURGE"
    if strategy is UNKNOWN:
        return
    surge = [name for name in ("maxSurge", "maxUnavailable") if settings.get(name)]
    if surge and strategy != "SURGE":  # upstream
        text = "Surge upgrade settings may not be changed when surge strategy is not enabled"
        yield Problem(f"upgradeSettings.{surge[0]}", text)
    if settings.get("blueGreenSettings") and strategy != "BLUE_GREEN":  # upstream
        text = "Blue-green upgrade settings may not be changed when blue-green strategy is not enabled"
        yield Problem("upgradeSettings.blueGreenSettings", text)
    if settings and strategy == "SURGE" and not surge:
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
            other = [one for one in known if one != zone]
            hint = f"zones of the region with it: {', '.join(other)}" if other else ""
            text = gke_errors.no_accelerator(attached, zone) if attached else gke_errors.no_machine(name, zone)
            yield Problem(f"nodeLocations[{index}]", text, hint)


def driver(config: Inputs) -> Iterator[Problem]:
    for index, row in enumerate(accelerators(config)):
        path = f"nodeConfig.guestAccelerators[{index}]"
        version = table(row.get("gpuDriverInstallationConfig")).get("gpuDriverVersion")
        if version == "LATEST" and text_of(config, "imageType").upper().startswith("UBUNTU"):
            # docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus (2026-04-08)
            text = f"the driver version LATEST exists for Container-Optimized OS only, got {config['imageType']}"
            yield Problem(f"{path}.gpuDriverInstallationConfig.gpuDriverVersion", text, "use DEFAULT")
        clients = table(row.get("gpuSharingConfig")).get("maxSharedClientsPerGpu")
        if isinstance(clients, int | float) and not 2 <= clients <= SHARED_MOST:
            text = f"expected max_shared_clients_per_gpu to be in the range (2 - {SHARED_MOST}), got {clients:.0f}"
            yield Problem(f"{path}.gpuSharingConfig.maxSharedClientsPerGpu", text)


def capacity(inputs: Inputs, config: Inputs) -> Iterator[Problem]:
    reservation = config.get("reservationAffinity")
    kind = table(reservation).get("consumeReservationType")
    is_spot = config.get("spot") is True or config.get("preemptible") is True
    if kind == "SPECIFIC_RESERVATION":
        # Discovery document container v1, ReservationAffinity: "Must specify key value fields".
        missing = [name for name in ("key", "values") if not table(reservation).get(name)]
        for name in missing:
            yield Problem(f"nodeConfig.reservationAffinity.{name}", "is required for SPECIFIC_RESERVATION")
        if is_spot:
            # docs.cloud.google.com/compute/docs/instances/reservations-consume, "Limitations"
            text = "a Spot VM cannot consume a reservation"
            yield Problem("nodeConfig.reservationAffinity.consumeReservationType", text)
    is_queued = table(inputs.get("queuedProvisioning")).get("enabled") is True
    if is_queued and kind not in ("NO_RESERVATION", UNKNOWN):
        path = "nodeConfig.reservationAffinity.consumeReservationType"
        yield Problem(path, gke_errors.QUEUED_RESERVATION, "set consumeReservationType to NO_RESERVATION")
    if config.get("flexStart") is True:
        yield from flex_start(inputs, config, kind, is_spot=is_spot)


def flex_start(inputs: Inputs, config: Inputs, kind: Any, *, is_spot: bool) -> Iterator[Problem]:
    """Check Flex-start, with the requirements of docs.cloud.google.com/kubernetes-engine/docs/how-to/dws-flex-start."""
    if is_spot:
        yield Problem("nodeConfig.flexStart", "flexStart cannot be used with spot or preemptible nodes")
    if kind not in ("NO_RESERVATION", UNKNOWN):
        text = f"flexStart requires consumeReservationType NO_RESERVATION, got {kind or 'nothing'}"
        yield Problem("nodeConfig.reservationAffinity.consumeReservationType", text)
    if table(inputs.get("management")).get("autoRepair") not in (False, UNKNOWN):
        # https://github.com/GoogleCloudPlatform/cluster-toolkit/pull/4027
        yield Problem("management.autoRepair", "flexStart needs auto_repair set to false")
    scaling = inputs.get("autoscaling")
    if scaling is None or table(scaling).get("locationPolicy") not in ("ANY", UNKNOWN):
        got = table(scaling).get("locationPolicy") or ("no autoscaling" if scaling is None else "nothing")
        if scaling is not UNKNOWN:
            yield Problem("autoscaling.locationPolicy", f"flexStart requires autoscaling with ANY, got {got}")
    duration = config.get("maxRunDuration")
    seconds = re.fullmatch(r"(\d+)s", duration) if isinstance(duration, str) else None
    if seconds and int(seconds[1]) > FLEX_START_MOST_SEC:
        text = f"must be at most {FLEX_START_MOST_SEC}s (7 days) with flexStart, got {duration}"
        yield Problem("nodeConfig.maxRunDuration", text)
    is_compact = table(inputs.get("placementPolicy")).get("type") == "COMPACT"
    if is_compact and not text_of(config, "machineType").startswith(COMPACT_FLEX_START):
        text = "COMPACT placement with flexStart exists for A3 Ultra, A4 and H4D machine types only"
        yield Problem("placementPolicy.type", text)
