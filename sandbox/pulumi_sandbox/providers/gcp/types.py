"""The emulated Google resource types, and the fields of Google's APIs that their properties become.

A property that is not listed has the same name in the API, inside its parent's object. A property without an API field
of its name is checked by the shape of the SDK only. A path has no list indexes and no map keys (`*` stands for any
key). The value has one of these forms:

- a path: the API field, relative to the parent
- `/` and a path: the API field, relative to the top of the request
- empty: a parameter of the method, or a property of the provider itself; the API has another field of the same name

The renames come from terraform-provider-google (commit e03b7622, google/services), which pulumi-gcp bridges. The types
that no component creates, such as a cluster, have few.
"""

from __future__ import annotations

from dataclasses import dataclass, field

INSTANCE = "gcp:compute/instance:Instance"
TEMPLATE = "gcp:compute/instanceTemplate:InstanceTemplate"
REGION_TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
REGION_GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
FIREWALL = "gcp:compute/firewall:Firewall"
ROUTER = "gcp:compute/router:Router"
ROUTER_NAT = "gcp:compute/routerNat:RouterNat"
WORKER_POOL = "gcp:cloudbuild/workerPool:WorkerPool"
TRIGGER = "gcp:cloudbuild/trigger:Trigger"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
REPOSITORY_MEMBER = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"
POOL = "gcp:iam/workloadIdentityPool:WorkloadIdentityPool"
POOL_PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
RUN_POOL = "gcp:cloudrunv2/workerPool:WorkerPool"
CUSTOM_ROLE = "gcp:projects/iAMCustomRole:IAMCustomRole"
CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"
LOG_METRIC = "gcp:logging/metric:Metric"
ALERT_POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
AI_ENDPOINT = "gcp:vertex/aiEndpoint:AiEndpoint"
ACCOUNT = "gcp:serviceaccount/account:Account"
ACCOUNT_MEMBER = "gcp:serviceaccount/iAMMember:IAMMember"
PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
SECRET = "gcp:secretmanager/secret:Secret"  # noqa: S105 - a type
SECRET_VERSION = "gcp:secretmanager/secretVersion:SecretVersion"  # noqa: S105 - a type
SECRET_MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"  # noqa: S105 - a type
BUCKET = "gcp:storage/bucket:Bucket"
KEY_MEMBER = "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember"

TEMPLATES = (TEMPLATE, REGION_TEMPLATE)
MEMBERS = (ACCOUNT_MEMBER, PROJECT_MEMBER, SECRET_MEMBER, REPOSITORY_MEMBER)
LABELLED = (*TEMPLATES, SECRET, REPOSITORY, RUN_POOL, AI_ENDPOINT)
# Types whose region defaults to that of the provider's configuration.
IN_REGION = (REGION_TEMPLATE, REGION_GROUP, SUBNETWORK, ROUTER, ROUTER_NAT)
IN_LOCATION = (REPOSITORY, REPOSITORY_MEMBER)
# Types whose location may be a region or a zone, and defaults to the provider's region, or else to its zone.
IN_REGION_OR_ZONE = (CLUSTER, NODE_POOL)
# Types without a `project` input.
WITHOUT_PROJECT = (ACCOUNT_MEMBER,)


@dataclass(frozen=True)
class Target:
    """The schema of a resource type in Google's API, and the renames of its properties."""

    document: str
    """The discovery document, such as `compute.v1`."""
    schema: str
    """The schema of the request in the document."""
    fields: dict[str, str] = field(default_factory=dict)
    base: tuple[str, ...] = ()
    """The path in the schema of the object that has the properties."""


_REGIONAL = {"region": ""}
_MEMBER = {"member": "members"}
_DISK = {
    **{
        name: f"initializeParams.{name}"
        for name in (
            "architecture", "diskName", "diskSizeGb", "diskType", "labels", "provisionedIops", "provisionedThroughput",
            "resourceManagerTags", "resourcePolicies", "sourceImage", "sourceSnapshot",
        )
    },
    "diskEncryptionKey.kmsKeySelfLink": "kmsKeyName",
    "guestOsFeatures": "guestOsFeatures.type",
}  # fmt: skip
_TEMPLATE = {
    "name": "/name",
    "namePrefix": "",
    "description": "/description",
    "instanceDescription": "description",
    "metadata": "metadata",
    "metadata.*": "items.value",
    "metadataStartupScript": "metadata.items.value",
    "guestAccelerators.count": "acceleratorCount",
    "guestAccelerators.type": "acceleratorType",
    "reservationAffinity.type": "consumeReservationType",
    "reservationAffinity.specificReservation": "",
    "reservationAffinity.specificReservation.key": "/properties.reservationAffinity.key",
    "reservationAffinity.specificReservation.values": "/properties.reservationAffinity.values",
    "serviceAccount": "serviceAccounts",
    "tags": "tags.items",
    "networkInterfaces.accessConfigs.natIp": "natIP",
    "networkInterfaces.networkIp": "networkIP",
    "networkInterfaces.subnetworkProject": "",
} | {f"disks.{name}": target for name, target in _DISK.items()}
_GROUP = {
    "allInstancesConfig.labels": "properties.labels",
    "allInstancesConfig.metadata": "properties.metadata",
    "targetSizePolicies": "targetSizePolicy",
    "updatePolicy.maxSurgeFixed": "maxSurge.fixed",
    "updatePolicy.maxSurgePercent": "maxSurge.percent",
    "updatePolicy.maxUnavailableFixed": "maxUnavailable.fixed",
    "updatePolicy.maxUnavailablePercent": "maxUnavailable.percent",
    "distributionPolicyTargetShape": "distributionPolicy.targetShape",
    "distributionPolicyZones": "distributionPolicy.zones.zone",
}
_NODE_CONFIG = {
    "guestAccelerators": "accelerators",
    "guestAccelerators.count": "acceleratorCount",
    "guestAccelerators.type": "acceleratorType",
    "loggingVariant": "loggingConfig.variantConfig.variant",
    "resourceManagerTags": "resourceManagerTags.tags",
}
_NODE_POOL = {
    "maxPodsPerNode": "maxPodsConstraint.maxPodsPerNode",
    "nodeConfig": "config",
    "nodeCount": "initialNodeCount",
    "nodeLocations": "locations",
    **{f"nodeConfig.{name}": target for name, target in _NODE_CONFIG.items()},
}
_TRIGGER = {
    "build.availableSecrets.secretManagers": "secretManager",
    "build.options.envs": "env",
    "build.options.secretEnvs": "secretEnv",
    "build.options.sourceProvenanceHashes": "sourceProvenanceHash",
    "build.steps.envs": "env",
    "build.steps.secretEnvs": "secretEnv",
    "build.steps.timing": "",  # an object in the API, and one that only the service sets
    "build.steps.waitFors": "waitFor",
}

