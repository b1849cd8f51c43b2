"""The IAM permissions that Google requires for each operation on the resource types of this package.

The custom roles of `bootstrap/` grant these permissions. The sandbox refuses an operation whose permission is missing.

Sources, unless a comment names another one:
- the permissions of each method of Google's APIs: iann0036/iam-dataset@2073fa52a:gcp/map.json, which collects them from
  Google's reference pages;
- the methods that an operation calls: terraform-provider-google@e03b7622, google/services. The provider reads a
  resource after each change, and changes a policy by getIamPolicy and setIamPolicy.
No real project has confirmed the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

Operations = Mapping[str, tuple[str, ...]]

CREATE, READ, UPDATE, DELETE = "create", "read", "update", "delete"

DEPLOYER_ROLE_ID = "gpu_ci_deploy"
"""The custom role that bootstrap/ creates for the deployer."""
USE_BOOTSTRAP_ROLES = "set gpu-ci:site.bootstrapRoles: true, to use the roles that bootstrap/ made"
"""The advice for a deployer that may not create roles. With these permissions, it could make itself owner."""
SECRET_MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"  # noqa: S105 - the name of a type
CUSTOM_ROLE, PROJECT_MEMBER = "gcp:projects/iAMCustomRole:IAMCustomRole", "gcp:projects/iAMMember:IAMMember"


def _plain(prefix: str, *also: str, operations: str = "") -> Operations:
    """Return the permissions of a type whose methods have permissions of the same names.

    Args:
        prefix: The service and the collection, such as compute.networks.
        also: Further permissions of create and update.
        operations: The collection of long-running operations, which the provider polls.
    """
    poll = (f"{operations}.get",) if operations else ()
    return {
        CREATE: (f"{prefix}.create", f"{prefix}.get", *also, *poll),
        READ: (f"{prefix}.get",),
        UPDATE: (f"{prefix}.update", f"{prefix}.get", *also, *poll),
        DELETE: (f"{prefix}.delete", f"{prefix}.get", *poll),
    }


def _policy(prefix: str) -> Operations:
    """Return the permissions to add, read and remove a member of a resource's policy. A change replaces the member."""
    change = (f"{prefix}.getIamPolicy", f"{prefix}.setIamPolicy")
    return {CREATE: change, READ: change[:1], DELETE: change}


_ACT_AS = "iam.serviceAccounts.actAs"
# cloud.google.com/compute/docs/instances/create-start-instance, "Required permissions": for a machine from a template,
# in a subnetwork, with its own disk, labels, metadata and a service account. An image of the project, such as one of an
# image pipeline, needs a right of its own, and Google's public images need none. The error of an insert without it is
# "Required 'compute.images.useReadOnly' permission" (github.com/elasticluster/elasticluster/issues/462). The page does
# not list the permission for labels of a new disk (github.com/BasedHardware/omi/issues/11226).
INSERT = (
    "compute.disks.create",
    "compute.disks.setLabels",
    "compute.images.useReadOnly",
    "compute.instanceTemplates.useReadOnly",
    "compute.instances.create",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setServiceAccount",
    "compute.subnetworks.use",
)
"""The permissions in the project for `compute.instances.insert`. It also requires the right to use the account."""

_GLOBAL, _REGIONAL, _ZONAL = "compute.globalOperations", "compute.regionOperations", "compute.zoneOperations"
_GROUP = "compute.instanceGroupManagers"
_NETWORK_POLICY = "compute.networks.updatePolicy"
_CLUSTER, _CONTAINER_OPERATION = "container.clusters", "container.operations.get"

