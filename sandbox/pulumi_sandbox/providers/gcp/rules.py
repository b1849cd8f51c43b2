"""The rules of Google for identities that no discovery document contains, each with its source.

There are no rules for machines, names and labels: the components of this project check them before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# Discovery document iam v1, WorkloadIdentityPoolProvider: "multi-tenant identity providers (such as GitHub or Terraform
# Cloud) require an attribute_condition".
SHARED = ("https://token.actions.githubusercontent.com", "https://app.terraform.io", "https://gitlab.com")


def rules(token: str, inputs: dict[str, Any]) -> Iterator[Problem]:
    """Yield the problems that Google reports but no schema contains."""
    if token != types.POOL_PROVIDER:
        return
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
