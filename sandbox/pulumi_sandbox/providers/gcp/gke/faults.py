"""Refusals of node pools because of other resources and of planted faults, with the messages in gke_errors.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.gcp import gke_errors, types
from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.gke.clusters import Clusters
from pulumi_sandbox.providers.gcp.names import last, part
from pulumi_sandbox.providers.gcp.outputs.container import DEFAULT_MACHINE, accelerators, cluster_path, group_name
from pulumi_sandbox.providers.gcp.references import account_hint, hint
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import World


def refusals(clusters: Clusters, res: Resource, site: Site, path: str, outputs: dict[str, Any]) -> Iterator[str]:
    """Yield the refusals of a node pool with this path. `outputs` are those that it would have."""
    inputs, parent = res.inputs, cluster_path(res.inputs, site)
    if clusters.facts(parent) is None:
        yield f"{gke_errors.no_cluster(parent)}{hint(parent)}"
        return
    email, project = text_of(table(inputs.get("nodeConfig")), "serviceAccount"), part(path, "projects")
    if email and not clusters.existing.account_exists(project, email):
        # https://github.com/sassoftware/viya4-iac-gcp/issues/148
        text = gke_errors.creating(f'Service account "{email}" does not exist.')
        yield f"{text}{account_hint(project, email)}"
    if res.old_inputs is None:
        yield from node_pool(clusters.existing.world, res, path, outputs)


def take(world: World, name: str, path: str, zone: str) -> Fault | None:
    """Return the fault that applies to a new machine of a node pool in a zone, or None."""
    for kind in ("quota", "stockout"):
        if fault := world.take_fault(kind, types.NODE_POOL, name, id=path, zone=zone):
            return fault
    return None


def node_pool(world: World, res: Resource, path: str, outputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the error of a fault at the create of a pool's first machines. A pool without nodes needs no machine."""
    nodes = int(outputs.get("nodeCount") or 0)
    zones = rows(outputs.get("nodeLocations"))
    for zone in zones if nodes else ():
        fault = take(world, res.name, path, zone)
        if fault is None:
            continue
        project, config = part(path, "projects"), table(outputs.get("nodeConfig"))
        if fault.message:
            yield gke_errors.creating(fault.message)
        elif fault.kind == "quota":
            metric, needed = demand(config)
            yield gke_errors.quota(metric, needed * nodes * len(zones), 0, project)
        else:
            yield gke_errors.sold_out(f"{group_name(path, zone)}-k7xw", project, zone, nodes)


def demand(config: Mapping[str, Any]) -> tuple[str, int]:
    """Return the quota that limits the machines of a pool, and how much of it one machine needs.

    Spot and Flex-start machines count against the quotas of preemptible GPUs (docs.cloud.google.com/kubernetes-engine/
    docs/concepts/dws).
    """
    machine = machine_types.machine(machine_types.short(text_of(config, "machineType") or DEFAULT_MACHINE))
    attached = next(iter(accelerators(dict(config))), {})
    offer = machine_types.offer_of(machine, last(text_of(attached, "type"))) if machine else None
    if machine is None or offer is None:
        return "CPUS", (machine.vcpus if machine else None) or 1
    preemptible = any(config.get(name) is True for name in ("spot", "preemptible", "flexStart"))
    return machine_types.quota_metric(offer, preemptible), int(attached.get("count") or machine.gpus or 1)
