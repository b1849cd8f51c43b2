"""Check rules for service accounts, IAM members and secrets that no schema contains, each with its source."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp.rules.common import labels
from pulumi_sandbox.providers.inputs import is_known, table
from pulumi_sandbox.providers.resource import Problem

# terraform-provider-google e03b7622, google/verify/validation.go: RFC1035NameTemplate, used with 6 to 30 characters.
ACCOUNT_ID = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
# Discovery document iam v1, ServiceAccount: "maximum length is 256 UTF-8 bytes" and "100 UTF-8 bytes".
ACCOUNT_BYTES = {"description": 256, "displayName": 100}
# Discovery document secretmanager v1, projects.secrets.create parameter secretId.
SECRET_ID = r"[a-zA-Z0-9_-]{1,255}"  # noqa: S105 -- a pattern
# Discovery document secretmanager v1, SecretPayload.data: "must be no larger than 64KiB".
SECRET_BYTES = 64 * 1024
# terraform-provider-google e03b7622, google/tpgiamresource/resource_iam_member.go.
MEMBER = r"(?:deleted:)?[A-Za-z]+:.+|allUsers|allAuthenticatedUsers"
MEMBER_KINDS = (
    "user", "serviceAccount", "group", "domain", "principal", "principalSet", "projectOwner", "projectEditor",
    "projectViewer", "deleted",
)  # fmt: skip
# Google Cloud documentation "IAM roles": predefined and basic roles, custom roles of a project or an organization.
ROLE = r"roles/[A-Za-z0-9_.]+|(?:projects|organizations)/[^/]+/roles/[A-Za-z0-9_.]{3,64}"


def account(inputs: dict[str, Any]) -> Iterator[Problem]:
    account_id = inputs.get("accountId")
    if isinstance(account_id, str):
        if not 6 <= len(account_id) <= 30:
            yield Problem("accountId", f'"accountId" ("{account_id}") must be between 6 and 30 characters long')
        if not re.fullmatch(ACCOUNT_ID, account_id):
            yield Problem("accountId", f'"accountId" ("{account_id}") must match regex "{ACCOUNT_ID}"')
    for name, max_bytes in ACCOUNT_BYTES.items():
        text = inputs.get(name)
        if isinstance(text, str) and len(text.encode()) > max_bytes:
            yield Problem(
                name, f"expected length of {name} to be in the range (0 - {max_bytes}), got {len(text.encode())}"
            )


def member(inputs: dict[str, Any]) -> Iterator[Problem]:
    member_input = inputs.get("member")
    if isinstance(member_input, str):
        kind = member_input.split(":")[0]
        if not re.fullmatch(MEMBER, member_input) or (":" in member_input and kind not in MEMBER_KINDS):
            yield Problem(
                "member",
                f'invalid value "{member_input}" for member (IAM members must have one of the values outlined here: '
                "https://cloud.google.com/billing/docs/reference/rest/v1/Policy#Binding)",
                "such as serviceAccount:name@project.iam.gserviceaccount.com",
            )
    role = inputs.get("role")
    if isinstance(role, str) and not re.fullmatch(ROLE, role):
        yield Problem(
            "role", f"Role ({role}) does not exist in the resource's hierarchy.", "such as roles/logging.logWriter"
        )


def secret(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from labels(inputs.get("labels"), "labels")
    secret_id = inputs.get("secretId")
    if isinstance(secret_id, str) and not re.fullmatch(SECRET_ID, secret_id):
        yield Problem("secretId", f'"secretId" ("{secret_id}") doesn\'t match regexp "^{SECRET_ID}$"')
    replication = table(inputs.get("replication"))
    set_kinds = [name for name in ("auto", "userManaged") if is_known(replication.get(name))]
    if replication and len(set_kinds) != 1:
        # terraform-provider-google e03b7622: ExactlyOneOf.
        got = " and ".join(set_kinds) or "neither"
        yield Problem("replication", f"exactly one of replication.auto or replication.userManaged, got {got}")
    if is_known(inputs.get("ttl")) and is_known(inputs.get("expireTime")):
        yield Problem("ttl", '"ttl": conflicts with expireTime')


def secret_version(inputs: dict[str, Any]) -> Iterator[Problem]:
    """Check a secret version; a message never contains the value."""
    for name in ("secretData", "secretDataWo"):
        value = inputs.get(name)
        if not isinstance(value, str):
            continue
        data = value.encode()
        if inputs.get("isSecretDataBase64") is True:
            try:
                data = base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                yield Problem(name, "expected base64, because isSecretDataBase64 is true")
                continue
        if len(data) > SECRET_BYTES:
            yield Problem(name, f"The secret payload is {len(data)} bytes; it can be at most {SECRET_BYTES} bytes.")