RESOURCES: Mapping[str, Operations] = {
    "gcp:artifactregistry/repository:Repository": _plain("artifactregistry.repositories"),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": _policy("artifactregistry.repositories"),
    # The methods of triggers have no permissions of their own.
    "gcp:cloudbuild/trigger:Trigger": {
        CREATE: ("cloudbuild.builds.create", "cloudbuild.builds.get", _ACT_AS),
        READ: ("cloudbuild.builds.get",),
        UPDATE: ("cloudbuild.builds.create", "cloudbuild.builds.get", _ACT_AS),
        DELETE: ("cloudbuild.builds.create", "cloudbuild.builds.get"),
    },
    # For update: role roles/cloudbuild.workerPoolOwner, in the same dataset.
    "gcp:cloudbuild/workerPool:WorkerPool": _plain("cloudbuild.workerpools", operations="cloudbuild.operations"),
    # Role roles/run.developer, in the same dataset; Google Cloud documentation "Service identity for worker pools" and
    # "Deploy worker pools to Cloud Run": the deployer must be able to read the image in Artifact Registry.
    "gcp:cloudrunv2/workerPool:WorkerPool": _plain(
        "run.workerpools", _ACT_AS, "artifactregistry.repositories.downloadArtifacts", operations="run.operations"
    ),
    "gcp:cloudscheduler/job:Job": _plain("cloudscheduler.jobs"),
    "gcp:compute/firewall:Firewall": {
        **_plain("compute.firewalls", _NETWORK_POLICY, operations=_GLOBAL),
        DELETE: ("compute.firewalls.delete", "compute.firewalls.get", _NETWORK_POLICY, f"{_GLOBAL}.get"),
    },
    "gcp:compute/network:Network": _plain("compute.networks", operations=_GLOBAL),
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": {
        # A group starts its machines as the Google APIs service agent, but a caller who creates or changes a group must
        # be able to create such machines.
        **_plain(_GROUP, *INSERT, operations=_REGIONAL),
        DELETE: (f"{_GROUP}.delete", f"{_GROUP}.get", "compute.instanceGroups.delete", f"{_REGIONAL}.get"),
    },
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": {
        # A template cannot be updated.
        CREATE: ("compute.instanceTemplates.create", "compute.instanceTemplates.get", _ACT_AS, f"{_REGIONAL}.get"),
        READ: ("compute.instanceTemplates.get",),
        DELETE: ("compute.instanceTemplates.delete", "compute.instanceTemplates.get", f"{_REGIONAL}.get"),
    },
    "gcp:compute/router:Router": _plain("compute.routers", operations=_REGIONAL),
    # A NAT is a field of its router.
    "gcp:compute/routerNat:RouterNat": {
        CREATE: ("compute.routers.get", "compute.routers.update", f"{_REGIONAL}.get"),
        READ: ("compute.routers.get",),
        UPDATE: ("compute.routers.get", "compute.routers.update", f"{_REGIONAL}.get"),
        DELETE: ("compute.routers.get", "compute.routers.update", f"{_REGIONAL}.get"),
    },
    "gcp:compute/subnetwork:Subnetwork": {
        **_plain("compute.subnetworks", operations=_REGIONAL),
        # The provider changes the IP range and privateIpGoogleAccess by methods of their own
        # (resource_compute_subnetwork.go).
        UPDATE: (
            "compute.subnetworks.expandIpCidrRange",
            "compute.subnetworks.get",
            "compute.subnetworks.setPrivateIpGoogleAccess",
            "compute.subnetworks.update",
            f"{_REGIONAL}.get",
        ),
    },
    # A node pool has no permissions of its own: each change of it is an update of the cluster.
    "gcp:container/nodePool:NodePool": {
        CREATE: (f"{_CLUSTER}.update", f"{_CLUSTER}.get", _ACT_AS, _CONTAINER_OPERATION),
        READ: (f"{_CLUSTER}.get",),
        UPDATE: (f"{_CLUSTER}.update", f"{_CLUSTER}.get", _CONTAINER_OPERATION),
        DELETE: (f"{_CLUSTER}.update", f"{_CLUSTER}.get", _CONTAINER_OPERATION),
    },
    # Role roles/logging.configWriter, in the same dataset.
    "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember": _policy("cloudkms.cryptoKeys"),
    "gcp:logging/metric:Metric": _plain("logging.logMetrics"),
    "gcp:monitoring/alertPolicy:AlertPolicy": _plain("monitoring.alertPolicies"),
    # The provider restores a deleted role of the same id (resource_google_project_iam_custom_role.go).
    CUSTOM_ROLE: {
        **_plain("iam.roles"),
        CREATE: ("iam.roles.create", "iam.roles.get", "iam.roles.undelete", "iam.roles.update"),
    },
    PROJECT_MEMBER: _policy("resourcemanager.projects"),
    # Role roles/pubsub.editor, in the same dataset. It is not verified that Cloud Build's service agent creates the
    # subscription of a trigger without a permission of the deployer.
    "gcp:pubsub/topic:Topic": {
        **_plain("pubsub.topics"),
        UPDATE: ("pubsub.topics.get", "pubsub.topics.update"),
    },
    "gcp:pubsub/topicIAMMember:TopicIAMMember": _policy("pubsub.topics"),
    "gcp:secretmanager/secretIamMember:SecretIamMember": _policy("secretmanager.secrets"),
    "gcp:serviceaccount/account:Account": _plain("iam.serviceAccounts"),
    "gcp:serviceaccount/iAMMember:IAMMember": _policy("iam.serviceAccounts"),
    "gcp:storage/bucket:Bucket": {
        **_plain("storage.buckets"),
        # The provider lists the objects before it deletes the bucket, and deletes them if forceDestroy is set.
        DELETE: ("storage.buckets.delete", "storage.buckets.get", "storage.objects.delete", "storage.objects.list"),
    },
    "gcp:storage/bucketIAMMember:BucketIAMMember": _policy("storage.buckets"),
    "gcp:storage/bucketObject:BucketObject": {
        # A new content overwrites the object, which requires delete.
        CREATE: ("storage.objects.create", "storage.objects.delete", "storage.objects.get"),
        READ: ("storage.objects.get",),
        UPDATE: ("storage.objects.create", "storage.objects.delete", "storage.objects.get"),
        DELETE: ("storage.objects.delete", "storage.objects.get"),
    },
}
"""By Pulumi type and operation."""

