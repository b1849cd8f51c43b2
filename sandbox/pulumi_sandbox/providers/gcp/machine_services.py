"""Serve the APIs that VMs call besides Compute Engine, such as Secret Manager, Cloud Logging and GitHub."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers import sandbox_file
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.gcp import secret_lookups
from pulumi_sandbox.providers.gcp.builds import Builds
from pulumi_sandbox.providers.gcp.gke.clusters import GET_CLUSTER
from pulumi_sandbox.providers.gcp.machine_apis import MachineApis
from pulumi_sandbox.providers.gcp.names import part
from pulumi_sandbox.providers.gcp.object_storage import BucketServer, WorldStorage
from pulumi_sandbox.providers.gcp.project_apis import ProjectApis
from pulumi_sandbox.providers.gcp.registry import Registry
from pulumi_sandbox.providers.gcp.restrictions import Restrictions
from pulumi_sandbox.providers.github.app_api import GithubAppApi
from pulumi_sandbox.providers.github.organizations import Organizations
from pulumi_sandbox.providers.machines.local_services import LocalServices
from pulumi_sandbox.providers.resource import Refused


def local_services(cloud: Cloud) -> LocalServices:
    """Return the services. Each starts to listen when a VM is first given its address.

    Raises:
        SettingsError: sandbox.yaml has an invalid entry.
    """
    world = cloud.context.world

    def value_of(secret: str) -> str | None:
        """Return the value that a lookup of the secret returns: the emulated state stores no secret values."""
        try:
            result, _ = cloud.invoke(secret_lookups.ACCESS, {"secret": secret, "project": part(secret, "projects")})
        except Refused:
            return None
        return str(result["secretData"])

    def cluster_of(arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result of a lookup of a GKE cluster, or None if the cluster does not exist."""
        try:
            return cloud.invoke(GET_CLUSTER, arguments)[0]
        except Refused:
            return None

    file = cloud.context.workspace.settings_file
    restrictions = Restrictions.read(file, str(cloud.lookups.values.get("projectNumber", "0")))
    google = MachineApis(world, value_of, restrictions)
    listed = sandbox_file.existing_patterns(file, "gcp", "buckets/acme-ci-pulumi-state")
    project_apis = ProjectApis(
        world,
        restrictions,
        lambda path: any(fnmatchcase(path, one) for one in listed),
        cluster_of,
    )
    installations = sandbox_file.existing_patterns(file, "github", "apps/1234567/installations/*")
    github = GithubAppApi(world, installations, Organizations.read(file))
    buckets = BucketServer(WorldStorage(world, project_apis))
    environment_file = cloud.context.workspace.root / "serve.env"

    def environment() -> dict[str, str]:
        return _exported(environment_file)

    registry = Registry(world, project_apis)
    builds = Builds(world, project_apis, registry, buckets.storage, environment)

    return LocalServices(
        {
            "secretmanager": google.secret_manager,
            "logging": google.logging,
            "github": github.answer,
            "cloudresourcemanager": project_apis.resource_manager,
            "serviceusage": project_apis.service_usage,
            "orgpolicy": project_apis.organization_policy,
            "iam": project_apis.iam,
            "cloudbuild": builds.answer,
            "container": project_apis.container,
            "artifactregistry": registry.answer,
        },
        {"storage": buckets.address},
        builds.close,
    )


def _exported(file: Path) -> dict[str, str]:
    """Return the variables that `pulumi-sandbox serve` keeps in a file."""
    words = [shlex.split(line)[1] for line in file.read_text().splitlines()]
    return dict(word.split("=", 1) for word in words)
