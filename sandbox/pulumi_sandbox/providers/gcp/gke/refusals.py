"""Refusals of node pools because of other resources, with the messages of GKE and its provider.

"upstream" is terraform-provider-google e03b7622, google/services/container.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulumi_sandbox.providers.gcp.errors import GoogleError
from pulumi_sandbox.providers.gcp.gke.clusters import Clusters
from pulumi_sandbox.providers.gcp.names import last, part
from pulumi_sandbox.providers.gcp.outputs.container import cluster_path
from pulumi_sandbox.providers.gcp.references import account_hint, hint
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.inputs import table, text_of
from pulumi_sandbox.providers.resource import Resource


def refusals(clusters: Clusters, res: Resource, site: Site, path: str) -> Iterator[str]:
    """Yield the refusals of a node pool with this path."""
    inputs, parent = res.inputs, cluster_path(res.inputs, site)
    if clusters.facts(parent) is None:
        yield f"{no_cluster(parent)}{hint(parent)}"
        return
    email, project = text_of(table(inputs.get("nodeConfig")), "serviceAccount"), part(path, "projects")
    if email and not clusters.existing.account_exists(project, email):
        # https://github.com/sassoftware/viya4-iac-gcp/issues/148
        text = creating(f'Service account "{email}" does not exist.')
        yield f"{text}{account_hint(project, email)}"


def creating(problem: str, status: int = 400, reason: str = "badRequest") -> str:
    """Return the error of a create in the form of the provider (upstream, resource_container_node_pool.go)."""
    return f"error creating NodePool: {GoogleError(status, reason, problem)}"


def no_cluster(path: str) -> str:
    # https://github.com/hashicorp/terraform-provider-google/issues/7851
    return creating(f"Not found: {_old_form(path)}.", 404, "notFound")


def _old_form(path: str) -> str:
    """Return the path of a cluster as GKE's messages show it: a zonal cluster is in `zones`, not in `locations`."""
    location = part(path, "locations")
    collection = "zones" if location.count("-") == 2 else "locations"
    return f"projects/{part(path, 'projects')}/{collection}/{location}/clusters/{last(path)}"
