"""The rules of Google for identities and locations that no discovery document contains, each with its source.

There are no rules for machines, names and labels: the components of this project check them before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.errors import GoogleError
from pulumi_sandbox.providers.gcp.kms import KEY_RING
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


LOCATIONS = {
    # docs.cloud.google.com/kms/docs/locations
    KEY_RING: (
        "asia", "asia1", "ca", "eur3", "eur4", "eur5", "eur6", "europe", "global", "in", "nam-eur-asia1", "nam3",
        "nam4", "nam6", "nam7", "nam8", "nam9", "nam10", "nam11", "nam12", "us",
    ),
    # docs.cloud.google.com/storage/docs/locations
    types.BUCKET: ("asia", "asia1", "eu", "eur4", "eur5", "eur7", "eur8", "nam4", "us"),
}  # fmt: skip
"""The multi-regions and pairs of regions, by type."""
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


def wrong_locations(token: str, inputs: dict[str, Any]) -> Iterator[GoogleError]:
    """Yield the error of a location that the service does not have. Each service has the regions too."""
    location = str(inputs.get("location") or "").lower()
    if token not in LOCATIONS or not location or location in LOCATIONS[token] or _REGION.fullmatch(location):
        return
    if token == KEY_RING:
        # georgewhewell/ethers-gcp-kms-signer issue 13
        text = f"The request concerns location '{location}' but was sent to location 'global'. Either Cloud KMS is not"
        yield GoogleError(404, "notFound", f"{text} available in '{location}' or the request was misrouted.")
    else:
        # docs.cloud.google.com/storage/docs/xml-api/reference-status, InvalidLocationConstraint
        yield GoogleError(400, "invalid", "The specified location constraint is not valid.")
