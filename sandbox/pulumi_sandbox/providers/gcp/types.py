"""Map Pulumi properties to fields of Google APIs where the two names differ.

A property that is not listed has the same name in the API, inside its parent's object. A path has no list indexes and
no map keys (`*` stands for any key). The value has one of these forms:

- a path: the API field, relative to the parent
- `/` and a path: the API field, relative to the top of the request
- `@` and a name: a parameter of the insert method
- empty: the provider handles the property itself

The renames come from terraform-provider-google (commit e03b7622, google/services/{compute,resourcemanager,
secretmanager}), which pulumi-gcp bridges.
"""

from __future__ import annotations

from pulumi_sandbox.providers.gcp.mapping import build, container, federation, network, observe, run
from pulumi_sandbox.providers.gcp.mapping.target import IN_PROJECT, MEMBER, PROVIDER_ONLY, REGIONAL, Target

TEMPLATE = "gcp:compute/instanceTemplate:InstanceTemplate"
REGION_TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
GROUP = "gcp:compute/instanceGroupManager:InstanceGroupManager"
REGION_GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
NETWORK, SUBNETWORK, FIREWALL = network.NETWORK, network.SUBNETWORK, network.FIREWALL
ROUTER, ROUTER_NAT = network.ROUTER, network.ROUTER_NAT
GLOBAL_ADDRESS, NETWORK_ATTACHMENT = network.GLOBAL_ADDRESS, network.NETWORK_ATTACHMENT
CONNECTION = network.CONNECTION
WORKER_POOL, TRIGGER = build.WORKER_POOL, build.TRIGGER
REPOSITORY, REPOSITORY_MEMBER = build.REPOSITORY, build.REPOSITORY_MEMBER
POOL, POOL_PROVIDER = federation.POOL, federation.POOL_PROVIDER
RUN_POOL, CUSTOM_ROLE = run.RUN_POOL, run.CUSTOM_ROLE
CLUSTER, NODE_POOL = container.CLUSTER, container.NODE_POOL
LOG_METRIC, ALERT_POLICY = observe.LOG_METRIC, observe.ALERT_POLICY
ACCOUNT = "gcp:serviceaccount/account:Account"
ACCOUNT_MEMBER = "gcp:serviceaccount/iAMMember:IAMMember"
PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
SECRET = "gcp:secretmanager/secret:Secret"  # noqa: S105 - a type
SECRET_VERSION = "gcp:secretmanager/secretVersion:SecretVersion"  # noqa: S105 - a type
BUCKET = "gcp:storage/bucket:Bucket"
KEY_MEMBER = "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember"
SECRET_MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"  # noqa: S105 - a type

TEMPLATES = (TEMPLATE, REGION_TEMPLATE)
GROUPS = (GROUP, REGION_GROUP)
MEMBERS = (ACCOUNT_MEMBER, PROJECT_MEMBER, SECRET_MEMBER, REPOSITORY_MEMBER)
LABELLED = (*TEMPLATES, SECRET, GLOBAL_ADDRESS, REPOSITORY, RUN_POOL)
# Types whose region defaults to that of the provider's configuration.
IN_REGION = (REGION_TEMPLATE, REGION_GROUP, SUBNETWORK, ROUTER, ROUTER_NAT, NETWORK_ATTACHMENT)
IN_LOCATION = (REPOSITORY, REPOSITORY_MEMBER)
# Types whose location may be a region or a zone, and defaults to the provider's region, or else to its zone.
IN_REGION_OR_ZONE = (CLUSTER, NODE_POOL)
# Types without a `project` input.
WITHOUT_PROJECT = (ACCOUNT_MEMBER, CONNECTION)


