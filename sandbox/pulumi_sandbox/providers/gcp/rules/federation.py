"""Check rules for the trust of Google Cloud in others: members of policies, and providers of identities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# terraform-provider-google e03b7622, google/tpgiamresource/resource_iam_member.go.
MEMBER = r"(?:user|serviceAccount|group|domain|principal|principalSet|project(?:Owner|Editor|Viewer)|deleted):.+"
# Discovery document iam v1, WorkloadIdentityPoolProvider: "multi-tenant identity providers (such as GitHub or Terraform
# Cloud) require an attribute_condition".
SHARED = ("https://token.actions.githubusercontent.com", "https://app.terraform.io", "https://gitlab.com")


def member(inputs: dict[str, Any]) -> Iterator[Problem]:
    given = inputs.get("member")
    if isinstance(given, str) and not re.fullmatch(f"{MEMBER}|allUsers|allAuthenticatedUsers", given):
        hint = "such as serviceAccount:name@project.iam.gserviceaccount.com"
        yield Problem("member", f'invalid value "{given}" for member', hint)


def provider(inputs: dict[str, Any]) -> Iterator[Problem]:
    oidc, mapping = inputs.get("oidc"), inputs.get("attributeMapping")
    if isinstance(oidc, dict) and mapping is not UNKNOWN and "google.subject" not in table(mapping):
        yield Problem("attributeMapping", "An OIDC provider must map google.subject.", "google.subject: assertion.sub")
    issuer, condition = table(oidc).get("issuerUri"), inputs.get("attributeCondition")
    shared = isinstance(issuer, str) and issuer.rstrip("/").startswith(SHARED)
    if shared and condition is not UNKNOWN and not re.search(r"assertion|attribute", str(condition or "")):
        # The message of the API (devgem.io/posts/resolving-workload-identity-federation-resource-creation-errors-a-
        # developer-s-guide).
        yield Problem(
            "attributeCondition",
            "The attribute condition must reference one of the provider's claims.",
            'such as assertion.repository_owner_id == "9919"',
        )