TARGETS: dict[str, Target] = {
    TEMPLATE: Target("compute.v1", "InstanceTemplate", _TEMPLATE | _REGIONAL, ("properties",)),
    REGION_TEMPLATE: Target(
        "compute.v1", "InstanceTemplate", _TEMPLATE | _REGIONAL | {"deletionPolicy": ""}, ("properties",)
    ),
    REGION_GROUP: Target("compute.v1", "InstanceGroupManager", _GROUP | _REGIONAL),
    NETWORK: Target("compute.v1", "Network", {"routingMode": "routingConfig.routingMode"}),
    SUBNETWORK: Target("compute.v1", "Subnetwork", _REGIONAL),
    FIREWALL: Target(
        "compute.v1",
        "Firewall",
        {"allows": "allowed", "allows.protocol": "IPProtocol"} | {"denies": "denied", "denies.protocol": "IPProtocol"},
    ),
    ROUTER: Target("compute.v1", "Router", _REGIONAL),
    # A NAT is a field of its router; the provider creates it with an update of the router.
    ROUTER_NAT: Target(
        "compute.v1", "RouterNat", _REGIONAL | {"subnetworks.sourceIpRangesToNats": "sourceIpRangesToNat"}
    ),
    ACCOUNT: Target(
        "iam.v1",
        "CreateServiceAccountRequest",
        # `disabled` is output-only at creation; the provider calls the disable method afterwards.
        {"accountId": "/accountId", "disabled": ""},
        ("serviceAccount",),
    ),
    ACCOUNT_MEMBER: Target("iam.v1", "Binding", _MEMBER),
    PROJECT_MEMBER: Target("cloudresourcemanager.v1", "Binding", _MEMBER),
    CUSTOM_ROLE: Target(
        "iam.v1", "CreateRoleRequest", {"roleId": "/roleId", "permissions": "includedPermissions"}, ("role",)
    ),
    POOL: Target("iam.v1", "WorkloadIdentityPool"),
    POOL_PROVIDER: Target("iam.v1", "WorkloadIdentityPoolProvider"),
    SECRET: Target("secretmanager.v1", "Secret", {"replication.auto": "automatic"}),
    SECRET_VERSION: Target("secretmanager.v1", "AddSecretVersionRequest", base=("payload",)),
    SECRET_MEMBER: Target("secretmanager.v1", "Binding", _MEMBER),
    WORKER_POOL: Target(
        "cloudbuild.v1",
        "WorkerPool",
        {
            "name": "",
            "networkConfig": "privatePoolV1Config.networkConfig",
            "privateServiceConnect": "privatePoolV1Config.privateServiceConnect",
            "workerConfig": "privatePoolV1Config.workerConfig",
        },
    ),
    TRIGGER: Target("cloudbuild.v1", "BuildTrigger", _TRIGGER),
    REPOSITORY: Target(
        "artifactregistry.v1",
        "Repository",
        {"cleanupPolicies": "cleanupPolicies.*"}
        # The provider takes days and hours too (30d), and turns them into the API's seconds.
        | {"cleanupPolicies.condition.newerThan": "", "cleanupPolicies.condition.olderThan": ""},
    ),
    REPOSITORY_MEMBER: Target("artifactregistry.v1", "Binding", _MEMBER),
    RUN_POOL: Target(
        "run.v2",
        "GoogleCloudRunV2WorkerPool",
        {"name": "", "template.containers.commands": "command", "template.containers.envs": "env"},
    ),
    LOG_METRIC: Target(
        "logging.v2",
        "LogMetric",
    ),
    ALERT_POLICY: Target(
        "monitoring.v3", "AlertPolicy", {"alertStrategy.notificationChannelStrategies": "notificationChannelStrategy"}
    ),
    # The name is the id in the URL, and the split is a JSON text.
    AI_ENDPOINT: Target(
        "aiplatform.v1",
        "GoogleCloudAiplatformV1Endpoint",
        {"name": "", "location": "", "region": "", "trafficSplit": ""},
    ),
    NODE_POOL: Target("container.v1", "NodePool", _NODE_POOL),
    # The location is in the URL, and the provider takes the windows of the policy in forms of its own.
    CLUSTER: Target(
        "container.v1",
        "Cluster",
        {"location": "", "maintenancePolicy": ""} | {f"nodeConfig.{name}": to for name, to in _NODE_CONFIG.items()},
    ),
}
