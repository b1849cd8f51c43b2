"""Creates the resources of a Google Cloud project that the first deployment needs.

They are the enabled APIs, the bucket for Pulumi's state, the key for its secrets, and identities for the jobs on
GitHub.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_gcp as gcp
from gpu_ci import naming
from gpu_ci.gcp import bootstrap_roles
from gpu_ci.gcp.github_identity import GithubIdentity, GithubIdentityArgs
from gpu_ci.github_trust import Purpose
from gpu_common import google_permissions

from bootstrap.settings import Jobs, Settings

# The APIs of the resources, and those that no resource needs. docs/start/bootstrap.md, "APIs", has the reasons.
# iamcredentials and sts exchange the tokens of GitHub's jobs (Google Cloud documentation "Configure Workload Identity
# Federation with deployment pipelines").
APIS = sorted(
    {api.partition(".")[0] for api in google_permissions.services(google_permissions.RESOURCES)}
    | {"containerfilesystem", "iamcredentials", "orgpolicy", "serviceusage", "sts"}
)
_ROTATION_SEC = 90 * 86400
# The locations of Cloud Storage with another name in Cloud KMS (docs.cloud.google.com/kms/docs/locations).
_KEY_LOCATIONS = {"eu": "europe"}

# Pulumi's backend lists, reads and writes objects, and does not change the bucket
# (pulumi.com/docs/iac/concepts/state-and-backends).
STATE_ROLES: dict[Purpose, str] = {"deploy": "roles/storage.objectUser", "preview": "roles/storage.objectViewer"}
# `pulumi up` encrypts and decrypts the secrets in the state. A preview only decrypts them.
KEY_ROLES: dict[Purpose, str] = {
    "deploy": "roles/cloudkms.cryptoKeyEncrypterDecrypter",
    "preview": "roles/cloudkms.cryptoKeyDecrypter",
}
PERMISSIONS: dict[str, list[str]] = {
    "deploy": google_permissions.deployer(),
    "preview": google_permissions.reader(),
    **bootstrap_roles.ROLES,
}


def build(settings: Settings) -> dict[str, Any]:
    """Create the resources, and return the values for the stack file and the workflows."""
    project = settings.project
    apis = [
        gcp.projects.Service(
            f"api-{name}",
            project=project,
            service=f"{name}.googleapis.com",
            # Another stack of the project may use the API.
            disable_on_destroy=False,
        )
        for name in APIS
    ]
    after_apis = pulumi.ResourceOptions(depends_on=apis)
    # Google does not delete key rings and keys. A deletion of the key would destroy its versions, and with them the
    # secrets in every state, also if Google then refuses to delete the bucket with the states.
    kept = pulumi.ResourceOptions(depends_on=apis, retain_on_delete=True)
    bucket = gcp.storage.Bucket(
        "state",
        project=project,
        name=f"{project}-pulumi-state",
        location=settings.location,
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        versioning={"enabled": True},
        # Old versions are kept for a year, and at least ten. Pulumi itself keeps the history of a stack in other
        # objects.
        lifecycle_rules=[
            {"action": {"type": "Delete"}, "condition": {"days_since_noncurrent_time": 365, "num_newer_versions": 10}}
        ],
        # Pulumi must not delete a bucket that has states.
        force_destroy=False,
        opts=after_apis,
    )
    ring = gcp.kms.KeyRing(
        "keys",
        project=project,
        name="pulumi",
        location=_KEY_LOCATIONS.get(settings.location, settings.location),
        opts=kept,
    )
    key = gcp.kms.CryptoKey(
        "secrets", key_ring=ring.id, name="pulumi-secrets", rotation_period=f"{_ROTATION_SEC}s", opts=kept
    )
    roles = {name: _role(settings, name, permissions, after_apis) for name, permissions in PERMISSIONS.items()}
    identities = {
        name: _identity(settings, name, purpose, jobs, roles[purpose], bucket, key, after_apis)
        for name, purpose, jobs in settings.github.identities()
    }
    deployers = {
        name: pulumi.Output.concat("serviceAccount:", identities[name].service_account_email)
        for name, purpose, _ in settings.github.identities()
        if purpose == "deploy"
    }
    _grant_granting(settings, deployers, after_apis)
    _grant_signing_keys(settings, deployers, after_apis)
    return {
        "backend": pulumi.Output.concat("gs://", bucket.name),
        "secretsProvider": pulumi.Output.concat("gcpkms://", key.id),
        **{
            name: {
                "serviceAccount": identity.service_account_email,
                "workloadIdentityProvider": identity.workload_identity_provider,
            }
            for name, identity in identities.items()
        },
    }


def _role(
    settings: Settings, name: str, permissions: list[str], opts: pulumi.ResourceOptions
) -> gcp.projects.IAMCustomRole:
    return gcp.projects.IAMCustomRole(
        f"{name.replace('_', '-')}-role",
        project=settings.project,
        role_id=f"gpu_ci_{name}",
        title=f"gpu-ci {name.replace('_', ' ')}",
        permissions=permissions,
        opts=opts,
    )


def _identity(
    settings: Settings, name: str, purpose: Purpose, jobs: Jobs, role: Any, bucket: Any, key: Any,
    opts: pulumi.ResourceOptions,
) -> GithubIdentity:  # fmt: skip
    """Create an identity, and its grants on the state and the key."""
    github = settings.github
    identity = GithubIdentity(
        name,
        GithubIdentityArgs(
            purpose=purpose,
            owner_id=github.owner_id,
            repository_id=github.repository_id,
            allow_organization=github.allow_organization,
            **jobs.model_dump(),
            project=settings.project,
            roles={"stack": role.name},
        ),
        opts,
    )
    member = pulumi.Output.concat("serviceAccount:", identity.service_account_email)
    gcp.storage.BucketIAMMember(f"{name}-state", bucket=bucket.name, role=STATE_ROLES[purpose], member=member)
    gcp.kms.CryptoKeyIAMMember(f"{name}-key", crypto_key_id=key.id, role=KEY_ROLES[purpose], member=member)
    if purpose == "preview":
        _grant_objects(settings, member, opts)
    return identity


def _grant_objects(settings: Settings, member: pulumi.Output[str], opts: pulumi.ResourceOptions) -> None:
    """Let the identity that previews read the objects of stacks, in each bucket of the project, and no others."""
    role = _role(settings, "preview_objects", [google_permissions.READ_OBJECT], opts)
    [expression] = google_permissions.names_start_with(google_permissions.OBJECTS)
    gcp.projects.IAMMember(
        "preview-objects",
        project=settings.project,
        role=role.name,
        member=member,
        condition={"title": "objects of stacks", "expression": expression},
    )


def _grant_granting(settings: Settings, deployers: dict[str, pulumi.Output[str]], opts: pulumi.ResourceOptions) -> None:
    """Let each deployer grant the roles of gpu-ci in the project, and no others.

    The role has no other permissions, because the condition would refuse grants on resources of some services.
    """
    permissions = google_permissions.of_type(google_permissions.PROJECT_MEMBER)
    role = _role(settings, "deploy_grants", permissions, opts)
    expression = google_permissions.grants_only(bootstrap_roles.granted(settings.project))
    for name, member in deployers.items():
        gcp.projects.IAMMember(
            f"{name}-grants",
            project=settings.project,
            role=role.name,
            member=member,
            condition={"title": "roles of gpu-ci", "expression": expression},
        )


def _grant_signing_keys(
    settings: Settings, deployers: dict[str, pulumi.Output[str]], opts: pulumi.ResourceOptions
) -> None:
    """Let each deployer grant builds the use of the keys that sign images, and of no other key."""
    if not settings.signing_keys:
        return
    role = _role(settings, "signing_keys", google_permissions.deployer_on_keys(), opts)
    for key in settings.signing_keys:
        for name, member in deployers.items():
            gcp.kms.CryptoKeyIAMMember(
                f"{name}-{naming.fit(key, 60)}", crypto_key_id=key, role=role.name, member=member
            )