NEVER_UPDATED = frozenset({"gcp:compute/network:Network", "gcp:compute/router:Router"})
"""Types that are never updated: each field that the components set replaces the resource. A test checks this list."""

CALLS: Mapping[str, tuple[str, ...]] = {
    "compute.instances.insert": (*INSERT, _ACT_AS),
    "compute.instances.delete": ("compute.instances.delete",),
    "compute.instances.get": ("compute.instances.get",),
    "compute.instances.getGuestAttributes": ("compute.instances.getGuestAttributes",),
    "compute.instances.getSerialPortOutput": ("compute.instances.getSerialPortOutput",),
    "compute.instances.list": ("compute.instances.list",),
    "compute.instances.aggregatedList": ("compute.instances.list",),
    "compute.regionInstanceTemplates.get": ("compute.instanceTemplates.get",),
    "compute.zoneOperations.get": (f"{_ZONAL}.get",),
}
"""The calls of the check, by the API's method."""

LOOKUPS: Mapping[str, tuple[str, ...]] = {
    "gcp:container/getCluster:getCluster": (f"{_CLUSTER}.get",),
    "gcp:organizations/getProject:getProject": ("resourcemanager.projects.get",),
    "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess": ("secretmanager.versions.access",),
}
"""The functions that the stack calls."""


GRANTED_ON_KEYS = frozenset({"gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember"})
"""Types whose permissions the deployer has on single keys, not in the project.

In the project, they would let the deployer give anyone the key that decrypts the secrets of every state.
"""


def deployer() -> list[str]:
    """Return the permissions of the account that deploys: those of every operation, call and lookup in the project.

    It creates no roles. It also grants roles in the project, with the permissions for PROJECT_MEMBER and the condition
    `grants_only`.
    """
    types = RESOURCES.keys() - GRANTED_ON_KEYS - {CUSTOM_ROLE, PROJECT_MEMBER}
    return _sorted([*map(of_type, types), *CALLS.values(), *LOOKUPS.values()])


