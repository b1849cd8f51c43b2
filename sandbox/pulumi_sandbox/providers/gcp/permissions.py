"""Refuse operations whose permissions the account of the run lacks, as IAM does.

By default, the sandbox's user owns every project. The variable PULUMI_SANDBOX_GOOGLE_ACCOUNT names a service account
instead, as impersonation would. That account, and every other account that calls the Compute Engine API, has the roles
that stacks granted to it on the project, if their conditions hold:

- a custom role of the project, with its permissions in the emulated cloud state; all permissions if no stack created
  the role
- roles/owner, with all permissions

For grants on a key of Cloud KMS, a custom role on this key counts too, and roles/iam.serviceAccountUser on a service
account for its use. Other predefined roles and grants on other single resources are not evaluated: they permit nothing.

A condition may name the resource, the prefix of a list and the roles that a request grants or revokes
(cloud.google.com/iam/docs/conditions-attribute-reference, conditions-resource-attributes and
setting-limits-on-granting-roles). A condition with anything else does not hold, so that its grant permits nothing.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gpu_common import google_permissions

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.errors import GoogleError
from pulumi_sandbox.providers.gcp.names import absolute, last, relative
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.invokes import go_json
from pulumi_sandbox.providers.machines.metadata import is_operator
from pulumi_sandbox.world.store import Record, World

VARIABLE = "PULUMI_SANDBOX_GOOGLE_ACCOUNT"
GET_POLICY = "gcp:organizations/getIAMPolicy:getIAMPolicy"
_OWNER = "roles/owner"
_ACT_AS = "iam.serviceAccounts.actAs"
_OBJECT = "gcp:storage/bucketObject:BucketObject"


@dataclass(frozen=True)
class Asked:
    """What a condition may ask about a request."""

    name: str = ""
    """The path of the resource, such as projects/p/zones/z/instances/n."""
    list_prefix: str = ""
    """The prefix of a list of objects."""
    roles: tuple[str, ...] = ()
    """The roles whose grants a request changes."""


def holds(expression: str, asked: Asked) -> bool:
    """Return True if the condition holds."""
    from celpy.adapter import json_to_cel
    from celpy.celparser import CELParseError
    from celpy.evaluation import CELEvalError

    attributes = {
        "storage.googleapis.com/objectListPrefix": asked.list_prefix,
        "iam.googleapis.com/modifiedGrantsByRole": list(asked.roles),
    }
    given: dict[str, Any] = {"resource": {"name": asked.name}, "api": attributes}
    try:
        return bool(_program(expression).evaluate({name: json_to_cel(value) for name, value in given.items()}))
    except (CELEvalError, CELParseError):
        return False


@cache
def _program(expression: str) -> Any:
    """Return the compiled condition, with the functions of IAM. The import takes a moment, and few runs need it."""
    import celpy
    from celpy.celtypes import BoolType, StringType

    def extract(text: str, template: str) -> StringType:
        before, after = re.split(r"\{\w+\}", template)
        found = re.search(f"{re.escape(before)}(.*?){re.escape(after) or '$'}", text)
        return StringType(found[1] if found else "")

    functions: dict[str, Any] = {
        "extract": extract,
        "getAttribute": lambda api, name, default: api.get(name, default),
        "hasOnly": lambda given, allowed: BoolType(all(each in allowed for each in given)),
    }
    environment = celpy.Environment()
    return environment.program(environment.compile(expression), functions=functions)


Needs = Iterable[tuple[str, str]]
"""Permissions, each with the path of the resource on which Google checks it."""


def of_machine(project: str, path: str, instance: Mapping[str, Any], template: str) -> Needs:
    """Yield what an insert needs: instance is the body, merged with its template.

    Source: cloud.google.com/compute/docs/instances/create-start-instance, "Required permissions"; for labels of disks,
    github.com/BasedHardware/omi/issues/11226. Resources of other projects are not checked.
    """
    yield "compute.instances.create", path
    for field, call in (("labels", "Labels"), ("metadata", "Metadata"), ("tags", "Tags")):
        if instance.get(field):
            yield f"compute.instances.set{call}", path
    for account in instance.get("serviceAccounts") or ():
        yield "compute.instances.setServiceAccount", path
        yield _ACT_AS, f"projects/{project}/serviceAccounts/{account.get('email')}"
    for number, disk in enumerate(instance.get("disks") or ()):
        new = disk.get("initializeParams") or {}
        # By default, the boot disk has the name of the machine (compute v1, AttachedDiskInitializeParams.diskName).
        name = new.get("diskName") or last(path) + (f"-{number}" if number else "")
        place = path.replace("/instances/", "/disks/").removesuffix(last(path)) + name
        yield "compute.disks.create", place
        if new.get("labels"):
            yield "compute.disks.setLabels", place
        if (image := relative(str(new.get("sourceImage") or ""))).startswith(f"projects/{project}/"):
            yield "compute.images.useReadOnly", image
    for interface in instance.get("networkInterfaces") or ():
        network = absolute(str(interface.get("subnetwork") or interface.get("network") or ""), project)
        if network.startswith(f"projects/{project}/"):
            yield "compute.subnetworks.use", network
            if interface.get("accessConfigs"):
                yield "compute.subnetworks.useExternalIp", network
    if template:
        yield "compute.instanceTemplates.useReadOnly", absolute(template, project)


def path_of(token: str, inputs: Mapping[str, Any]) -> str:
    """Return the name of an object in conditions, which differs from its id; empty for other resources."""
    return f"projects/_/buckets/{inputs.get('bucket')}/objects/{inputs.get('name')}" if token == _OBJECT else ""


class PermissionDeniedError(GoogleError):
    """The account lacks a permission.

    The messages are those of the Compute Engine API (github.com/hashicorp/terraform-provider-google/issues/8262) and,
    for the other APIs, of Cloud Run (github.com/dora-team/fourkeys/issues/459).
    """

    def __init__(self, permission: str, path: str, hint: str) -> None:
        compute = f"Required '{permission}' permission for '{path}'"
        other = f"Permission '{permission}' denied on resource '{path}' (or it may not exist)."
        super().__init__(403, "forbidden", compute if permission.startswith("compute.") else other)
        self.hint = hint

    def with_hint(self) -> str:
        """Return the text that the provider prints, and the hint. The body of an API response has no hint."""
        return f"{self}\n  hint: {self.hint}"


@dataclass(frozen=True)
class Caller:
    """The account of a run, and what it may do. An empty email is the sandbox's user, who may do everything."""

    world: World
    email: str = ""

    @classmethod
    def of_environment(cls, world: World) -> Caller:
        return cls(world, os.environ.get(VARIABLE, "").strip())

    def operation(
        self, token: str, operation: str, project: str, path: str, key: str = "", role: str = ""
    ) -> Iterator[PermissionDeniedError]:
        """Yield the error of an operation on a resource whose permission the account lacks.

        `key` is the key of Cloud KMS whose policy the operation reads or changes, and `role` the role that the
        operation grants or revokes.
        """
        needed = google_permissions.RESOURCES.get(token, {}).get(operation, ())
        grants = self._grants(types.KEY_MEMBER, cryptoKeyId=key) if key else []
        on_key = {each for grant in grants for each in self._permissions(grant)}
        hint = f"add {key} to signingKeys of bootstrap/ (docs/start/bootstrap.md), and deploy it" if key else ""
        asked = Asked(path, roles=(role,) if role else ())
        yield from self._denied([each for each in needed if each not in on_key], project, asked, hint)

    def knows(self, token: str) -> bool:
        """Return False for a type of which no permissions are known, so that every operation is permitted."""
        return not self.email or token in google_permissions.RESOURCES

    def lookup(self, token: str, project: str, path: str) -> Iterator[PermissionDeniedError]:
        """Yield the error of a function whose permission the account lacks."""
        yield from self._denied(google_permissions.LOOKUPS.get(token, ()), project, Asked(path))

    def needs(self, account: str | None, project: str, needed: Needs) -> Iterator[PermissionDeniedError]:
        """Yield the errors of an account that lacks permissions. The sandbox's user lacks none."""
        if account and not is_operator(account):
            caller = replace(self, email=account)
            for permission, path in needed:
                users = caller._grants(types.ACCOUNT_MEMBER, role="roles/iam.serviceAccountUser")
                of_account = any(last(str(row.inputs.get("serviceAccountId"))) == last(path) for row in users)
                if permission != _ACT_AS or not of_account:
                    yield from caller._denied([permission], project, Asked(path))

    def has(self, permission: str, project: str) -> bool:
        """Return True if the account has a permission in a project."""
        return not any(self._denied([permission], project, Asked(f"projects/{project}")))

    def _denied(
        self, needed: Sequence[str], project: str, asked: Asked, hint: str = ""
    ) -> Iterator[PermissionDeniedError]:
        if not self.email or not needed:
            return
        grants = self._grants(types.PROJECT_MEMBER, project=project)
        permitting = [row for row in grants if _holds(row, asked)]
        if any(self._has_all(str(row.inputs.get("role"))) for row in permitting):
            return
        granted = {one for row in permitting for one in self._permissions(row)}
        for permission in needed:
            if permission not in granted:
                yield PermissionDeniedError(permission, asked.name, hint or self._hint(permission, project, grants))

    def _grants(self, token: str, **inputs: str) -> list[Record]:
        """Return the grants of a type to the account that have these inputs."""
        wanted = {"member": f"serviceAccount:{self.email}", **inputs}
        return [row for row in self.world.find(token) if wanted.items() <= row.inputs.items()]

    def _has_all(self, role: str) -> bool:
        return role == _OWNER or (role.startswith("projects/") and self.world.get(types.CUSTOM_ROLE, role) is None)

    def _permissions(self, grant: Record) -> list[str]:
        role = self.world.get(types.CUSTOM_ROLE, str(grant.inputs.get("role")))
        return [str(one) for one in rows(role.inputs.get("permissions"))] if role else []

    def _hint(self, permission: str, project: str, grants: list[Record]) -> str:
        """Return which role lacks the permission, and the command that adds it. Google's error does not name them."""
        for grant in grants:
            if permission in self._permissions(grant):
                condition, role = table(grant.inputs.get("condition")).get("expression"), grant.inputs["role"]
                return f"{role} has the permission, but the condition of its grant does not hold: {condition}"
        if permission in google_permissions.of_type(types.CUSTOM_ROLE):
            attestations = "sign.attestor creates a role of its own, which only an owner may do"
            return f"{google_permissions.USE_BOOTSTRAP_ROLES}; {attestations} (docs/start/bootstrap.md)"
        for grant in sorted(grants, key=lambda row: bool(row.inputs.get("condition"))):
            role = str(grant.inputs.get("role"))
            command = google_permissions.add_to_role(last(role), project, [permission])
            return f"{role}, the role of {self.email}, lacks the permission; to add it: {command}"
        return f"{self.email} has no custom role in the project {project} (docs/start/bootstrap.md)"


def _holds(grant: Record, asked: Asked) -> bool:
    condition = table(grant.inputs.get("condition"))
    return not condition or holds(str(condition.get("expression")), asked)


def policy_document(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of getIAMPolicy, which calls no API. It is ordered as Google's API orders a policy."""
    bindings = [each | {"members": sorted(each["members"])} for each in rows(arguments.get("bindings"))]
    bindings.sort(key=lambda each: (each["role"], str(each.get("condition"))))
    policy = {"auditConfigs": arguments.get("auditConfigs"), "bindings": bindings}
    filled = {name: value for name, value in policy.items() if value}
    text = go_json(json.loads(json.dumps(filled, sort_keys=True)))
    return {"id": str(zlib.crc32(text.encode())), "policyData": text}
