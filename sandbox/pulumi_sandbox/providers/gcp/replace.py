"""Decide if a change to a Google resource is an update, a replacement or no change.

The documentation of a type (sdk/replace.py) knows most properties that replace it. types.toml has the others.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.bridged import location_changes
from pulumi_sandbox.providers.diff import UPDATE, Change
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.names import last, relative
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.paths import parse
from pulumi_sandbox.providers.resource import Resource

# Fields where a name, a partial link and a full link are equal (CompareSelfLinkOrResourceName and
# CompareSelfLinkRelativePaths upstream).
LINKS = {
    "healthCheck", "instanceTemplate", "machineType", "nccGateway", "network", "networkAttachment",
    "repository", "router", "secret", "secretId", "subnetwork", "workloadPolicy", "zone",
}  # fmt: skip
# Fields of type TypeSet upstream: the order of their elements does not matter.
SETS = {
    "advertisedIpRanges", "cleanupPolicies", "destinationRanges", "distributionPolicyZones", "drainNatIps",
    "initialNatIps", "machineTypes", "natIps", "nodeLocations", "oauthScopes", "reservedPeeringRanges", "scopes",
    "sourceRanges", "sourceServiceAccounts", "sourceTags", "tags", "targetPools", "targetServiceAccounts", "targetTags",
}  # fmt: skip

# Types for which upstream does not compare the resource's project with the provider's. Their sources do not call
# DefaultProviderProject; 675 of the 689 sources with a `project` do. IAM types have their own source without the call.
_PROJECT_NOT_COMPARED = re.compile(
    r":(?:storage/bucket|container/cluster|dataflow/job|bigtable/gCPolicy|secretmanager/secretVersion|endpoints/service"
    r"|gkehub/featureMembership|oslogin/sshPublicKey|servicenetworking/vpcServiceControls):"
    r"|[iI][aA][mM](?:Member|Binding|Policy|AuditConfig):"
)


def names(path: str) -> tuple[str, ...]:
    return tuple(step for step in parse(path) if isinstance(step, str))


def replaces(token: str, path: str) -> bool | None:
    """Return True if a change at the path replaces the resource; None if only the documentation may know."""
    steps = names(path)
    row = types.TARGETS.get(token)
    if row and steps[0] in row.in_place:
        return False
    # A grant is never changed (resource_iam_member.go), and the API of templates has no method that changes them.
    if re.search("I[aA][mM]Member$", token) or token in types.TEMPLATES:
        return True
    # Adding or removing a whole block counts as a change of each of its fields.
    changed = ".".join(steps) + "."
    found = row.replaces if row else ()
    return any(changed.startswith(f"{one}.") or one.startswith(changed) for one in found) or None


def forced_changes(res: Resource, site: Site) -> Iterator[Change]:
    """Yield the changes that force a replacement because of their values.

    - A subnetwork's IP range that does not grow. A range that grows is an update.
    - A project or region that differs from the provider's configuration.

    Sources:
    resource_compute_subnetwork.go: customdiff.ForceNewIfChange("ip_cidr_range", IsShrinkageIpCidr);
    google/tpgresource/utils.go: DefaultProviderProject, DefaultProviderRegion.
    """
    old_range, new_range = (res.old_inputs or {}).get("ipCidrRange"), res.inputs.get("ipCidrRange")
    if res.token == types.SUBNETWORK and old_range != new_range and not _does_not_shrink(old_range, new_range):
        yield Change(("ipCidrRange",), UPDATE, old_range, new_range, replacing=True)
    project, region, _ = site.place(res.inputs)
    if not _PROJECT_NOT_COMPARED.search(res.token):
        yield from location_changes(res, "project", project)
    if res.token in (types.REGION_GROUP, types.REGION_TEMPLATE):
        yield from location_changes(res, "region", region)


def _does_not_shrink(old_range: Any, new_range: Any) -> bool:
    """Return True if the range grows, or if a value is not a range; upstream then finds no shrinkage."""
    try:
        before, after = ipaddress.ip_network(old_range, strict=False), ipaddress.ip_network(new_range, strict=False)
    except ValueError:
        return True
    return before.version == after.version and before.subnet_of(after)  # type: ignore[arg-type]


def same_value(path: str, old: Any, new: Any) -> bool:
    """Return True if the provider treats the two values as equal."""
    field = names(path)[-1]
    if isinstance(old, list) and isinstance(new, list) and field in SETS:
        return sorted(map(_name, old)) == sorted(map(_name, new))
    if isinstance(old, str) and isinstance(new, str) and field == "peeredNetwork":
        return last(old) == last(new)  # CompareResourceNames: a project's id equals its number
    if isinstance(old, str) and isinstance(new, str) and field == "imageType":
        return old.lower() == new.lower()  # CaseDiffSuppress
    if isinstance(old, str) and isinstance(new, str) and field in LINKS | {"distributionPolicyZones"}:
        return _same_link(old, new)
    return False


def _name(value: Any) -> str:
    return relative(value).rsplit("/", 1)[-1] if isinstance(value, str) and "/zones/" in value else str(value)


def _same_link(old: str, new: str) -> bool:
    before, after = relative(old), relative(new)
    if "/" in before and "/" in after:
        shorter, longer = sorted((before, after), key=len)
        return longer == shorter or longer.endswith("/" + shorter)
    return before.rsplit("/", 1)[-1] == after.rsplit("/", 1)[-1]