def grants_only(roles: Sequence[str]) -> str:
    """Return the condition of a grant that lets an account grant and revoke these roles alone.

    Source: cloud.google.com/iam/docs/setting-limits-on-granting-roles. A list has at most 10 roles. Two lists would
    refuse a request with roles of both, and the provider sends several grants in one request.
    """
    listed = ", ".join(f"'{role}'" for role in roles)
    return f"api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly([{listed}])"


def deployer_on_keys() -> list[str]:
    """Return the permissions of the account that deploys on each key that signs images."""
    return _sorted(map(of_type, GRANTED_ON_KEYS))


def of_calls(calls: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the permissions of these API calls, sorted and without duplicates."""
    return _sorted(calls.values())


# What Google checks on a machine, disk or image that a caller creates or changes, and not on the project.
_ON_OWN = re.compile(r"compute\.(disks\.|images\.(?!list$|useReadOnly$)|instances\.(?!list$))")


def is_limited_by_name(permission: str) -> bool:
    """Return True if a condition on names can limit the permission to the caller's own machines, disks and images."""
    return _ON_OWN.match(permission) is not None


def names_start_with(prefixes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return conditions of grants that hold together for resources of these collections with names that start so.

    An empty start matches each name in the collection.

    Source of the form: cloud.google.com/iam/docs/configuring-resource-based-access, "extract"; the setup script of the
    GPU CI of github.com/ovg-project/kvcached creates machines with it. A condition has at most 12 logical operators
    (cloud.google.com/iam/quotas).
    """
    terms = [
        f'resource.name.extract("/{collection}/{{name}}")' + (f'.startsWith("{prefix}")' if prefix else ' != ""')
        for collection, starts in prefixes.items()
        for prefix in starts
    ]
    return [" || ".join(terms[at : at + 12]) for at in range(0, len(terms), 12)]


def of_type(token: str) -> list[str]:
    """Return the permissions of the operations that the stacks of this package do on a type."""
    never = {UPDATE} if token in NEVER_UPDATED else set()
    return _sorted(permissions for name, permissions in RESOURCES[token].items() if name not in never)


READ_OBJECT = "storage.objects.get"
"""The permission that the account that previews has for OBJECTS only."""
OBJECTS: Mapping[str, Sequence[str]] = {
    "objects": ("bridge.json", "configuration.json", "program"),
    "payloads": ("",),
    "templates": ("",),
}
"""The objects that stacks create in their buckets: how their names start, by the folder before. Mailboxes have payloads
and templates. Other objects are states, data of builds and mail.
"""


def reader() -> list[str]:
    """Return the permissions of the account that previews: those of reads. It cannot read the value of a secret."""
    return [each for each in _sorted(operations[READ] for operations in RESOURCES.values()) if each != READ_OBJECT]


# The API of a permission whose first part is not the name of the API.
_API_OF = {"resourcemanager": "cloudresourcemanager"}


def services(types: Iterable[str]) -> list[str]:
    """Return the APIs that manage resources of these types, such as compute.googleapis.com."""
    names = {RESOURCES[token][CREATE][0].partition(".")[0] for token in types}
    return sorted(f"{_API_OF.get(name, name)}.googleapis.com" for name in names)


def add_to_role(role: str, project: str, permissions: Iterable[str]) -> str:
    """Return the command that adds permissions to a custom role of a project."""
    return f"gcloud iam roles update {role} --project {project} --add-permissions {','.join(permissions)}"


def bind_role(role: str, project: str, member: str) -> str:
    """Return the command that grants a role of a project to a member."""
    return f"gcloud projects add-iam-policy-binding {project} --member {member} --role {role} --condition None"


def _sorted(groups: Iterable[Iterable[str]]) -> list[str]:
    return sorted({permission for group in groups for permission in group})
