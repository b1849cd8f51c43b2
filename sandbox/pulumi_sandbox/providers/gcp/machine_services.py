"""Serve the APIs that VMs call besides Compute Engine, such as Secret Manager, Cloud Logging and GitHub."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

from pulumi_sandbox.providers import sandbox_file
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.gcp.builds import Builds
from pulumi_sandbox.providers.gcp.machine_apis import MachineApis
from pulumi_sandbox.providers.gcp.names import part
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage, StorageServer
from pulumi_sandbox.providers.gcp.references import ACCESS
from pulumi_sandbox.providers.github.app_api import GithubAppApi
from pulumi_sandbox.providers.github.organizations import Organizations
from pulumi_sandbox.providers.machines.local_services import LocalServices, Service
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
            result, _ = cloud.invoke(ACCESS, {"secret": secret, "project": part(secret, "projects")})
        except Refused:
            return None
        return str(result["secretData"])

    file = cloud.context.workspace.settings_file
    google = MachineApis(world, value_of)
    installations = sandbox_file.existing_patterns(file, "github")
    github = GithubAppApi(world, installations, Organizations.read(file))
    buckets = StorageServer(ObjectStorage(world=world))
    builds = Builds(world, buckets.storage, partial(_exported, cloud.context.workspace.root / "serve.env"))
    services: dict[str, Service] = {
        "cloudbuild": builds.answer,
        "github": github.answer,
        "logging": google.logging,
        "secretmanager": google.secret_manager,
    }
    return LocalServices(services, {"storage": lambda: buckets.address}, builds.close)


def _exported(file: Path) -> dict[str, str]:
    """Return the variables that `pulumi-sandbox serve` keeps in a file."""
    words = [shlex.split(line)[1] for line in file.read_text().splitlines()]
    return dict(word.split("=", 1) for word in words)
