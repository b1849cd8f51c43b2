"""The rules of Google for inputs that no schema contains, each with its source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.names import NAME_PATTERN
from pulumi_sandbox.providers.gcp.rules import node_pool, template
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.paths import text
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# Google Cloud documentation "Requirements for labels" (docs.cloud.google.com/compute/docs/labeling-resources).
LABELS_MOST = 64
LABEL_KEY = r"[a-z\u00df-\u00f6\u00f8-\u00ff][\w-]{0,62}"
LABEL_VALUE = r"[\w-]{0,63}"
# terraform-provider-google e03b7622, google/tpgiamresource/resource_iam_member.go.
MEMBER = r"(?:user|serviceAccount|group|domain|principal|principalSet|project(?:Owner|Editor|Viewer)|deleted):.+"
# Discovery document iam v1, WorkloadIdentityPoolProvider: "multi-tenant identity providers (such as GitHub or Terraform
# Cloud) require an attribute_condition".
SHARED = ("https://token.actions.githubusercontent.com", "https://app.terraform.io", "https://gitlab.com")
# Google Cloud documentation "IAM roles": predefined and basic roles, and custom roles.
ROLE = r"roles/[A-Za-z0-9_.]+|(?:projects|organizations)/[^/]+/roles/[A-Za-z0-9_.]{3,64}"
# "upstream" is terraform-provider-google e03b7622.
PATTERNS: dict[str, dict[str, str]] = {
    types.INSTANCE: {"name": NAME_PATTERN},
    types.ACCOUNT: {"accountId": r"[a-z][-a-z0-9]{4,28}[a-z0-9]"},  # upstream, verify/validation.go
    types.SECRET: {"secretId": r"[a-zA-Z0-9_-]{1,255}"},  # discovery document secretmanager v1, secretId
    **{token: {"role": ROLE} for token in types.MEMBERS},
    types.WORKER_POOL: {"name": r"[a-z0-9-]{1,63}"},  # discovery document cloudbuild v1, workerPoolId
    types.TRIGGER: {"name": r"[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?"},  # the same, BuildTrigger.name
    # Google Cloud documentation "Create standard repositories".
    types.REPOSITORY: {"repositoryId": r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"},
    types.RUN_POOL: {"name": r"[a-z]([a-z0-9-]{0,47}[a-z0-9])?"},  # discovery document run v2, workerPoolId
    # Google Cloud documentation "Create and manage custom roles".
    types.CUSTOM_ROLE: {"roleId": r"[a-zA-Z0-9_.]{3,64}"},
    # upstream, services/iambeta/resource_iam_workload_identity_pool.go
    types.POOL: {"workloadIdentityPoolId": r"(?!gcp-)[0-9a-z-]{4,32}"},
    types.POOL_PROVIDER: {"workloadIdentityPoolProviderId": r"(?!gcp-)[0-9a-z-]{4,32}"},
    types.LOG_METRIC: {"name": r"(?!/)[A-Za-z0-9_\-.,+!*',()%/]{1,100}"},  # discovery document logging v2
    # upstream, services/container: "name is limited to 40"
    types.CLUSTER: {"name": r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"},
    types.NODE_POOL: {"name": r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"},
}


def rules(token: str, inputs: dict[str, Any]) -> Iterator[Problem]:
    """Yield the problems that Google reports but no schema contains."""
    yield from _names(token, inputs)
    if token in types.LABELLED:
        yield from _labels(inputs.get("labels"))
    if rule := _RULES.get(token):
        yield from rule(inputs)


def _names(token: str, inputs: dict[str, Any]) -> Iterator[Problem]:
    for field, pattern in PATTERNS.get(token, {}).items():
        value = inputs.get(field)
        if isinstance(value, str) and value and not re.fullmatch(pattern, value):
            yield Problem(field, f'"{field}" ("{value}") doesn\'t match regexp "^{pattern}$"')


def _labels(labels_input: Any) -> Iterator[Problem]:
    pairs = table(labels_input)
    if len(pairs) > LABELS_MOST:
        yield Problem("labels", f"expected at most {LABELS_MOST} labels, got {len(pairs)}")
    for key, value in pairs.items():
        if not re.fullmatch(LABEL_KEY, key) or key != key.lower():
            yield Problem(text(("labels", key)), f"Label key '{key}' violates format constraints.", LABEL_KEY)
        if isinstance(value, str) and (not re.fullmatch(LABEL_VALUE, value) or value != value.lower()):
            yield Problem(text(("labels", key)), f"Label value '{value}' violates format constraints.", LABEL_VALUE)


def _member(inputs: dict[str, Any]) -> Iterator[Problem]:
    given = inputs.get("member")
    if isinstance(given, str) and not re.fullmatch(f"{MEMBER}|allUsers|allAuthenticatedUsers", given):
        hint = "such as serviceAccount:name@project.iam.gserviceaccount.com"
        yield Problem("member", f'invalid value "{given}" for member', hint)


def _provider(inputs: dict[str, Any]) -> Iterator[Problem]:
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


_RULES: dict[str, Callable[[dict[str, Any]], Iterable[Problem]]] = {
    **dict.fromkeys(types.TEMPLATES, template.template),
    types.INSTANCE: template.instance,
    **dict.fromkeys(types.MEMBERS, _member),
    types.POOL_PROVIDER: _provider,
    types.NODE_POOL: node_pool.node_pool,
}
