"""Checks the clusters in a stack file, and returns the arguments that a cluster gives its pools."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gpu_catalog import region_of

from ..aws.resource_names import SUBNET, ZONE
from ..errors import ArgsError, Problem, did_you_mean, in_yaml
from ..validation_errors import join
from .hints import section, shape

if TYPE_CHECKING:
    from .cluster import Cluster

CLUSTERS = "gpu-ci:clusters"
_COMPONENTS = {"": "runners", "controller": "controller", "devicePlugin": "device plugin"}
"""The components that have a namespace, by their key in the cluster. The empty key is the cluster itself."""


class OnCluster(Protocol):
    """A pool of the stack file."""

    @property
    def path(self) -> str: ...

    @property
    def choices(self) -> Mapping[str, Any]: ...


def described(clusters: Any) -> dict[str, Cluster]:
    """Return the clusters by name. They must have no problems."""
    if not clusters:
        return {}
    from .cluster import Cluster

    return {name: Cluster(**each) for name, each in sorted(clusters.items())}


def problems(clusters: Any, pools: Iterable[OnCluster] = ()) -> list[Problem]:
    """Return every problem of the clusters and of the pools that refer to them."""
    if clusters is None:
        return []
    from .cluster import Cluster

    if not isinstance(clusters, Mapping):
        example = in_yaml({"ci": Cluster.EXAMPLE})
        expected = "EKS clusters by their names"
        return [Problem(CLUSTERS, "must be a map", shape(clusters), expected, f"such as {example}")]
    choices, found = list(pools), []
    for name, each in sorted(clusters.items()):
        on = [pool for pool in choices if pool.choices.get("clusterName") == name]
        found += section(Cluster, join(CLUSTERS, name), each or {})
        found += (
            _shared_namespaces(name, each)
            + _pools_without_plugin(name, each, on)
            + _wrong_gpu_resources(name, each, on)
        )
    return found


def _shared_namespaces(name: str, described: Any) -> list[Problem]:
    """Report components with the same namespace.

    Each component creates its namespace, and the second creation fails.
    """
    from .cluster import Cluster

    chosen, default = (described if isinstance(described, Mapping) else {}), Cluster(**Cluster.EXAMPLE)
    fields: dict[str, Any] = {
        "": default,
        "controller": default.controller,
        "devicePlugin": default.device_plugin,
    }
    values = {part: chosen.get(part) if part else chosen for part in fields}
    given = {
        part: each["namespace"] for part, each in values.items() if isinstance(each, Mapping) and "namespace" in each
    }
    owners = {fields[part].namespace: part for part in fields if part not in given}
    problems = []
    for part, namespace in given.items():
        if isinstance(namespace, str) and (owner := owners.setdefault(namespace, part)) != part:
            problems.append(
                Problem(
                    ".".join(filter(None, (join(CLUSTERS, name), part, "namespace"))),
                    f"is already the namespace of the {_COMPONENTS[owner]}",
                    repr(namespace),
                    "a different namespace for each component",
                    "give one of the two another name",
                )
            )
    return problems


def _pools_without_plugin(name: str, described: Any, pools: Sequence[OnCluster]) -> list[Problem]:
    """Report pools in `builtInPools` whose nodes have no device plugin of their own.

    The stack's plugin does not run on the nodes of these pools, so they would have no plugin at all.
    """
    plugin = described.get("devicePlugin") if isinstance(described, Mapping) else None
    built_in_pools = plugin.get("builtInPools") if isinstance(plugin, Mapping) else None
    without = {_name(pool) for pool in pools if not _has_built_in_plugin(pool)}
    return [
        Problem(
            f"{join(CLUSTERS, name)}.devicePlugin.builtInPools[{at}]",
            "has nodes without a built-in device plugin: the check of the pool would wait for GPUs until its deadline",
            repr(pool),
            "pools with Bottlerocket in other stacks; such pools of this stack are added automatically",
            "remove it",
        )
        for at, pool in enumerate(built_in_pools if isinstance(built_in_pools, list) else ())
        if isinstance(pool, str) and pool in without
    ]


def _wrong_gpu_resources(name: str, described: Any, pools: Sequence[OnCluster]) -> list[Problem]:
    """Report resource names of GPUs that the nodes do not offer. Pods would stay pending, without an error."""
    from ..kubernetes.device_plugin import DevicePluginArgs
    from ..kubernetes.gpu_nodes import RESOURCE
    from ..kubernetes.gpu_sharing import resource_of

    plugin = described.get("devicePlugin") if isinstance(described, Mapping) else None
    sharing = plugin.get("sharing", {"kind": "none"}) if isinstance(plugin, Mapping) else {"kind": "none"}
    try:
        given = resource_of(DevicePluginArgs(sharing=sharing).sharing)
    except ArgsError:
        return []  # `section` already reports this
    placed = [pool for pool in pools if not _has_built_in_plugin(pool)]
    if given != RESOURCE and placed:
        return [
            Problem(
                f"{join(CLUSTERS, name)}.devicePlugin.sharing",
                f"gives GPUs another name, and the check of {', '.join(_name(pool) for pool in placed)} would wait for "
                f"{RESOURCE} until its deadline",
                f"{given}…" if given.endswith("-") else given,
                f"{RESOURCE}, which the check of a pool requests",
                "renameByDefault: false, or strategy: single for MIG",
            )
        ]
    return [
        Problem(
            f"{pool.path}.runner.gpuResource",
            f"is on no node of the pool, so no runner would ever start: {name} offers {RESOURCE}",
            repr(requested),
            RESOURCE,
            "remove it",
        )
        for pool in pools
        if (requested := _resource(pool)) not in ("", RESOURCE)
    ]


def _has_built_in_plugin(pool: OnCluster) -> bool:
    """Return True if the nodes have their own device plugin, as Bottlerocket does."""
    return str(pool.choices.get("amiType", "")).startswith("BOTTLEROCKET")


def _name(pool: OnCluster) -> str:
    return pool.path.rpartition(".")[2]


def _resource(pool: OnCluster) -> str:
    """Return the resource name that the runners request, or an empty text if it is missing or invalid."""
    runner = pool.choices.get("runner")
    requested = runner.get("gpuResource") if isinstance(runner, Mapping) else None
    return requested if isinstance(requested, str) and requested.startswith("nvidia.com/") else ""


def unused(clusters: Iterable[str], taken: Collection[Any]) -> list[str]:
    """Return a warning for each cluster without a pool and without an image pipeline."""
    return [
        f"{join(CLUSTERS, name)}: no pool uses this cluster, so the stack creates nothing on it; hint: remove it, or "
        "set it as the clusterName of a pool"
        for name in sorted(clusters)
        if name not in taken
    ]


def known_wiring(clusters: Any) -> dict[str, dict[str, Any]]:
    """Return the arguments that each described cluster gives its pools: region, and subnets by zone."""
    found = {}
    for name, each in clusters.items() if isinstance(clusters, Mapping) else ():
        region, subnets = (each.get(key) if isinstance(each, Mapping) else None for key in ("region", "subnets"))
        zones = _subnets(subnets, region) if isinstance(subnets, Mapping) else {}
        found[str(name)] = {
            **({"region": region} if isinstance(region, str) else {}),
            **({"subnets": zones} if zones else {}),
        }
    return found


def _subnets(given: Mapping[str, Any], region: Any) -> dict[str, str]:
    """Return the subnets of the region by zone.

    A placeholder replaces an invalid subnet, so that no zone is missing.
    """
    found: dict[str, str] = {}
    for at, (zone, subnet) in enumerate(given.items()):
        in_order = isinstance(subnet, str) and re.fullmatch(SUBNET, subnet) and subnet not in found.values()
        if re.fullmatch(ZONE, zone) and (not isinstance(region, str) or region_of(zone) == region):
            found[zone] = subnet if in_order else f"subnet-{at:017x}"
    return found


def unknown(path: str, choices: Mapping[str, Any], known: Mapping[str, Any]) -> list[Problem]:
    """Report a pool on a cluster that the stack file does not describe."""
    name = choices.get("clusterName")
    if not isinstance(name, str) or name in known:
        return []
    others = f"one of {', '.join(known)}" if known else f"a cluster under {CLUSTERS}"
    hint = did_you_mean(name, known) or f"describe it: pulumi config set --path '{join(CLUSTERS, name)}.region' …"
    return [Problem(join(path, "clusterName"), f"is not a cluster of {CLUSTERS}", repr(name), others, hint)]
