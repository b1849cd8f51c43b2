"""Lookups that are more than example values.

They depend on the world, on missing resources, and on instance types; and IAM policy documents are computed, as by the
real provider.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.aws.world import ExistingResources, hint
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.invokes import LookupRefusedError, go_json
from pulumi_sandbox.providers.resource import PureFunction

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


# The format of a policy document is that of terraform-provider-aws, internal/service/iam/policy_document_data_source.go
# (at 04e9356d) and policy_model.go (at 084fd7bc): single values without a list; actions, resources and identifiers in
# reverse order; conditions and principals sorted by key.
def get_policy_document(arguments: Mapping[str, Any]) -> Json:
    version = arguments.get("version") or "2012-10-17"
    own = {
        "Version": version,
        "Id": arguments.get("policyId"),
        "Statement": [_statement(one) for one in arguments.get("statements") or []],
    }
    documents = [
        *_parsed(arguments.get("sourcePolicyDocuments")),
        own,
        *_parsed(arguments.get("overridePolicyDocuments")),
    ]
    statements: dict[Any, Json] = {}
    for number, statement in enumerate(one for document in documents for one in _listed(document.get("Statement"))):
        # A statement replaces an earlier one with the same Sid.
        statements[statement.get("Sid") or number] = statement
    merged = {
        "Version": max(document.get("Version") or "" for document in documents),
        "Id": next((document["Id"] for document in reversed(documents) if document.get("Id")), None),
        "Statement": list(statements.values()),
    }
    ordered = {name: value for name, value in merged.items() if value}
    text = go_json(ordered, indented=True)
    return {
        # create.StringHashcode: the CRC-32 of the text as a decimal number
        "id": str(zlib.crc32(text.encode())),
        "json": text,
        "minifiedJson": go_json(ordered),
        "version": version,
    }


def _parsed(texts: Any) -> Iterable[Json]:
    for text in rows(texts):
        try:
            document = json.loads(text)
        except (TypeError, ValueError):
            document = None
        if not isinstance(document, dict):
            raise LookupRefusedError("aws.iam.getPolicyDocument: a document is not a JSON object")
        yield document


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _statement(given: Mapping[str, Any]) -> Json:
    fields = {
        "Sid": given.get("sid"),
        "Effect": given.get("effect") or "Allow",
        **{name: _strings(given.get(f"{name[0].lower()}{name[1:]}s"))
           for name in ("Action", "NotAction", "Resource", "NotResource")},
        "Principal": _principals(given.get("principals")),
        "NotPrincipal": _principals(given.get("notPrincipals")),
        "Condition": _conditions(given.get("conditions")),
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value}


def _strings(given: Iterable[str] | None) -> Any:
    # IAM's variables are `&{…}` in the arguments, because Terraform has `${…}` for its own variables.
    return _one_or_list(sorted({one.replace("&{", "${") for one in given or []}, reverse=True))


def _one_or_list(values: list[str]) -> Any:
    return values[0] if len(values) == 1 else values


def _principals(given: list[Mapping[str, Any]] | None) -> Any:
    result: dict[str, list[str]] = {}
    for one in given or []:
        result.setdefault(one["type"], []).extend(_listed(_strings(one["identifiers"])))
    # `{"AWS": "*"}` is not changed. Only `{"*": "*"}` becomes "*".
    return "*" if result == {"*": ["*"]} else {kind: _one_or_list(ids) for kind, ids in sorted(result.items())}


def _conditions(given: list[Mapping[str, Any]] | None) -> Any:
    result: dict[str, dict[str, list[str]]] = {}
    for one in given or []:
        values = [value.replace("&{", "${") for value in one["values"]]
        result.setdefault(one["test"], {}).setdefault(one["variable"], []).extend(values)
    return {
        test: {variable: _one_or_list(values) for variable, values in sorted(variables.items())}
        for test, variables in sorted(result.items())
    }


FUNCTIONS: dict[str, PureFunction] = {"aws:iam/getPolicyDocument:getPolicyDocument": get_policy_document}
