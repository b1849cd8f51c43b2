"""Computes the permissions on a Google Cloud project that the deployer of a stack file needs.

gpu_common.google_permissions has the permissions of each resource type. This module has the resource types that each
part of a stack file creates. A test compares these types with the resources of the real program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_common import google_permissions

from gpu_ci.cli.stack_files import StackFile
from gpu_ci.gcp.build_gpu_bridge import BuildGpuBridgeArgs
from gpu_ci.gcp.build_pool import BuildPoolArgs
from gpu_ci.gcp.gke_nodes.args import GkeGpuNodePoolArgs
from gpu_ci.gcp.runner_pool import RunnerPoolArgs
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.site import MANAGER, SITE

_ACCOUNT, _PROJECT_MEMBER = "gcp:serviceaccount/account:Account", google_permissions.PROJECT_MEMBER
_SECRET_MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"  # noqa: S105 - the name of a type
MACHINES = (
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
    _ACCOUNT,
    _PROJECT_MEMBER,
)
NODE_POOLS = ("gcp:container/nodePool:NodePool", _ACCOUNT, _PROJECT_MEMBER)
"""The types of pools on GKE clusters."""
NETWORKS = (
    "gcp:compute/firewall:Firewall",
    "gcp:compute/network:Network",
    "gcp:compute/router:Router",
    "gcp:compute/routerNat:RouterNat",
    "gcp:compute/subnetwork:Subnetwork",
)
BUILDS = (
    "gcp:artifactregistry/repository:Repository",
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
    "gcp:cloudbuild/workerPool:WorkerPool",
    _ACCOUNT,
    _PROJECT_MEMBER,
)
_PROGRAM_OF_BUILDS = (
    "gcp:cloudbuild/trigger:Trigger",
    "gcp:cloudscheduler/job:Job",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
    google_permissions.CUSTOM_ROLE,
    "gcp:pubsub/topic:Topic",
    "gcp:storage/bucket:Bucket",
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    "gcp:storage/bucketObject:BucketObject",
    _ACCOUNT,
    _PROJECT_MEMBER,
)
BRIDGES = (
    *_PROGRAM_OF_BUILDS,
    "gcp:pubsub/topicIAMMember:TopicIAMMember",
    "gcp:serviceaccount/iAMMember:IAMMember",
)
"""The types of pools of kind cloud-build-gpu."""
IMAGE_REPOSITORIES = ("gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",)
IMAGE_PIPELINES = {
    "container": (
        "gcp:artifactregistry/repository:Repository",
        "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
        "gcp:cloudbuild/trigger:Trigger",
        _ACCOUNT,
        _PROJECT_MEMBER,
    ),
    "host": _PROGRAM_OF_BUILDS,
}
"""The types of each kind of image pipeline on Google Cloud."""
CONTAINER_OPTIONS = {
    "schedule": ("gcp:cloudscheduler/job:Job", "gcp:pubsub/topic:Topic"),
    "sign": ("gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember",),
}
"""The types that fields of an image pipeline of kind container add."""
TRIGGERS = ("gcp:cloudbuild/trigger:Trigger",)
MANAGER_SERVICE = (
    "gcp:cloudrunv2/workerPool:WorkerPool",
    google_permissions.CUSTOM_ROLE,
    "gcp:serviceaccount/iAMMember:IAMMember",
    "gcp:storage/bucket:Bucket",
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    "gcp:storage/bucketObject:BucketObject",
    _ACCOUNT,
    _PROJECT_MEMBER,
    _SECRET_MEMBER,
)
METRICS, ALERTS = ("gcp:logging/metric:Metric",), ("gcp:monitoring/alertPolicy:AlertPolicy",)


def permissions(file: StackFile) -> list[str]:
    """Return the permissions that the deployer needs on the project, sorted.

    The permission to read the values of secrets is left out, because it may be granted on each secret. So are
    permissions on keys, which are granted on each key.
    """
    in_project = types(file) - google_permissions.GRANTED_ON_KEYS
    needed = {permission for token in in_project for permission in google_permissions.of_type(token)}
    if any(isinstance(args, RunnerPoolArgs | BuildGpuBridgeArgs) for _, args in file.pools):
        needed |= {*google_permissions.of_calls(google_permissions.CALLS)}
    return sorted(needed)


def of_node_pools() -> list[str]:
    """Return the permissions that the deployer needs on the project of a GKE cluster, sorted."""
    return sorted({permission for token in NODE_POOLS for permission in google_permissions.of_type(token)})


def has_own_node_pools(file: StackFile) -> bool:
    """Return True if the stack has pools on GKE clusters of its own project."""
    clusters = file.value(CLUSTERS) or {}
    names = {args.cluster_name for _, args in file.pools if isinstance(args, GkeGpuNodePoolArgs)}
    return any(clusters[name].get("project", file.project) == file.project for name in names)


def attests(file: StackFile) -> bool:
    """Return True if an image pipeline makes attestations for Binary Authorization."""
    return any((pipeline.choices.get("sign") or {}).get("attestor") for pipeline in file.pipelines)


def uses_bootstrap_roles(file: StackFile) -> bool:
    """Return True if the stack uses the custom roles that bootstrap/ made."""
    return bool((file.value(SITE) or {}).get("bootstrapRoles"))


def types(file: StackFile) -> set[str]:
    """Return the types of the Google Cloud resources that the program creates in the stack's project."""
    found = {token for group in _groups(file) for token in group}
    # bootstrap/ makes no role for attestations.
    return found - {google_permissions.CUSTOM_ROLE} if uses_bootstrap_roles(file) and not attests(file) else found


def _groups(file: StackFile) -> Iterator[tuple[str, ...]]:
    site: dict[str, Any] = file.value(SITE) or {}
    github: dict[str, Any] = site.get("github") or {}
    machines = [args for _, args in file.pools if isinstance(args, RunnerPoolArgs)]
    builds = [args for _, args in file.pools if isinstance(args, BuildPoolArgs)]
    bridges = [args for _, args in file.pools if isinstance(args, BuildGpuBridgeArgs)]
    if machines:
        yield MACHINES
    if has_own_node_pools(file):
        yield NODE_POOLS
    if bridges:
        yield BRIDGES
    if any(getattr(args, "image_repositories", ()) for _, args in file.pools):
        yield IMAGE_REPOSITORIES
    # Without a manager, the machines read the key of runnerApp, and register their runners themselves.
    reads_key = machines and github.get("runnerApp") and not github.get("managerApp")
    if reads_key or any(args.secrets for args in machines):
        yield (_SECRET_MEMBER,)
    if site.get("networks"):
        yield NETWORKS
    if builds:
        yield BUILDS
    for pipeline in file.pipelines:
        yield IMAGE_PIPELINES.get(pipeline.kind, ())
        options = CONTAINER_OPTIONS if pipeline.kind == "container" else {}
        yield from (types for option, types in options.items() if pipeline.choices.get(option))
    if attests(file):
        yield (google_permissions.CUSTOM_ROLE,)
    if any(args.triggers for args in builds):
        yield TRIGGERS
    if (manager := file.value(MANAGER)) is not None and github.get("managerApp"):
        from gpu_ci.gcp.runner_manager import ManagerSettings  # loads Pulumi's Google package

        choices = ManagerSettings(**manager)
        yield MANAGER_SERVICE
        if choices.metrics or choices.alerts:
            yield METRICS
        if choices.alerts:
            yield ALERTS
