"""Refuse lookups of missing secrets if sandbox.yaml lists the secrets that exist."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.gcp.references import hint
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.gcp.world import ExistingResources

VERSION = "gcp:secretmanager/getSecretVersion:getSecretVersion"
ACCESS = "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess"
# The provider's text before Google's message: hashicorp/terraform-provider-google@683d638d,
# google/services/secretmanager/data_source_secret_manager_secret_version.go and …_version_access.go.
MESSAGE_STARTS = {
    VERSION: "error retrieving available secret manager secret versions",
    ACCESS: "Error retrieving available secret manager secret version access",
}
SECRETS = re.compile(r"projects/[^/]+/secrets/.+")


def refusal(existing: ExistingResources, token: str, arguments: Mapping[str, Any], site: Site) -> str | None:
    """Return the error of a lookup; None if the secret exists or sandbox.yaml lists no secrets."""
    secret = arguments.get("secret")
    if not isinstance(secret, str) or not any(map(SECRETS.fullmatch, existing.patterns)):
        return None
    project, name, exists = existing.references.secret(secret, str(arguments.get("project") or site.project), site)
    if exists:
        return None
    # Unlike Compute Engine's, this message does not end with a reason.
    error = f"googleapi: Error 404: Secret [projects/{site.number}/secrets/{name}] not found or has no versions."
    return f"{MESSAGE_STARTS[token]}: {error}{hint(f'projects/{project}/secrets/{name}')}"
