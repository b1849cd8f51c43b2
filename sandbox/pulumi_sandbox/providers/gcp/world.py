"""The resources of a project that exist, and the errors for names and resources in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pulumi_sandbox.providers.gcp import errors, types
from pulumi_sandbox.providers.gcp.names import absolute, last, part
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.world.store import World

# Every project begins with these (documentation "VPC networks", default network; "Default service accounts").
BUILT_IN = ("projects/*/global/networks/default", "projects/*/regions/*/subnetworks/default")
KINDS = {
    "networks": types.NETWORK,
    "subnetworks": types.SUBNETWORK,
    "serviceAccounts": types.ACCOUNT,
    "secrets": types.SECRET,
    "routers": types.ROUTER,
    "repositories": types.REPOSITORY,
    "workloadIdentityPools": types.POOL,
    "workerPools": types.WORKER_POOL,
    "clusters": types.CLUSTER,
}


@dataclass
class ExistingResources:
    """The resources that references may name: those of the world (emulated cloud state) and those outside of any stack.

    `patterns` are the globs under `exists: gcp:` of sandbox.yaml.
    """

    world: World
    patterns: tuple[str, ...] = ()
    looked_up: set[str] = field(default_factory=set)
    """Paths that lookups returned in this run: a stack may use a subnetwork that it looked up."""

    def exists(self, path: str) -> bool:
        """Return True if a reference may name the resource at this path."""
        if path in self.looked_up or any(fnmatchcase(path, one) for one in (*BUILT_IN, *self.patterns)):
            return True
        kind = KINDS.get(path.split("/")[-2]) if "/" in path else None
        return bool(kind and self.world.get(kind, path))

    def account_exists(self, project: str, email: str) -> bool:
        """Return True if an instance of the project may run as the service account."""
        if email == "default" or email.endswith(
            ("@developer.gserviceaccount.com", "@cloudservices.gserviceaccount.com")
        ):
            return True
        project_name = part(f"projects/{project}/x", "projects")
        owner = email.partition("@")[2].removesuffix(".iam.gserviceaccount.com")
        return any(self.exists(f"projects/{each}/serviceAccounts/{email}") for each in {project_name, owner})

    # -- at Create and Update -----------------------------------------------------------------------------------------

    def deleted_id(self, token: str, path: str) -> Iterator[str]:
        """Yield the error for the id of a pool or provider that was deleted."""
        if token in (types.POOL, types.POOL_PROVIDER) and self.world.setting(soft_deleted(path)):
            error = errors.GoogleError(409, "alreadyExists", "Requested entity already exists")
            kind = token.rpartition(":")[2]
            yield f"Error creating {kind}: {error}\n  hint: it was deleted, and Google keeps its id for 30 days"

    # -- at Delete ----------------------------------------------------------------------------------------------------

    def groups_of(self, template: str) -> Iterator[str]:
        """Yield the path of each instance group that still uses a template."""
        for group in self.world.find(types.REGION_GROUP):
            for row in rows(group.inputs.get("versions")):
                reference = table(row).get("instanceTemplate")
                if isinstance(reference, str) and absolute(reference, part(group.id, "projects")) == template:
                    yield group.id

    def next_version(self, secret: str) -> int:
        """Return the next version id of a secret. Ids count up from 1 (discovery document secretmanager v1)."""
        versions = [
            int(last(row.id))
            for row in self.world.find(types.SECRET_VERSION)
            if row.id.startswith(f"{secret}/versions/")
        ]
        return max(versions, default=0) + 1


def soft_deleted(path: str) -> str:
    """Return the key of the world's setting that remembers a deleted pool or provider.

    Their ids cannot be reused for about 30 days (discovery document iam v1, state DELETED). Here, they stay in use as
    long as the world.
    """
    return f"gcp/deleted/{path}"


def hint(path: str) -> str:
    """Return a hint on how to list a resource that exists in the cloud in sandbox.yaml."""
    return f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{gcp: [{path}]}}"
