"""Refuse operations whose permissions the account of the run lacks, as IAM does.

By default, the sandbox's user owns every project. The variable PULUMI_SANDBOX_GOOGLE_ACCOUNT names a service account
instead, as impersonation would. That account has the roles that stacks granted to it on the project:

- a custom role of the project, with its permissions in the emulated cloud state
- roles/owner, with all permissions

Other predefined roles, and grants on single resources, are not evaluated: they permit nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_common import google_permissions

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.errors import GoogleError
from pulumi_sandbox.providers.inputs import rows
from pulumi_sandbox.world.store import World

VARIABLE = "PULUMI_SANDBOX_GOOGLE_ACCOUNT"
_OWNER = "roles/owner"

_ZONE = r"zones/[^/]+"
# The calls of the Compute Engine API that have permissions in the table: verb, path below the project, method.
_CALLS = tuple(
    (verb, re.compile(path), f"compute.{method}")
    for verb, path, method in (
        ("POST", rf"{_ZONE}/instances", "instances.insert"),
        ("GET", rf"{_ZONE}/instances", "instances.list"),
        ("GET", r"aggregated/instances", "instances.aggregatedList"),
        ("GET", rf"{_ZONE}/instances/[^/]+", "instances.get"),
        ("DELETE", rf"{_ZONE}/instances/[^/]+", "instances.delete"),
        ("GET", rf"{_ZONE}/instances/[^/]+/getGuestAttributes", "instances.getGuestAttributes"),
        ("GET", rf"{_ZONE}/instances/[^/]+/serialPort", "instances.getSerialPortOutput"),
        ("GET", rf"{_ZONE}/operations/[^/]+", "zoneOperations.get"),
        ("POST", rf"{_ZONE}/operations/[^/]+/wait", "zoneOperations.get"),
        ("GET", r"regions/[^/]+/instanceTemplates/[^/]+", "regionInstanceTemplates.get"),
    )
)


@dataclass(frozen=True)
class Caller:
    """The account of a run, and what it may do. An empty email is the sandbox's user, who may do everything."""

    world: World
    email: str = ""

    @classmethod
    def of_environment(cls, world: World) -> Caller:
        return cls(world, os.environ.get(VARIABLE, "").strip())

    def operation(self, token: str, operation: str, project: str, path: str) -> Iterator[GoogleError]:
        """Yield the error of an operation on a resource whose permission the account lacks."""
        needed = google_permissions.RESOURCES.get(token, {}).get(operation, ())
        yield from self._denied(needed, project, path)

    def knows(self, token: str) -> bool:
        """Return False for a type of which no permissions are known, so that every operation is permitted."""
        return not self.email or token in google_permissions.RESOURCES

    def lookup(self, token: str, project: str, path: str) -> Iterator[GoogleError]:
        """Yield the error of a function whose permission the account lacks."""
        yield from self._denied(google_permissions.LOOKUPS.get(token, ()), project, path)

    def call(self, account: str | None, verb: str, project: str, rest: str) -> Iterator[GoogleError]:
        """Yield the error of a call of the Compute Engine API by the account of the run; others are not checked."""
        if account != self.email:
            return
        for one, pattern, method in _CALLS:
            if one == verb and pattern.fullmatch(rest):
                yield from self._denied(google_permissions.CALLS[method], project, f"projects/{project}/{rest}")

    def granted_of(self, permissions: Sequence[str], project: str) -> list[str]:
        """Return those of the permissions that the account has in a project."""
        granted = self._granted(project)
        return [one for one in permissions if granted is None or one in granted]

    def _denied(self, needed: Sequence[str], project: str, path: str) -> Iterator[GoogleError]:
        if not self.email or not needed:
            return
        granted = self._granted(project)
        if granted is None:
            return
        for permission in needed:
            if permission not in granted:
                yield denied(permission, path)

    def _granted(self, project: str) -> set[str] | None:
        """Return the permissions of the account in a project; None for all."""
        found: set[str] = set()
        for member in self.world.find(types.PROJECT_MEMBER):
            if member.inputs.get("member") != f"serviceAccount:{self.email}" or member.inputs.get("project") != project:
                continue
            role = str(member.inputs.get("role"))
            if role == _OWNER:
                return None
            if custom := self.world.get(types.CUSTOM_ROLE, role):
                found |= {str(one) for one in rows(custom.inputs.get("permissions"))}
        return found


def denied(permission: str, path: str) -> GoogleError:
    """Return the error of a missing permission.

    The messages are those of the Compute Engine API (github.com/hashicorp/terraform-provider-google/issues/8262) and,
    for the other APIs, of Cloud Run (github.com/dora-team/fourkeys/issues/459).
    """
    if permission.startswith("compute."):
        return GoogleError(403, "forbidden", f"Required '{permission}' permission for '{path}'")
    return GoogleError(
        403, "forbidden", f"Permission '{permission}' denied on resource '{path}' (or it may not exist)."
    )


def told(errors: Iterator[Any], doing: str, kind: str) -> Iterator[str]:
    """Yield each error as the provider prints it."""
    for error in errors:
        yield f"Error {doing} {kind}: {error}"
