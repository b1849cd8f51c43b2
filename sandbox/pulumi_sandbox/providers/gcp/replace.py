"""Decide if a change to a Google resource is an update, a replacement or no change.

The documentation of a type (sdk/replace.py) knows most properties that replace it. Tables here have the others.

Sources: `ForceNew` in terraform-provider-google's schemas at e03b7622 (2026-08-21), which pulumi-gcp bridges
(google/services/compute/resource_compute_{region_instance_group_manager,network,subnetwork,
firewall,router,router_nat}.go, google/services/cloudbuild/resource_cloudbuild_{worker_pool,trigger}.go,
google/services/artifactregistry/resource_artifact_registry_repository.go,
google/services/logging/resource_logging_metric.go,
google/services/resourcemanager/resource_google_{service_account,project_iam_custom_role}.go,
google/services/secretmanager/resource_secret_manager_{secret,secret_version}.go,
google/services/container/{node_config,resource_container_node_pool}.go,
google/tpgiamresource/resource_iam_member.go).
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

# All of a GPU's block, with the driver: the API can change the driver in place, but the provider replaces the pool
# (hashicorp/terraform-provider-google#23248).
_NODE_CONFIG = {
    "advancedMachineFeatures", "bootDiskKmsKey", "confidentialNodes.confidentialInstanceType",
    "enableConfidentialStorage", "ephemeralStorageLocalSsdConfig", "flexStart", "guestAccelerators",
    "hostMaintenancePolicy", "localNvmeSsdBlockConfig", "localSsdCount", "localSsdEncryptionMode", "maxRunDuration",
    "metadata", "minCpuPlatform", "nodeGroup", "oauthScopes", "preemptible", "reservationAffinity", "sandboxConfig",
    "secondaryBootDisks", "serviceAccount", "shieldedInstanceConfig", "soleTenantConfig", "spot",
}  # fmt: skip
_POOL_NETWORK = {
    "acceleratorNetworkProfile", "additionalNodeNetworkConfigs", "additionalPodNetworkConfigs", "createPodRange",
    "podCidrOverprovisionConfig", "podIpv4CidrBlock", "podRange", "subnetwork",
}  # fmt: skip
FORCE_NEW: dict[str, set[str]] = {
    types.REGION_GROUP: {
        "baseInstanceName", "description", "distributionPolicyZones", "params", "targetSizePolicies.mode",
    },
    types.NETWORK: {"autoCreateSubnetworks", "description", "internalIpv6Range", "networkProfile", "params"},
    types.SUBNETWORK: {
        "description", "internalIpv6Prefix", "network", "params", "reservedInternalRange", "resolveSubnetMask",
    },
    types.FIREWALL: {"direction", "params"},
    types.ACCOUNT: {"accountId"},
    types.SECRET: {"tags"},
    types.SECRET_VERSION: {"isSecretDataBase64", "secretData", "secretDataWoVersion"},
    types.ROUTER: {"encryptedInterconnectRouter", "nccGateway", "network", "params"},
    types.ROUTER_NAT: {"endpointTypes", "initialNatIps", "type"},
    types.WORKER_POOL: {"networkConfig", "privateServiceConnect"},
    types.REPOSITORY: {
        "format", "kmsKeyName", "mavenConfig.allowSnapshotOverwrites", "mavenConfig.versionPolicy", "mode",
        "remoteRepositoryConfig",
    },
    types.CUSTOM_ROLE: {"roleId"},
    types.LOG_METRIC: {"metricDescriptor.labels.key", "metricDescriptor.labels.valueType"},
    types.AI_ENDPOINT: {"dedicatedEndpointEnabled", "encryptionSpec.kmsKeyName", "network"},
    types.NODE_POOL: {
        "cluster", "maxPodsPerNode", "name", "namePrefix", "placementPolicy", "queuedProvisioning",
        *(f"nodeConfig.{name}" for name in _NODE_CONFIG), *(f"networkConfig.{name}" for name in _POOL_NETWORK),
    },
}  # fmt: skip
# Properties that are changed in place, although the documentation of the type reads as if a change replaced it.
IN_PLACE: dict[str, set[str]] = {
    types.SUBNETWORK: {"ipCollection", "ipv6AccessType"},
    types.TRIGGER: {"name"},
    types.LOG_METRIC: {"name"},
    # The provider handles this input itself, and never sends it to Google.
    **{token: {"deletionPolicy"} for token in types.TEMPLATES},
}

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
    if steps[0] in IN_PLACE.get(token, ()):
        return False
    # A grant is never changed (resource_iam_member.go), and the API of templates has no method that changes them.
    if re.search("I[aA][mM]Member$", token) or token in types.TEMPLATES:
        return True
    # Adding or removing a whole block counts as a change of each of its fields.
    changed = ".".join(steps) + "."
    found = FORCE_NEW.get(token, set())
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
