"""Lookups that depend on more than the example values: on the world, on missing resources, and on instance types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.aws.world import ExistingResources, hint
from pulumi_sandbox.providers.inputs import rows, table

Json = dict[str, Any]

CLUSTER = "aws:eks/getCluster:getCluster"
CLUSTER_AUTH = "aws:eks/getClusterAuth:getClusterAuth"
OFFERINGS = "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings"
SUBNETS = "aws:ec2/getSubnets:getSubnets"
# The outputs of a cluster that its lookup has too.
OF_CLUSTER = (
    "arn", "createdAt", "endpoint", "identities", "platformVersion", "roleArn", "status", "version", "vpcConfig"
)  # fmt: skip


def refusal(existing: ExistingResources, token: str, arguments: Mapping[str, Any]) -> str:
    """Return the message of the provider for a missing cluster, or an empty string.

    If sandbox.yaml lists clusters, all other clusters are missing.
    """
    name = str(arguments.get("name") or "")
    listed = any(one.startswith("cluster/") for one in existing.patterns)
    if token in (CLUSTER, CLUSTER_AUTH) and listed and not existing.has_cluster(name):
        return f"reading EKS Cluster ({name}): couldn't find resource{hint(f'cluster/{name}')}"
    return ""


def from_world(existing: ExistingResources, token: str, arguments: Mapping[str, Any]) -> Json:
    """Return the results from the world, which override those of the examples."""
    if token == CLUSTER and (cluster := existing.cluster(str(arguments.get("name")))):
        found = {name: cluster.outputs.get(name) for name in OF_CLUSTER}
        found["certificateAuthorities"] = [table(cluster.outputs.get("certificateAuthority"))]
        if access := table(cluster.outputs.get("accessConfig")):
            found["accessConfigs"] = [access]
        return {name: value for name, value in found.items() if value}
    return {}


def resource_paths(token: str, result: Mapping[str, Any]) -> set[str]:
    """Return the paths of the resources in an answer. These resources exist."""
    if token == CLUSTER:
        network = table(result.get("vpcConfig"))
        ids = [*rows(network.get("subnetIds")), network.get("clusterSecurityGroupId"), network.get("vpcId")]
        return {f"cluster/{result.get('id')}", *(str(one) for one in ids if one)}
    if token == SUBNETS:
        return {str(one) for one in rows(result.get("ids"))}
    identity = result.get("id")
    kinds = ("subnet-", "sg-", "vpc-", "lt-", "cr-")
    return {identity} if isinstance(identity, str) and identity.startswith(kinds) else set()


def offerings(arguments: Mapping[str, Any], region: str, values: Mapping[str, Any]) -> Json:
    """Return the instance types that the filters name, by location; without a filter, those of the catalog.

    AWS does not publish the zones of a type, so a type is offered in every zone of its region, and one that is not in
    the catalog in every region. The letters of the zones differ by account, so a zone that a filter names is one of the
    region, too.
    """
    kind = str(arguments.get("locationType") or "region")
    region_values = table(table(values.get("regions")).get(region))
    filters = {
        str(table(one).get("name")): [str(value) for value in rows(table(one).get("values"))]
        for one in rows(arguments.get("filters"))
    }
    known = {one.machine_type: region in one.regions for one in gpu_catalog.machines(cloud="aws")}
    named = [one for one in filters.get("location", ()) if re.fullmatch(f"{region}[a-f]", one)]
    places = {
        "region": [region],
        "availability-zone": sorted({*rows(region_values.get("names")), *named}),
        "availability-zone-id": rows(region_values.get("ids")),
    }
    pairs = [
        (name, place)
        for name in filters.get("instance-type", sorted(known))
        if known.get(name, True)
        for place in places.get(kind, ())
        if any(fnmatchcase(place, one) for one in filters.get("location", ["*"]))
    ]
    return {
        **{name: value for name, value in arguments.items() if value is not None},
        "id": region,
        "region": region,
        "instanceTypes": [name for name, _ in pairs],
        "locations": [place for _, place in pairs],
        "locationTypes": [kind for _ in pairs],
    }
