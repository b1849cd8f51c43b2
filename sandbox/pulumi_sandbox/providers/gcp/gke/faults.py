"""Refusals of node pools because of other resources and of planted faults, with the messages of GKE and its provider.

"upstream" is terraform-provider-google e03b7622, google/services/container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.errors import GoogleError
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
        yield f"{no_cluster(parent)}{hint(parent)}"
        return
    email, project = text_of(table(inputs.get("nodeConfig")), "serviceAccount"), part(path, "projects")
    if email and not clusters.existing.account_exists(project, email):
        # https://github.com/sassoftware/viya4-iac-gcp/issues/148
        text = creating(f'Service account "{email}" does not exist.')
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
            yield creating(fault.message)
        elif fault.kind == "quota":
            metric, needed = demand(config)
            yield quota(metric, needed * nodes * len(zones), 0, project)
        else:
            yield sold_out(f"{group_name(path, zone)}-k7xw", project, zone, nodes)


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


def creating(problem: str, status: int = 400, reason: str = "badRequest") -> str:
    """Return the error of a create in the form of the provider (upstream, resource_container_node_pool.go)."""
    return f"error creating NodePool: {GoogleError(status, reason, problem)}"


def no_cluster(path: str) -> str:
    # https://github.com/hashicorp/terraform-provider-google/issues/7851
    return creating(f"Not found: {_old_form(path)}.", 404, "notFound")


def quota(metric: str, needed: float, limit: float, project: str) -> str:
    # https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/1795
    text = (
        f"Insufficient regional quota to satisfy request: resource \"{metric}\": request requires '{needed:.1f}' and "
        f"is short '{needed - limit:.1f}'. project has a quota of '{limit:.1f}' with '{limit:.1f}' available. View and "
        f"manage quotas at https://console.cloud.google.com/iam-admin/quotas?usage=USED&project={project}."
    )
    return creating(text, 403, "forbidden")


def sold_out(instance: str, project: str, zone: str, expected: int) -> str:
    """Return the error of a create whose first nodes get no machine.

    Source: https://github.com/hashicorp/terraform-provider-google/pull/10121. The duration is an example.
    """
    return (
        f"Error waiting for creating GKE NodePool: Google Compute Engine: Not all instances running in IGM after "
        f"35m4.033429035s. Expected {expected}, running 0, transitioning {expected}. Current errors: [GCE_STOCKOUT]: "
        f"Instance '{instance}' creation failed: The zone 'projects/{project}/zones/{zone}' does not have enough "
        "resources available to fulfill the request.  '(resource type:compute)'."
    )


# The reason and the message id of a failed scale-up, by the kind of a fault. Sources: events of pods, such as those in
# https://github.com/huggingface/Google-Cloud-Containers/issues/126; docs.cloud.google.com/kubernetes-engine/docs/
# how-to/cluster-autoscaler-visibility.
SCALE_UP = {
    "quota": ("GCE quota exceeded", "scale.up.error.quota.exceeded"),
    "stockout": ("GCE out of resources", "scale.up.error.out.of.resources"),
}


def scale_up_failed(kind: str, zones: Sequence[str]) -> str:
    return (
        f"FailedScaleUp: Node scale up in zones {', '.join(zones)} associated with this pod failed: "
        f"{SCALE_UP[kind][0]}. Pod is at risk of not being scheduled."
    )


def _old_form(path: str) -> str:
    """Return the path of a cluster as GKE's messages show it: a zonal cluster is in `zones`, not in `locations`."""
    location = part(path, "locations")
    collection = "zones" if location.count("-") == 2 else "locations"
    return f"projects/{part(path, 'projects')}/{collection}/{location}/clusters/{last(path)}"
