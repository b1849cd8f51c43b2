"""The clusters of GKE that a program may use: those of the emulated cloud state, and those that it looks up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.names import last, part, relative
from pulumi_sandbox.providers.gcp.outputs.container import ClusterFacts, dns_cache, endpoint, location
from pulumi_sandbox.providers.gcp.references import hint
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.gcp.world import ExistingResources
from pulumi_sandbox.providers.inputs import rows, text_of

Json = dict[str, Any]
GET_CLUSTER = "gcp:container/getCluster:getCluster"


@dataclass(frozen=True)
class Clusters:
    existing: ExistingResources
    lookup: Callable[[Json], Json]
    """Returns the result of getCluster for a cluster that no stack of the sandbox created."""

    def facts(self, path: str) -> ClusterFacts | None:
        """Return what node pools take from a cluster; None if the cluster does not exist."""
        row = self.existing.world.get(types.CLUSTER, path)
        if row is not None:
            return _facts(path, row.outputs)
        if not self.existing.exists(path):
            return None
        arguments = {
            "name": last(path),
            "location": part(path, "locations"),
            "project": part(path, "projects"),
        }
        return _facts(path, self.lookup(arguments))

    # -- the function -------------------------------------------------------------------------------------------------

    def refusal(self, arguments: Mapping[str, Any], site: Site) -> str:
        """Return the provider's error for a missing cluster, or an empty string.

        If sandbox.yaml lists clusters, all others are missing. Source of the message: terraform-provider-google
        e03b7622, google/services/container/data_source_google_container_cluster.go.
        """
        path = lookup_path(arguments, site)
        listed = any("/clusters/" in one for one in self.existing.patterns)
        return f"{path} not found{hint(path)}" if listed and not self.existing.exists(path) else ""

    def from_world(self, arguments: Mapping[str, Any], site: Site, example: Mapping[str, Any]) -> Json:
        """Return the results that override those of the example: the cluster's address, version and zones."""
        path = lookup_path(arguments, site)
        row = self.existing.world.get(types.CLUSTER, path)
        known: Mapping[str, Any] = {
            "endpoint": endpoint(path),
            "masterVersion": text_of(example, "masterVersion"),
            "nodeLocations": site.default_zones(part(path, "locations")),
            **(row.outputs if row else {}),
        }
        result = {name: known[name] for name in ("endpoint", "masterVersion", "nodeLocations")}
        return {**result, "addonsConfigs": [{"dnsCacheConfigs": [dns_cache(known["masterVersion"])]}]}


def lookup_path(arguments: Mapping[str, Any], site: Site) -> str:
    inputs = dict(arguments)
    project = site.place(inputs)[0]
    return f"projects/{project}/locations/{location(inputs, site)}/clusters/{last(relative(text_of(inputs, 'name')))}"


def _facts(path: str, outputs: Mapping[str, Any]) -> ClusterFacts:
    place = part(path, "locations")
    own_zone = [place] if place.count("-") == 2 else []
    return ClusterFacts(
        path,
        str(outputs.get("masterVersion") or ""),
        tuple(dict.fromkeys([*own_zone, *rows(outputs.get("nodeLocations"))])),
    )
