"""Emulate the calls of VMs to Secret Manager and Cloud Logging; the IAM grants of the VM's account decide."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import google_crc32c

from pulumi_sandbox.providers.gcp import errors, types
from pulumi_sandbox.providers.gcp.names import last, part
from pulumi_sandbox.providers.gcp.permissions import Caller
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.machines.metadata import account_of, is_operator
from pulumi_sandbox.world.store import World

SECRET = re.compile(r"/v1/(projects/[^/]+/secrets/[^/]+)/versions/([^/:]+):access")
# The roles with secretmanager.versions.access and with logging.logEntries.create (Google Cloud documentation "Secret
# Manager roles and permissions" and "Logging access control").
READ_PERMISSION = "secretmanager.versions.access"
READER_ROLES = ("roles/secretmanager.secretAccessor", "roles/secretmanager.admin", "roles/owner")
WRITER_ROLES = ("roles/logging.logWriter", "roles/logging.admin", "roles/owner", "roles/editor")
UNAUTHENTICATED = f"Request had invalid authentication credentials. {errors.CREDENTIALS}"


@dataclass
class MachineApis:
    """Answer requests to the two services. `value_of` returns a secret's value; None if the secret is missing."""

    world: World
    value_of: Callable[[str], str | None]

    def secret_manager(self, call: Call) -> Answer:
        """Answer projects.secrets.versions.access (discovery document secretmanager v1)."""
        match = SECRET.fullmatch(call.path)
        if match is None or call.method != "GET":
            return error_answer(404, "NOT_FOUND", f"The sandbox serves only values of secrets, not {call.path}.")
        secret, version = match.groups()
        account = account_of(call.authorization)
        if account is None:
            return error_answer(401, "UNAUTHENTICATED", UNAUTHENTICATED)
        fault = self.world.take_fault("refuse", "gcp:secretmanager/access", last(secret), id=secret)
        if fault or not self._may_read(account, secret):
            message = (
                f"Permission 'secretmanager.versions.access' denied for resource '{secret}/versions/{version}' (or it "
                "may not exist)."
            )
            return error_answer(403, "PERMISSION_DENIED", (fault and fault.message) or message)
        value = self.value_of(secret)
        if value is None:
            return error_answer(404, "NOT_FOUND", f"Secret [{secret}] not found or has no versions.")
        data = value.encode()
        payload = {"data": base64.b64encode(data).decode(), "dataCrc32c": str(google_crc32c.value(data))}
        return as_json(200, {"name": f"{secret}/versions/1", "payload": payload})

    def logging(self, call: Call) -> Answer:
        """Answer entries.write (discovery document logging v2). Entries are checked but not stored."""
        if call.path != "/v2/entries:write" or call.method != "POST":
            return error_answer(404, "NOT_FOUND", f"The sandbox serves only entries:write, not {call.path}.")
        account = account_of(call.authorization)
        if account is None:
            return error_answer(401, "UNAUTHENTICATED", UNAUTHENTICATED)
        entries = call.body.get("entries") if isinstance(call.body, dict) else None
        if not isinstance(entries, list) or not entries:
            return error_answer(400, "INVALID_ARGUMENT", "Request must contain at least one log entry.")
        log_names = {
            str(entry.get("logName") or call.body.get("logName") or "") for entry in entries if isinstance(entry, dict)
        }
        for project in sorted({part(name, "projects") for name in log_names}):
            if not self._has(account, WRITER_ROLES, project):
                text = "Permission 'logging.logEntries.create' denied on resource (or it may not exist)."
                return error_answer(403, "PERMISSION_DENIED", text)
        return as_json(200, {})

    def _may_read(self, account: str, secret: str) -> bool:
        project = part(secret, "projects")
        if is_operator(account) or Caller(self.world, account).has(READ_PERMISSION, project):
            return True
        of_secret = self._granted(account, types.SECRET_MEMBER, READER_ROLES)
        return any(_is_for_secret(grant, secret) for grant in of_secret) or self._has(account, READER_ROLES, project)

    def _has(self, account: str, roles: tuple[str, ...], project: str) -> bool:
        """Return True if the account has one of the roles in the project."""
        grants = self._granted(account, types.PROJECT_MEMBER, roles)
        return any(grant.get("project") in (None, "", project) for grant in grants)

    def _granted(self, account: str, kind: str, roles: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return the inputs of the account's grants with one of the roles."""
        grants = (grant.inputs for grant in self.world.find(kind))
        member = f"serviceAccount:{account}"
        return [grant for grant in grants if grant.get("member") == member and grant.get("role") in roles]


def _is_for_secret(grant: dict[str, Any], secret: str) -> bool:
    """Return True if the grant is on the secret. A grant may have the secret's name or its path."""
    reference = str(grant.get("secretId") or "")
    secret_project = part(reference, "projects") or str(grant.get("project") or "")
    return last(reference) == last(secret) and secret_project in ("", part(secret, "projects"))


def refusal(world: World, call: Call, project: str, permission: str) -> Answer | None:
    """Return the refusal of a call whose permission the caller lacks in a project, or None."""
    account = account_of(call.authorization)
    if account is None:
        return error_answer(401, "UNAUTHENTICATED", UNAUTHENTICATED)
    if is_operator(account) or Caller(world, account).has(permission, project):
        return None
    return error_answer(403, "PERMISSION_DENIED", "The caller does not have permission")


def error_answer(status: int, code: str, message: str) -> Answer:
    """Return an error response in the form of newer Google APIs (google.aip.dev/193)."""
    return as_json(status, {"error": {"code": status, "message": message, "status": code}})
