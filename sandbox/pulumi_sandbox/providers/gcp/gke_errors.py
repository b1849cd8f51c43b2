"""Messages of GKE and of its provider that refuse a node pool, each with its source.

"upstream" is terraform-provider-google e03b7622, google/services/container.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulumi_sandbox.providers.gcp.errors import GoogleError
from pulumi_sandbox.providers.gcp.names import last, part


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
