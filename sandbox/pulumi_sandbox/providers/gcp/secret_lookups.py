"""Refuses lookups of secrets that are not there, where sandbox.yaml says which are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.gcp.references import hint
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.gcp.world import CloudContext

VERSION = "gcp:secretmanager/getSecretVersion:getSecretVersion"
ACCESS = "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess"
# What comes before Google's words: hashicorp/terraform-provider-google@683d638d, google/services/secretmanager/
# data_source_secret_manager_secret_version.go, and the file of that name with _access.
BEGINNINGS = {
    VERSION: "error retrieving available secret manager secret versions",
    ACCESS: "Error retrieving available secret manager secret version access",
}
SECRETS = re.compile(r"projects/[^/]+/secrets/.+")


def refusal(around: CloudContext, token: str, arguments: Mapping[str, Any], site: Site) -> str | None:
    """The error of a lookup; None where the secret is there, or the file lists no secrets at all."""
    given = arguments.get("secret")
    if not isinstance(given, str) or not any(map(SECRETS.fullmatch, around.patterns)):
        return None
    home, name, there = around.secret(given, str(arguments.get("project") or site.project), site)
    if there:
        return None
    # No reason follows these words, as one follows those of Compute Engine.
    error = f"googleapi: Error 404: Secret [projects/{site.number}/secrets/{name}] not found or has no versions."
    return f"{BEGINNINGS[token]}: {error}{hint(f'projects/{home}/secrets/{name}')}"
