"""Refuse operations whose permissions the account of the run lacks, as IAM does.

By default, the sandbox's user owns every project. The variable PULUMI_SANDBOX_GOOGLE_ACCOUNT names a service account
instead, as impersonation would. That account has the roles that stacks granted to it on the project:

- a custom role of the project, with its permissions in the emulated cloud state
- roles/owner, with all permissions

For grants on a key of Cloud KMS, a custom role on this key counts too. Other predefined roles, grants on other single
resources, and grants with a condition are not evaluated: they permit nothing.

Google's error names the permission only. The sandbox adds a hint with the role that lacks it, and with the command that
adds it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_common import google_permissions

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.errors import GoogleError
from pulumi_sandbox.providers.gcp.names import last
from pulumi_sandbox.providers.inputs import rows
from pulumi_sandbox.world.store import Record, World

VARIABLE = "PULUMI_SANDBOX_GOOGLE_ACCOUNT"
_OWNER = "roles/owner"

# The calls of the Compute Engine API that have permissions in the table: verb, path below the project, method.
_CALLS = (
    ("POST", r"zones/[^/]+/instances", "instances.insert"),
    ("GET", r"zones/[^/]+/instances", "instances.list"),
    ("GET", r"aggregated/instances", "instances.aggregatedList"),
    ("GET", r"zones/[^/]+/instances/[^/]+", "instances.get"),
    ("DELETE", r"zones/[^/]+/instances/[^/]+", "instances.delete"),
    ("GET", r"zones/[^/]+/instances/[^/]+/getGuestAttributes", "instances.getGuestAttributes"),
    ("GET", r"zones/[^/]+/instances/[^/]+/serialPort", "instances.getSerialPortOutput"),
    ("GET", r"zones/[^/]+/operations/[^/]+", "zoneOperations.get"),
    ("GET", r"regions/[^/]+/instanceTemplates/[^/]+", "regionInstanceTemplates.get"),
)


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
        self, token: str, operation: str, project: str, path: str, key: str = ""
    ) -> Iterator[PermissionDeniedError]:
        """Yield the error of an operation on a resource whose permission the account lacks.

        `key` is the key of Cloud KMS whose policy the operation reads or changes.
        """
        needed = google_permissions.RESOURCES.get(token, {}).get(operation, ())
        on_key = {
            str(one)
            for role in self._roles_on_key(key)
            if (row := self.world.get(types.CUSTOM_ROLE, role))
            for one in rows(row.inputs.get("permissions"))
        }
        hint = f"add {key} to signingKeys of bootstrap/ (docs/start/bootstrap.md), and deploy it" if key else ""
        yield from self._denied([each for each in needed if each not in on_key], project, path, hint)

    def knows(self, token: str) -> bool:
        """Return False for a type of which no permissions are known, so that every operation is permitted."""
        return not self.email or token in google_permissions.RESOURCES

    def lookup(self, token: str, project: str, path: str) -> Iterator[PermissionDeniedError]:
        """Yield the error of a function whose permission the account lacks."""
        needed = google_permissions.LOOKUPS.get(token, ())
        yield from self._denied(needed, project, path)

    def call(self, account: str | None, verb: str, project: str, rest: str) -> Iterator[PermissionDeniedError]:
        """Yield the error of a call of the Compute Engine API by the account of the run; others are not checked."""
        if account != self.email:
            return
        for one, pattern, method in _CALLS:
            if one == verb and re.fullmatch(pattern, rest):
                yield from self._denied(
                    google_permissions.CALLS[f"compute.{method}"], project, f"projects/{project}/{rest}"
                )

    def granted_of(self, permissions: Sequence[str], project: str) -> list[str]:
        """Return those of the permissions that the account has in a project."""
        granted = self._granted(project)
        return [one for one in permissions if granted is None or one in granted]

    def _denied(
        self, needed: Sequence[str], project: str, path: str, hint: str = ""
    ) -> Iterator[PermissionDeniedError]:
        if not self.email or not needed:
            return
        granted = self._granted(project)
        if granted is None:
            return
        for permission in needed:
            if permission not in granted:
                yield PermissionDeniedError(permission, path, hint or self._hint(permission, project))

    def _granted(self, project: str) -> set[str] | None:
        """Return the permissions of the account in a project; None for all."""
        if _OWNER in self._roles(project):
            return None
        return {str(one) for row in self._custom_roles(project) for one in rows(row.inputs.get("permissions"))}

    def _custom_roles(self, project: str) -> list[Record]:
        return [row for role in self._roles(project) if (row := self.world.get(types.CUSTOM_ROLE, role))]

    def _roles(self, project: str) -> list[str]:
        """Return the roles of the account in a project, without those that have a condition."""
        member = f"serviceAccount:{self.email}"
        return [
            str(row.inputs.get("role"))
            for row in self.world.find(types.PROJECT_MEMBER)
            if row.inputs.get("member") == member
            and row.inputs.get("project") == project
            and not row.inputs.get("condition")
        ]

    def _roles_on_key(self, key: str) -> list[str]:
        if not key or not self.email:
            return []
        return [
            str(row.inputs.get("role"))
            for row in self.world.find(types.KEY_MEMBER)
            if row.inputs.get("cryptoKeyId") == key and row.inputs.get("member") == f"serviceAccount:{self.email}"
        ]

    def _hint(self, permission: str, project: str) -> str:
        for custom in self._custom_roles(project):
            role = custom.id
            command = google_permissions.add_to_role(last(role), project, [permission])
            return f"{role}, the role of {self.email}, lacks the permission; to add it: {command}"
        return f"{self.email} has no custom role in the project {project} (docs/start/bootstrap.md)"