_DISK = {
    "architecture": "initializeParams.architecture",
    "diskName": "initializeParams.diskName",
    "diskSizeGb": "initializeParams.diskSizeGb",
    "diskType": "initializeParams.diskType",
    "labels": "initializeParams.labels",
    "provisionedIops": "initializeParams.provisionedIops",
    "provisionedThroughput": "initializeParams.provisionedThroughput",
    "resourceManagerTags": "initializeParams.resourceManagerTags",
    "resourcePolicies": "initializeParams.resourcePolicies",
    "sourceImage": "initializeParams.sourceImage",
    "sourceImageEncryptionKey": "initializeParams.sourceImageEncryptionKey",
    "sourceImageEncryptionKey.kmsKeySelfLink": "kmsKeyName",
    "sourceSnapshot": "initializeParams.sourceSnapshot",
    "sourceSnapshotEncryptionKey": "initializeParams.sourceSnapshotEncryptionKey",
    "sourceSnapshotEncryptionKey.kmsKeySelfLink": "kmsKeyName",
    "storagePool": "initializeParams.storagePool",
    "diskEncryptionKey.kmsKeySelfLink": "kmsKeyName",
    "guestOsFeatures": "guestOsFeatures.type",
}
_TEMPLATE = {
    "name": "/name",
    "namePrefix": "",
    "description": "/description",
    "instanceDescription": "description",
    "enableDisplay": "",  # Instance has the field displayDevice; InstanceProperties does not in v1
    "partnerMetadata": "",  # beta API only
    "metadata": "metadata",
    "metadata.*": "items.value",
    "metadataStartupScript": "metadata.items.value",
    "guestAccelerators.count": "acceleratorCount",
    "guestAccelerators.type": "acceleratorType",
    "reservationAffinity.type": "consumeReservationType",
    "reservationAffinity.specificReservation": "",
    "reservationAffinity.specificReservation.key": "/properties.reservationAffinity.key",
    "reservationAffinity.specificReservation.values": "/properties.reservationAffinity.values",
    "scheduling.localSsdRecoveryTimeouts": "localSsdRecoveryTimeout",
    "scheduling.maintenanceInterval": "",  # beta API only
    "serviceAccount": "serviceAccounts",
    "tags": "tags.items",
    "networkInterfaces.accessConfigs.natIp": "natIP",
    "networkInterfaces.networkIp": "networkIP",
    "networkInterfaces.subnetworkProject": "",
} | {f"disks.{name}": target for name, target in _DISK.items()}
_GROUP = {
    "allInstancesConfig.labels": "properties.labels",
    "allInstancesConfig.metadata": "properties.metadata",
    "statefulDisks": "statefulPolicy.preservedState.disks.*",
    "statefulDisks.deviceName": "",  # the key of the API's map
    "statefulDisks.deleteRule": "autoDelete",
    "statefulExternalIps": "statefulPolicy.preservedState.externalIPs.*",
    "statefulExternalIps.interfaceName": "",
    "statefulExternalIps.deleteRule": "autoDelete",
    "statefulInternalIps": "statefulPolicy.preservedState.internalIPs.*",
    "statefulInternalIps.interfaceName": "",
    "statefulInternalIps.deleteRule": "autoDelete",
    "targetSizePolicies": "targetSizePolicy",
    "updatePolicy.maxSurgeFixed": "maxSurge.fixed",
    "updatePolicy.maxSurgePercent": "maxSurge.percent",
    "updatePolicy.maxUnavailableFixed": "maxUnavailable.fixed",
    "updatePolicy.maxUnavailablePercent": "maxUnavailable.percent",
    "updatePolicy.minReadySec": "",  # beta API only
    "waitForInstances": "",
    "waitForInstancesStatus": "",
}
_SELECTION = "instanceFlexibilityPolicy.instanceSelections"
_REGION_GROUP = _GROUP | {
    "distributionPolicyTargetShape": "distributionPolicy.targetShape",
    "distributionPolicyZones": "distributionPolicy.zones.zone",
    _SELECTION: "instanceSelections.*",
    f"{_SELECTION}.name": "",  # the key of the API's map
    **{f"{_SELECTION}.disks.{name}": target for name, target in _DISK.items() if name != "storagePool"},
    f"{_SELECTION}.disks.labels.key": "",
    f"{_SELECTION}.disks.labels.value": "",
    f"{_SELECTION}.disks.resourceManagerTags.key": "",
    f"{_SELECTION}.disks.resourceManagerTags.value": "",
}
_ZONAL = IN_PROJECT | {"zone": "@zone"}

TARGETS: dict[str, Target] = (
    {
        TEMPLATE: Target(
            "compute.v1",
            "InstanceTemplate",
            "instanceTemplates",
            ("properties",),
            _TEMPLATE | {"project": "@project", "region": ""},
        ),
        REGION_TEMPLATE: Target(
            "compute.v1", "InstanceTemplate", "regionInstanceTemplates", ("properties",), _TEMPLATE | REGIONAL
        ),
        GROUP: Target("compute.v1", "InstanceGroupManager", "instanceGroupManagers", (), _GROUP | _ZONAL),
        REGION_GROUP: Target(
            "compute.v1", "InstanceGroupManager", "regionInstanceGroupManagers", (), _REGION_GROUP | REGIONAL
        ),
        ACCOUNT: Target(
            "iam.v1",
            "CreateServiceAccountRequest",
            "projects.serviceAccounts",
            ("serviceAccount",),
            # `disabled` is output-only at creation; the provider calls the disable method afterwards.
            PROVIDER_ONLY | {"project": "", "accountId": "/accountId", "createIgnoreAlreadyExists": "", "disabled": ""},
        ),
        ACCOUNT_MEMBER: Target("iam.v1", "Binding", "projects.serviceAccounts", (), MEMBER | {"serviceAccountId": ""}),
        PROJECT_MEMBER: Target("cloudresourcemanager.v1", "Binding", "projects", (), MEMBER | {"project": ""}),
        SECRET: Target(
            "secretmanager.v1",
            "Secret",
            "projects.secrets",
            (),
            PROVIDER_ONLY
            | {"project": "", "secretId": "@secretId", "deletionProtection": "", "replication.auto": "automatic"},
        ),
        SECRET_VERSION: Target(
            "secretmanager.v1",
            "AddSecretVersionRequest",
            "projects.secrets.versions",
            ("payload",),
            PROVIDER_ONLY
            | {"project": "", "secret": "", "enabled": "", "isSecretDataBase64": "", "secretDataWoVersion": ""}
            # The provider encodes the value itself, so the format `byte` does not apply to the user's value.
            | {"secretData": "", "secretDataWo": ""},
        ),
        SECRET_MEMBER: Target(
            "secretmanager.v1", "Binding", "projects.secrets", (), MEMBER | {"project": "", "secretId": ""}
        ),
    }
    | network.TARGETS
    | build.TARGETS
    | run.TARGETS
    | observe.TARGETS
    | federation.TARGETS
    | container.TARGETS
)
