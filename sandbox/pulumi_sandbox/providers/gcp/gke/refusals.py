"""Refusals of clusters and node pools that depend on other resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp import gke_errors, types
from pulumi_sandbox.providers.gcp.gke import faults
from pulumi_sandbox.providers.gcp.gke.clusters import Clusters
from pulumi_sandbox.providers.gcp.names import part
from pulumi_sandbox.providers.gcp.outputs.container import ClusterFacts, cluster_path, identity, version_numbers
from pulumi_sandbox.providers.gcp.references import account_hint, hint
from pulumi_sandbox.providers.gcp.rules.node_pool import machines_in
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.providers.resource import Resource

# A node may be two minor versions older than the control plane (docs.cloud.google.com/kubernetes-engine/versioning,
# "GKE version skew policy").
MINORS_BEHIND = 2
CHANNELS = ("RAPID", "REGULAR", "STABLE", "EXTENDED")


def cluster(clusters: Clusters, res: Resource, site: Site) -> Iterator[str]:
    path = identity(types.CLUSTER, res.inputs, site)
    if res.old_inputs is None and clusters.existing.world.get(types.CLUSTER, path):
        yield gke_errors.cluster_exists(path)


def node_pool(clusters: Clusters, res: Resource, site: Site, outputs: dict[str, Any]) -> Iterator[str]:
    """Yield the refusals of a node pool. `outputs` are those that it would have."""
    inputs, world = res.inputs, clusters.existing.world
    path, parent = identity(types.NODE_POOL, inputs, site), cluster_path(inputs, site)
    facts = clusters.facts(parent)
    if facts is None:
        yield f"{gke_errors.no_cluster(parent)}{hint(parent)}"
        return
    if facts.is_autopilot:
        yield gke_errors.creating(gke_errors.AUTOPILOT)
        return
    if res.old_inputs is None and world.get(types.NODE_POOL, path):
        yield gke_errors.already_exists(path)
    yield from map(gke_errors.creating, _versions(text_of(inputs, "version"), facts))
    management = table(inputs.get("management"))
    if facts.release_channel in CHANNELS and management.get("autoUpgrade") is False:
        yield gke_errors.creating(gke_errors.upgrades_off(facts.release_channel))
    email = text_of(table(inputs.get("nodeConfig")), "serviceAccount")
    project = part(path, "projects")
    if email and not clusters.existing.account_exists(project, email):
        yield f"{gke_errors.creating(gke_errors.no_account(email))}{account_hint(project, email)}"
    if not rows(inputs.get("nodeLocations")):  # the rules have checked zones that the pool names
        for problem in machines_in(inputs, facts.zones):
            yield gke_errors.creating(problem.text)
    if res.old_inputs is None:
        yield from faults.node_pool(world, res, path, outputs)


def _versions(version: str, facts: ClusterFacts) -> Iterator[str]:
    """Yield the error of a version that does not fit the control plane. A version may be a prefix, such as 1.34."""
    wanted, control_plane = version_numbers(version)[:2], version_numbers(facts.version)[:2]
    if len(wanted) < 2 or len(control_plane) < 2:
        return
    if wanted > control_plane or wanted < (control_plane[0], control_plane[1] - MINORS_BEHIND):
        yield gke_errors.no_version(version)
