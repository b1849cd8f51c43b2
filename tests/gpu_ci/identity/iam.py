"""Evaluates the trust policy of an IAM role for a token, by the rules of the IAM User Guide that it needs."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any

from gpu_ci.github_trust import ISSUER

from .tokens import Claims

# docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_iam-condition-keys.html, "condition-keys-wif": the claims
# of GitHub's tokens that have a key, besides aud and sub. Other claims are not in the request's context.
KEYS = (
    "actor", "actor_id", "environment", "enterprise_id", "job_workflow_ref", "ref", "repository", "repository_id",
    "workflow",
)  # fmt: skip


def allows(policy: str, claims: Claims, provider: str) -> bool:
    """Return True if the policy lets a token of the provider assume the role."""
    known = {f"{ISSUER}:{name}": value for name, value in claims.items() if name in (*KEYS, "aud", "sub")}
    return any(
        statement["Effect"] == "Allow"
        and statement["Action"] == "sts:AssumeRoleWithWebIdentity"
        and statement["Principal"] == {"Federated": provider}
        and _all(statement["Condition"], known)
        for statement in json.loads(policy)["Statement"]
    )


# docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html, DurationSeconds.
DEFAULT_SESSION_SEC = 3600


def assume(role: dict[str, Any], claims: Claims, provider: str, session_sec: int) -> str:
    """Return the error of STS for a token of the provider and a role with these inputs; empty if there is none."""
    if session_sec > (role.get("maxSessionDuration") or DEFAULT_SESSION_SEC):
        return "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
    if not allows(role["assumeRolePolicy"], claims, provider):
        return "Not authorized to perform sts:AssumeRoleWithWebIdentity"
    return ""


def _all(conditions: dict[str, dict[str, Any]], known: dict[str, str]) -> bool:
    """Return True if each key of each operator matches.

    Operators and keys are joined by AND, the values of a key by OR. A key that the request lacks does not match.
    Sources: reference_policies_condition-logic-multiple-context-keys-or-values.html and
    reference_policies_elements_condition_operators.html.
    """
    return all(
        key in known and any(_matches(operator, known[key], value) for value in _listed(wanted))
        for operator, keys in conditions.items()
        for key, wanted in keys.items()
    )


def _matches(operator: str, given: str, wanted: str) -> bool:
    if operator == "StringEquals":
        return given == wanted
    if operator == "StringLike":
        # * and ? only; fnmatch would also read brackets.
        return fnmatchcase(given, wanted.replace("[", "[[]"))
    raise NotImplementedError(operator)


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
