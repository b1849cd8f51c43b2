"""The check against Google's discovery documents: what it finds, and exactly what it cannot see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pulumi_sandbox.providers.gcp import discovery, types
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.sdk.types import Type

from tests.sandbox.providers.gcp.conftest import SHAPES

VERSIONS = {"versions": [{"instanceTemplate": "x"}]}


@pytest.fixture
def shapes() -> Shapes:
    return SHAPES


def properties(shapes: Shapes, token: str) -> set[tuple[str, ...]]:
    """Every property of a resource, as the names on the way to it."""

    def below(kind: Type, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if kind.kind == "object":
            for name, declared in shapes.object(kind.name).properties.items():
                yield from below(declared.type, (*names, name))
        elif kind.kind in ("list", "union"):
            for one in kind.of:
                yield from below(one, names)
        elif kind.kind == "map":
            yield from below(kind.of[0], (*names, "any key"))
        else:
            yield names

    declared = shapes.shape(token).inputs.properties
    return {names for name, one in declared.items() for names in below(one.type, (name,))}


_HOSTS = "hostMaintenancePolicy"
OF_NODES = [
    "effectiveTaints.effect",
    "effectiveTaints.key",
    "effectiveTaints.value",
    "ephemeralStorageConfig.localSsdCount",
    f"{_HOSTS}.maintenanceInterval",
    f"{_HOSTS}.opportunisticMaintenanceStrategy.maintenanceAvailabilityWindow",
    f"{_HOSTS}.opportunisticMaintenanceStrategy.minNodesPerPool",
    f"{_HOSTS}.opportunisticMaintenanceStrategy.nodeIdleTimeWindow",
    "sandboxConfig.sandboxType",
]
WINDOWS = [
    "dailyMaintenanceWindow.duration",
    "dailyMaintenanceWindow.startTime",
    "disruptionBudget.lastDisruptionTime",
    "disruptionBudget.lastMinorVersionDisruptionTime",
    "disruptionBudget.minorVersionDisruptionInterval",
    "disruptionBudget.patchVersionDisruptionInterval",
    "maintenanceExclusions.endTime",
    "maintenanceExclusions.exclusionName",
    "maintenanceExclusions.exclusionOptions.endTimeBehavior",
    "maintenanceExclusions.exclusionOptions.scope",
    "maintenanceExclusions.startTime",
    "recurringMaintenanceWindow.delayUntil.day",
    "recurringMaintenanceWindow.delayUntil.month",
    "recurringMaintenanceWindow.delayUntil.year",
    "recurringMaintenanceWindow.recurrence",
    "recurringMaintenanceWindow.windowDuration",
    "recurringMaintenanceWindow.windowStartTime.hours",
    "recurringMaintenanceWindow.windowStartTime.minutes",
    "recurringMaintenanceWindow.windowStartTime.seconds",
    "recurringWindow.endTime",
    "recurringWindow.recurrence",
    "recurringWindow.startTime",
]
# What no field of the API's schema checks: the provider's own settings, keys of maps, and beta fields. A new entry here
# is a property of a newer SDK that nothing looks at.
UNSEEN = {
    types.TEMPLATE: [
        "enableDisplay",
        "namePrefix",
        "networkInterfaces.subnetworkProject",
        "partnerMetadata.any key",
        "region",
        "scheduling.maintenanceInterval",
    ],
    types.REGION_TEMPLATE: [
        "deletionPolicy",
        "enableDisplay",
        "namePrefix",
        "networkInterfaces.subnetworkProject",
        "partnerMetadata.any key",
        "scheduling.maintenanceInterval",
    ],
    types.GROUP: [
        "deletionPolicy",
        "params.resourceManagerTags.any key",
        "statefulDisks.deviceName",
        "statefulExternalIps.interfaceName",
        "statefulInternalIps.interfaceName",
        "updatePolicy.minReadySec",
        "waitForInstances",
        "waitForInstancesStatus",
    ],
    types.REGION_GROUP: [
        "deletionPolicy",
        "instanceFlexibilityPolicy.instanceSelections.disks.labels.key",
        "instanceFlexibilityPolicy.instanceSelections.disks.labels.value",
        "instanceFlexibilityPolicy.instanceSelections.disks.resourceManagerTags.key",
        "instanceFlexibilityPolicy.instanceSelections.disks.resourceManagerTags.value",
        "instanceFlexibilityPolicy.instanceSelections.name",
        "params.resourceManagerTags.any key",
        "statefulDisks.deviceName",
        "statefulExternalIps.interfaceName",
        "statefulInternalIps.interfaceName",
        "updatePolicy.minReadySec",
        "waitForInstances",
        "waitForInstancesStatus",
    ],
    types.NETWORK: ["deleteBgpAlwaysCompareMed", "deleteDefaultRoutesOnCreate", "deletionPolicy"],
    types.SUBNETWORK: ["deletionPolicy", "sendSecondaryIpRangeIfEmpty"],
    types.FIREWALL: ["deletionPolicy"],
    types.ACCOUNT: ["createIgnoreAlreadyExists", "deletionPolicy", "disabled", "project"],
    types.ACCOUNT_MEMBER: ["serviceAccountId"],
    types.PROJECT_MEMBER: ["project"],
    types.SECRET: ["deletionPolicy", "deletionProtection", "project"],
    types.SECRET_VERSION: [
        "deletionPolicy",
        "enabled",
        "isSecretDataBase64",
        "project",
        "secret",
        "secretData",
        "secretDataWo",
        "secretDataWoVersion",
    ],
    types.SECRET_MEMBER: ["project", "secretId"],
    types.ROUTER: ["deletionPolicy"],
    types.ROUTER_NAT: ["deletionPolicy", "initialNatIps", "router"],
    types.GLOBAL_ADDRESS: ["deletionPolicy"],
    types.NETWORK_ATTACHMENT: ["deletionPolicy"],
    types.CONNECTION: ["deletionPolicy", "service", "updateOnCreationFail"],
    types.WORKER_POOL: ["deletionPolicy", "location", "project", "workerConfig.noExternalIp"],
    types.TRIGGER: ["build.steps.timing", "deletionPolicy", "location", "project"],
    types.REPOSITORY: [
        "cleanupPolicies.condition.newerThan",
        "cleanupPolicies.condition.olderThan",
        "deletionPolicy",
        "location",
        "project",
    ],
    types.REPOSITORY_MEMBER: ["location", "project", "repository"],
    types.RUN_POOL: [
        "deletionPolicy",
        "deletionProtection",
        "location",
        "project",
        "scaling.maxInstanceCount",
        "scaling.minInstanceCount",
        "scaling.scalingMode",
    ],
    types.CUSTOM_ROLE: ["deletionPolicy", "project"],
    types.POOL: [
        "attestationRules.googleCloudResource",
        "deletionPolicy",
        "inlineTrustConfig.additionalTrustBundles.trustDomain",
        "project",
    ],
    types.POOL_PROVIDER: ["deletionPolicy", "project", "workloadIdentityPoolId"],
    types.LOG_METRIC: ["deletionPolicy", "project"],
    types.ALERT_POLICY: ["deletionPolicy", "project"],
    types.NODE_POOL: [
        "cluster",
        "deletionPolicy",
        "ignoreNodeCountChanges",
        "location",
        "namePrefix",
        "networkConfig.additionalNodeNetworkConfigs.stackType",
        *[f"nodeConfig.{name}" for name in OF_NODES],
        "project",
    ],
    types.CLUSTER: [
        "addonsConfig.istioConfig.auth",
        "addonsConfig.istioConfig.disabled",
        "addonsConfig.kalmConfig.enabled",
        "clusterTelemetry.type",
        "deletionPolicy",
        "deletionProtection",
        "desiredEmulatedVersion",
        "fleet.membershipId",
        "fleet.membershipLocation",
        "ignoreNodeCountChanges",
        "location",
        *[f"maintenancePolicy.{name}" for name in WINDOWS],
        "networkingMode",
        *[f"nodeConfig.{name}" for name in OF_NODES],
        "nodePoolDefaults.nodeConfigDefaults.insecureKubeletReadonlyPortEnabled",
        "nodePools.ignoreNodeCountChanges",
        "nodePools.managedInstanceGroupUrls",
        "nodePools.namePrefix",
        "nodePools.networkConfig.additionalNodeNetworkConfigs.stackType",
        *[f"nodePools.nodeConfig.{name}" for name in OF_NODES],
        "nodeVersion",
        "podSecurityPolicyConfig.enabled",
        "project",
        "protectConfig.workloadConfig.auditMode",
        "protectConfig.workloadVulnerabilityMode",
        "removeDefaultNodePool",
        "skipNodePoolRefresh",
        "tpuConfig.enabled",
        "tpuConfig.ipv4CidrBlock",
        "tpuConfig.useServiceNetworking",
        "workloadAltsConfig.enableAlts",
    ],
}


def test_what_no_schema_of_google_sees_is_exactly_this(shapes: Shapes) -> None:
    assert {token: discovery.unmatched(token, properties(shapes, token)) for token in types.TARGETS} == UNSEEN


def test_every_other_property_leads_to_a_plain_value_of_the_api(shapes: Shapes) -> None:
    wrong = {}
    for token in types.TARGETS:
        for names in properties(shapes, token):
            leaf = discovery.value_schema(token, names)
            if leaf is not None and leaf.get("type") not in ("string", "integer", "number", "boolean"):
                wrong[token, ".".join(names)] = leaf.get("type")
    assert wrong == {}


def test_no_rename_is_for_a_property_there_is_not(shapes: Shapes) -> None:
    wrong = {}
    for token, target in types.TARGETS.items():
        known = {names[:length] for names in properties(shapes, token) for length in range(1, len(names) + 1)}
        renames = {tuple(path.replace("*", "any key").split(".")) for path in target.fields}
        if renames - known:
            wrong[token] = renames - known
    assert wrong == {}


def test_these_have_no_method_that_changes_them() -> None:
    assert {token.rsplit(":", 1)[-1] for token in types.TARGETS if discovery.has_no_update_method(token)} == {
        "GlobalAddress",  # but for its labels
        "InstanceTemplate",
        "RegionInstanceTemplate",
        "SecretVersion",
    }
