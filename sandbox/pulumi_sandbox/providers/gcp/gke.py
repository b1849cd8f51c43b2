"""GKE: the clusters that a program may use, and the ids and outputs of clusters and node pools.

Source of the defaults: discovery document container v1 (NodeConfig).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.names import last, part
from pulumi_sandbox.providers.gcp.site import Located, Site, Values, keep_or_make, labels
from pulumi_sandbox.providers.gcp.world import ExistingResources, hint
from pulumi_sandbox.providers.inputs import rows, table, text_of

GET_CLUSTER = "gcp:container/getCluster:getCluster"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
ARM_TAINT = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NO_SCHEDULE"}
QUEUED_TAINT = {"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NO_SCHEDULE"}
DEFAULT_MACHINE, DEFAULT_DISK_GB = "e2-medium", 100
# The first version whose nodes get a driver if a pool names none (docs.cloud.google.com/kubernetes-engine/docs/how-to/
# gpus, 2026-04-08).
FIRST_DRIVER = (1, 30, 1, 1156000)
# The first version with which Standard clusters have NodeLocal DNSCache by default (docs.cloud.google.com/
# kubernetes-engine/docs/how-to/nodelocal-dns-cache).
FIRST_DNS_CACHE = (1, 34, 1, 3720000)


@dataclass(frozen=True)
class ClusterFacts:
    """What a node pool takes from its cluster."""

    path: str
    version: str
    zones: tuple[str, ...] = ()


def location(inputs: Values, site: Site) -> str:
    """Return the region or zone of a cluster or node pool (google/tpgresource/regional_utils.go, GetLocation)."""
    return last(text_of(inputs, "location")) or site.region or site.zone


def cluster_path(inputs: Values, site: Site) -> str:
    """Return the path of a node pool's cluster, which the input names or whose path it is (clusterIdRegex upstream)."""
    given = text_of(inputs, "cluster")
    if part(given, "clusters"):
        return f"projects/{part(given, 'projects')}/locations/{part(given, 'locations')}/clusters/{last(given)}"
    return f"projects/{site.place(inputs)[0]}/locations/{location(inputs, site)}/clusters/{given}"


def identity(token: str, inputs: Values, site: Site) -> str:
    name = text_of(inputs, "name")
    if token == types.NODE_POOL:
        return f"{cluster_path(inputs, site)}/nodePools/{name}"
    return f"projects/{site.place(inputs)[0]}/locations/{location(inputs, site)}/clusters/{name}"


def endpoint(path: str) -> str:
    """Return the address of a cluster's control plane. It depends on the path only, so two clusters differ."""
    first, second, third = hashlib.sha256(path.encode()).digest()[:3]
    return f"34.{first}.{second}.{third}"


def group_name(path: str, zone: str) -> str:
    """Return the name of the instance group of a node pool in a zone, without its ending `-grp`."""
    digest = hashlib.sha256(f"{path} {zone}".encode()).hexdigest()[:8]
    return f"gke-{part(path, 'clusters')}-{last(path)}-{digest}"


def accelerators(config: Values) -> list[Values]:
    """Return the GPUs of a node configuration; a block with a count of 0 has no effect (upstream, expandNodeConfig)."""
    return [table(row) for row in rows(config.get("guestAccelerators")) if table(row).get("count")]


