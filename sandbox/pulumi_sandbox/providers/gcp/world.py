"""Emulate the errors that depend on other resources: name in use, reference not found, resource in use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from pulumi_sandbox.providers.gcp import errors, types
from pulumi_sandbox.providers.gcp.names import absolute, everywhere, in_region, last, part, region_of
from pulumi_sandbox.providers.gcp.references import References, account_hint, hint
from pulumi_sandbox.providers.gcp.rules import group as group_rules
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.world.store import World

# Every project begins with these (documentation "VPC networks", default network; "Default service accounts").
BUILT_IN = ("projects/*/global/networks/default", "projects/*/regions/*/subnetworks/default")
GOOGLE_ACCOUNTS = re.compile(r"(?:[^@]+@(?:developer|appspot|cloudservices|[\w.-]+\.iam)\.gserviceaccount\.com)")
KINDS = {
    "networks": types.NETWORK,
    "subnetworks": types.SUBNETWORK,
    "serviceAccounts": types.ACCOUNT,
    "secrets": types.SECRET,
    "routers": types.ROUTER,
    "addresses": types.GLOBAL_ADDRESS,
    "networkAttachments": types.NETWORK_ATTACHMENT,
    "repositories": types.REPOSITORY,
    "workloadIdentityPools": types.POOL,
    "workerPools": types.WORKER_POOL,
    "clusters": types.CLUSTER,
}
POOL_MEMBER = re.compile(
    r"principal(Set)?://iam\.googleapis\.com/projects/(?P<number>[0-9]+)/"
    r"(?P<pool>locations/global/workloadIdentityPools/[^/]+)"
)
# The types, with their inputs, whose references block the deletion of a resource.
USERS = {
    types.NETWORK: (
        (types.SUBNETWORK, "network"),
        (types.FIREWALL, "network"),
        (types.ROUTER, "network"),
        (types.GLOBAL_ADDRESS, "network"),
    ),
    types.SUBNETWORK: ((types.NETWORK_ATTACHMENT, "subnetworks"),),
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

    def name_in_use(self, token: str, path: str, site: Site, name: str = "") -> Iterator[str]:
        """Yield the error for a name in use. IAM members have no name; adding a member twice is not an error."""
        if token == types.TRIGGER:
            yield from self._trigger_name(path, name)
            return
        if token in (types.POOL, types.POOL_PROVIDER) and self.world.setting(soft_deleted(path)):
            error = errors.GoogleError(409, "alreadyExists", "Requested entity already exists")
            yield f"Error creating {_kind(token)}: {error}\n  hint: it was deleted, and Google keeps its id for 30 days"
            return
        # gke/refusals.py has the errors of clusters and node pools.
        if (
            token in (*types.MEMBERS, types.SECRET_VERSION, *types.IN_REGION_OR_ZONE)
            or self.world.get(token, path) is None
        ):
            return
        project = part(path, "projects")
        if token == types.ACCOUNT:
            email = last(path).partition("@")[0]
            text = f"Service account {email} already exists within project projects/{project}."
            yield f"Error creating service account: {errors.GoogleError(409, 'alreadyExists', text)}"
        elif token == types.SECRET:
            text = f"Secret [projects/{site.number}/secrets/{last(path)}] already exists."
            yield f"Error creating Secret: {errors.GoogleError(409, 'alreadyExists', text)}"
        else:
            yield f"Error creating {_kind(token)}: {errors.already_exists(path)}"

    def _trigger_name(self, path: str, name: str) -> Iterator[str]:
        """Yield the error for a trigger name in use.

        Names are unique within a project (discovery document cloudbuild v1, BuildTrigger.name).
        """
        project = part(path, "projects")
        for one in self.world.find(types.TRIGGER):
            if part(one.id, "projects") == project and one.outputs.get("name") == name:
                error = errors.GoogleError(409, "alreadyExists", f"trigger {name} already exists")
                yield f"Error creating Trigger: {error}"

    def missing_references(self, token: str, inputs: dict[str, Any], site: Site) -> Iterator[str]:
        """Yield the errors for references to resources that are missing or do not fit."""
        project, region, zone = site.place(inputs)
        if token in types.TEMPLATES:
            yield from self._template(token, inputs, project, region)
        elif token in types.GROUPS:
            yield from self._group(token, inputs, project, region, zone)
        elif token in (types.SUBNETWORK, types.FIREWALL):
            yield from self._network(token, inputs, project, "resource.network")
        elif token in types.MEMBERS:
            yield from self._references.missing_references(token, inputs, site)
            yield from self._member(token, inputs, project, site)
            yield from self._pool_of_member(inputs.get("member"), project, site)
        elif token == types.SECRET_VERSION:
            yield from self._secret(inputs.get("secret"), project, site)
        else:
            yield from self._references.missing_references(token, inputs, site)

    @property
    def _references(self) -> References:
        return References(self.world, self.exists, self.account_exists)

    def _template(self, token: str, inputs: dict[str, Any], project: str, region: str) -> Iterator[str]:
        for index, row in enumerate(rows(inputs.get("networkInterfaces"))):
            interface_path = f"resource.properties.networkInterfaces[{index}]"
            yield from self._network(token, table(row), project, f"{interface_path}.network")
            subnetwork = table(row).get("subnetwork")
            if isinstance(subnetwork, str) and subnetwork:
                owner_project = str(table(row).get("subnetworkProject") or project)
                subnetwork_region = region or str(inputs.get("region") or "")
                path = (
                    absolute(subnetwork, owner_project)
                    if "/" in subnetwork
                    else in_region(owner_project, subnetwork_region, "subnetworks", subnetwork)
                )
                if region and part(path, "regions") not in ("", region):
                    error = errors.invalid(
                        f"{interface_path}.subnetwork", subnetwork, f"The subnetwork is not in region {region}."
                    )
                    yield f"Error creating {_kind(token)}: {error}"
                elif not self.exists(path):
                    yield self._not_found(token, f"{interface_path}.subnetwork", path, "subnetwork")
        email = table(inputs.get("serviceAccount")).get("email")
        if isinstance(email, str) and email and not self.account_exists(project, email):
            yield f"Error creating {_kind(token)}: {errors.no_account(project, email)}{account_hint(project, email)}"

    def _network(self, token: str, inputs: dict[str, Any], project: str, field: str) -> Iterator[str]:
        network = inputs.get("network")
        if not isinstance(network, str) or not network:
            return
        path = absolute(network, project) if "/" in network else everywhere(project, "networks", network)
        if not self.exists(path):
            yield self._not_found(token, field, path, "network")

    def _not_found(self, token: str, field: str, path: str, kind: str) -> str:
        error = errors.invalid(field, path, f"The referenced {kind} resource cannot be found.")
        return f"Error creating {_kind(token)}: {error}{hint(path)}"

    def _group(self, token: str, inputs: dict[str, Any], project: str, region: str, zone: str) -> Iterator[str]:
        for row in rows(inputs.get("versions")):
            link = table(row).get("instanceTemplate")
            if not isinstance(link, str) or not link:
                continue
            path = absolute(link, project) if "/" in link else everywhere(project, "instanceTemplates", link)
            template_region = part(path, "regions")
            record = self.world.get(types.REGION_TEMPLATE if template_region else types.TEMPLATE, path)
            if record is None:
                yield f"Error creating {_kind(token)}: {errors.not_found(path)}"
                continue
            group_region = region if token == types.REGION_GROUP else region_of(zone)
            if template_region and template_region != group_region:
                error = errors.invalid(
                    "resource.versions[0].instanceTemplate", path, f"The template is not in region {group_region}."
                )
                yield f"Error creating {_kind(token)}: {error}"
                continue
            problem = group_rules.unavailable_machine(
                inputs, record.inputs, group_region, "" if token == types.REGION_GROUP else zone
            )
            if problem:
                yield f"Error creating {_kind(token)}: {errors.GoogleError(400, 'invalid', problem)}"

    def _member(self, token: str, inputs: dict[str, Any], project: str, site: Site) -> Iterator[str]:
        if token == types.SECRET_MEMBER:
            yield from self._secret(inputs.get("secretId"), project, site)
        target = inputs.get("serviceAccountId")
        if token == types.ACCOUNT_MEMBER and isinstance(target, str):
            owner_project = part(target, "projects") or project
            if not self.account_exists(owner_project, last(target)):
                error = errors.GoogleError(404, "notFound", f"Unknown service account {last(target)}")
                message = f"Error retrieving IAM policy for service account '{target}': {error}"
                yield f"{message}{account_hint(owner_project, last(target))}"
        member = inputs.get("member")
        if isinstance(member, str) and member.startswith("serviceAccount:") and "svc.id.goog[" not in member:
            email = member.partition(":")[2]
            owner_project = email.partition("@")[2].removesuffix(".iam.gserviceaccount.com")
            # The sandbox cannot know the accounts of other projects or of Google.
            if owner_project == project and not self.account_exists(project, email):
                error = errors.GoogleError(400, "badRequest", f"Service account {email} does not exist.")
                yield f'Error applying IAM policy for project "{project}": {error}{account_hint(project, email)}'

    def _pool_of_member(self, member: Any, project: str, site: Site) -> Iterator[str]:
        """Yield the error for a member of a workload identity pool that does not exist.

        The message is that of github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/916.
        """
        pool = POOL_MEMBER.match(member) if isinstance(member, str) else None
        if pool and pool["number"] == site.number and not self.exists(f"projects/{project}/{pool['pool']}"):
            text = (
                f"Identity Pool does not exist ({pool['pool']}). Please check that you specified a valid resource name"
            )
            yield f"Error applying IAM policy: {errors.GoogleError(400, 'badRequest', text)}"

    def _secret(self, reference: Any, project: str, site: Site) -> Iterator[str]:
        if not isinstance(reference, str) or not reference:
            return
        owner_project, name, exists = self.secret(reference, project, site)
        if not exists:
            error = errors.GoogleError(404, "notFound", f"Secret [projects/{site.number}/secrets/{name}] not found.")
            yield f"{error}{hint(f'projects/{owner_project}/secrets/{name}')}"

    def secret(self, reference: str, project: str, site: Site) -> tuple[str, str, bool]:
        """Return the project and the name of a secret, and True if the secret exists."""
        owner_project = part(reference, "projects") or project
        name = part(reference, "secrets") or last(reference)
        projects = {owner_project, project} if owner_project == site.number else {owner_project}
        return owner_project, name, any(self.exists(f"projects/{one}/secrets/{name}") for one in projects)

    # -- at Delete ----------------------------------------------------------------------------------------------------

    def users(self, token: str, path: str) -> Iterator[tuple[str, str]]:
        """Yield a kind, in Google's terms, and a path for each resource that still uses this one."""
        if token in types.TEMPLATES:
            for kind in types.GROUPS:
                for group in self.world.find(kind):
                    for row in rows(group.inputs.get("versions")):
                        reference = table(row).get("instanceTemplate")
                        if isinstance(reference, str) and absolute(reference, part(group.id, "projects")) == path:
                            yield "instance_template", group.id
        for kind, field_name in USERS.get(token, ()):
            for user in self.world.find(kind):
                reference = user.inputs.get(field_name)
                links = reference if isinstance(reference, list) else [reference]
                if any(isinstance(link, str) and _refers_to(link, path, user.id) for link in links):
                    yield _kind(token).lower(), user.id

    def next_version(self, secret: str) -> int:
        """Return the next version id of a secret. Ids count up from 1 (discovery document secretmanager v1)."""
        versions = [
            int(last(row.id))
            for row in self.world.find(types.SECRET_VERSION)
            if row.id.startswith(f"{secret}/versions/")
        ]
        return max(versions, default=0) + 1


def _refers_to(reference: str, path: str, user: str) -> bool:
    """Return True if the reference means the path; a bare name is in the referring resource's own project."""
    same_project = part(path, "projects") == part(user, "projects")
    return (
        absolute(reference, part(user, "projects")) == path
        if "/" in reference
        else same_project and reference == last(path)
    )


def soft_deleted(path: str) -> str:
    """Return the key of the world's setting that remembers a deleted pool or provider.

    Their ids cannot be reused for about 30 days (discovery document iam v1, state DELETED). Here, they stay in use as
    long as the world.
    """
    return f"gcp/deleted/{path}"


def _kind(token: str) -> str:
    return token.rsplit(":", 1)[-1]
