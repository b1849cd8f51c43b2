"""The names of resources that the discovery documents do not limit, as rows of data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.resource import Problem

# Google Cloud documentation "IAM roles": predefined and basic roles, and custom roles.
ROLE = r"roles/[A-Za-z0-9_.]+|(?:projects|organizations)/[^/]+/roles/[A-Za-z0-9_.]{3,64}"
# "upstream" is terraform-provider-google e03b7622.
PATTERNS: dict[str, dict[str, str]] = {
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


def check(token: str, inputs: dict[str, Any]) -> Iterator[Problem]:
    for field, pattern in PATTERNS.get(token, {}).items():
        value = inputs.get(field)
        if isinstance(value, str) and value and not re.fullmatch(pattern, value):
            yield Problem(field, f'"{field}" ("{value}") doesn\'t match regexp "^{pattern}$"')