def has_gpu(config: Values) -> bool:
    machine = machine_types.machine(last(text_of(config, "machineType") or DEFAULT_MACHINE))
    return bool(accelerators(config) or (machine and machine.accelerator))


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as 1.34.1-gke.3720000."""
    return tuple(int(one) for one in version.replace("-gke.", ".").split(".") if one.isdigit())


def dns_cache(version: str) -> Values:
    """Return the default of NodeLocal DNSCache of a cluster with this version."""
    return {"enabled": version_numbers(version) >= FIRST_DNS_CACHE}


def node_pool(at: Located, facts: ClusterFacts) -> Values:
    """Return the outputs of a node pool. `at.path` is its id."""
    inputs, old = at.inputs, at.old
    zones = rows(inputs.get("nodeLocations")) or list(facts.zones)
    size = inputs.get("nodeCount")
    initial = keep_or_make(old, "initialNodeCount", lambda: inputs.get("initialNodeCount") or size or 0)
    return {
        "project": part(at.path, "projects"),
        "location": part(at.path, "locations"),
        "name": last(at.path),
        "initialNodeCount": initial,
        "nodeCount": size if size is not None else keep_or_make(old, "nodeCount", lambda: initial),
        "nodeLocations": zones,
        "version": text_of(inputs, "version") or old.get("version") or facts.version,
        "nodeConfig": node_config(at, facts),
    }


def node_config(at: Located, facts: ClusterFacts) -> Values:
    given, old = table(at.inputs.get("nodeConfig")), table(at.old.get("nodeConfig"))
    config: Values = {
        "diskSizeGb": DEFAULT_DISK_GB,
        "imageType": "COS_CONTAINERD",
        "machineType": DEFAULT_MACHINE,
        **{name: value for name, value in given.items() if value is not None},
    }
    config["guestAccelerators"] = [_with_driver(row, facts.version) for row in accelerators(given)]
    config["effectiveTaints"] = _taints(at, config, old)
    return config


def _with_driver(row: Values, version: str) -> Values:
    chosen = table(row.get("gpuDriverInstallationConfig"))
    if not chosen and version_numbers(version) >= FIRST_DRIVER:
        chosen = {"gpuDriverVersion": "DEFAULT"}
    return {**row, **({"gpuDriverInstallationConfig": chosen} if chosen else {})}


def _taints(at: Located, config: Values, old: Values) -> list[Any]:
    """Return the declared taints and those that GKE adds.

    GKE adds its GPU taint only when it creates the pool (docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus,
    2026-04-08), and only if the cluster then has a pool without GPUs, as each cluster of the sandbox has. A taint of an
    ARM pool: the page "Prepare an Arm workload for deployment".
    """
    declared = [table(row) for row in rows(config.get("taints"))]
    if at.old:
        before = [table(row).get("key") for row in rows(old.get("taints"))]
        added = [row for row in rows(old.get("effectiveTaints")) if table(row).get("key") not in before]
    else:
        added = [GPU_TAINT] if has_gpu(config) else []
        offer = machine_types.machine(last(text_of(config, "machineType")))
        added += [ARM_TAINT] if offer and offer.offer and offer.offer.architecture == "arm64" else []
        added += [QUEUED_TAINT] if table(at.inputs.get("queuedProvisioning")).get("enabled") else []
    keys = {row.get("key") for row in declared}
    return [*declared, *(row for row in added if table(row).get("key") not in keys)]


def cluster(at: Located, zones: list[str], default_version: str) -> Values:
    """Return the outputs of a cluster that its node pools take. `zones` are those of its region."""
    place = part(at.path, "locations")
    version = text_of(at.inputs, "minMasterVersion") or at.old.get("masterVersion") or default_version
    if len(version_numbers(str(version))) < 4:  # a prefix such as 1.34 names the newest patch of GKE
        version = default_version if default_version.startswith(f"{version}.") else f"{version}.0-gke.1000000"
    return {
        "project": part(at.path, "projects"),
        "location": place,
        "endpoint": endpoint(at.path),
        "masterVersion": version,
        "nodeLocations": rows(at.inputs.get("nodeLocations")) or ([] if place in zones else zones[:3]),
        **labels({"labels": at.inputs.get("resourceLabels")}, at.site),
    }


# -- clusters that a program uses -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clusters:
    existing: ExistingResources
    lookup: Callable[[Values], Values]
    """Returns the result of getCluster for a cluster that no stack of the sandbox created."""

    def facts(self, path: str) -> ClusterFacts | None:
        """Return what node pools take from a cluster; None if the cluster does not exist."""
        row = self.existing.world.get(types.CLUSTER, path)
        if row is not None:
            return _facts(path, row.outputs)
        if not self.existing.exists(path):
            return None
        arguments = {"name": last(path), "location": part(path, "locations"), "project": part(path, "projects")}
        return _facts(path, self.lookup(arguments))

    def refusal(self, arguments: Mapping[str, Any], site: Site) -> str:
        """Return the provider's error for a missing cluster, or an empty string.

        If sandbox.yaml lists clusters, all others are missing. Source of the message: terraform-provider-google
        e03b7622, google/services/container/data_source_google_container_cluster.go.
        """
        path = lookup_path(arguments, site)
        listed = any("/clusters/" in one for one in self.existing.patterns)
        return f"{path} not found{hint(path)}" if listed and not self.existing.exists(path) else ""

    def from_world(self, arguments: Mapping[str, Any], site: Site, example: Mapping[str, Any]) -> Values:
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
    return cluster_path({**arguments, "cluster": arguments.get("name")}, site)


def _facts(path: str, outputs: Mapping[str, Any]) -> ClusterFacts:
    place = part(path, "locations")
    own_zone = [place] if place.count("-") == 2 else []
    return ClusterFacts(
        path,
        str(outputs.get("masterVersion") or ""),
        tuple(dict.fromkeys([*own_zone, *rows(outputs.get("nodeLocations"))])),
    )
