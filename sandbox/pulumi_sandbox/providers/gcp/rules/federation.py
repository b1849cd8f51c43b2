"""Check rules for workload identity pools that no schema contains, each with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# terraform-provider-google, google/services/iambeta/resource_iam_workload_identity_pool.go, validation of the ids.
ID = r"[0-9a-z-]{4,32}"
# Discovery document iam v1, WorkloadIdentityPoolProvider.
CONDITION_MOST, MAPPING_MOST = 4096, 2048
LENGTHS = {"displayName": 32, "description": 256}
CUSTOM = r"attribute\.[a-z0-9_]{1,100}"
# The same: "multi-tenant identity providers (such as GitHub or Terraform Cloud) require an attribute_condition".
SHARED = ("https://token.actions.githubusercontent.com", "https://app.terraform.io", "https://gitlab.com")


def pool(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from _id(inputs, "workloadIdentityPoolId")
    yield from _lengths(inputs)


def provider(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from _id(inputs, "workloadIdentityPoolProviderId")
    yield from _lengths(inputs)
    mapping = table(inputs.get("attributeMapping"))
    for key, value in mapping.items():
        if key not in ("google.subject", "google.groups") and not re.fullmatch(CUSTOM, key):
            yield Problem("attributeMapping", f"Invalid mapped attribute key: {key}", "such as attribute.repository_id")
        if isinstance(value, str) and len(value) > MAPPING_MOST:
            yield Problem("attributeMapping", f"{key} has {len(value)} characters, at most {MAPPING_MOST} are allowed")
    oidc = inputs.get("oidc")
    if isinstance(oidc, dict) and inputs.get("attributeMapping") is not UNKNOWN and "google.subject" not in mapping:
        yield Problem("attributeMapping", "An OIDC provider must map google.subject.", "google.subject: assertion.sub")
    yield from _condition(inputs)


def _condition(inputs: dict[str, Any]) -> Iterator[Problem]:
    issuer, given = table(inputs.get("oidc")).get("issuerUri"), inputs.get("attributeCondition")
    if given is UNKNOWN:
        return
    text = given if isinstance(given, str) else ""
    if len(text) > CONDITION_MOST:
        yield Problem("attributeCondition", f"at most {CONDITION_MOST} characters are allowed, got {len(text)}")
    # The message of the API, as devgem.io/posts/resolving-workload-identity-federation-resource-creation-errors-a-
    # developer-s-guide quotes it.
    if (
        isinstance(issuer, str)
        and issuer.rstrip("/").startswith(SHARED)
        and not re.search(r"assertion|attribute", text)
    ):
        yield Problem(
            "attributeCondition",
            "The attribute condition must reference one of the provider's claims.",
            'such as assertion.repository_owner_id == "9919"',
        )


def _id(inputs: dict[str, Any], name: str) -> Iterator[Problem]:
    given = inputs.get(name)
    if not isinstance(given, str):
        return
    if not re.fullmatch(ID, given):
        yield Problem(name, f'"{name}" ("{given}") must be 4-32 characters of [a-z0-9-]')
    elif given.startswith("gcp-"):
        yield Problem(name, f'"{name}" ("{given}") must not start with "gcp-", which Google reserves')


def _lengths(inputs: dict[str, Any]) -> Iterator[Problem]:
    for name, most in LENGTHS.items():
        text = inputs.get(name)
        if isinstance(text, str) and len(text) > most:
            yield Problem(name, f"expected length of {name} to be in the range (0 - {most}), got {len(text)}")
