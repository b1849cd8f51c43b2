"""The rule on which GitHub workflows can assume a cloud role or service account."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .properties import UNKNOWN, at, document, entries, is_list, mapping
from .rule import Resource, Rule, RuleContext

ISSUER = "token.actions.githubusercontent.com"
SUBJECT = f"{ISSUER}:sub"
# The operators that restrict a subject. Negative operators, and those with IfExists, also match other subjects.
MATCHING_OPERATORS = re.compile(r"(?:ForAnyValue:)?String(?:Equals(?:IgnoreCase)?|Like)")
# A subject that begins with a literal owner: `repo:acme/…`, or `repository_owner_id:123…` for a custom claim.
NAMED_OWNER = re.compile(r"\w+:[^*?:/]+(?:[/:].*)?")
# The claims that restrict a Google Cloud condition to an owner, a repository or a subject.
IDENTIFYING_CLAIMS = re.compile(
    r"\b(?:assertion|attribute)\.(?:sub|repository|repository_id|repository_owner|repository_owner_id|job_workflow_ref)\b"
    r"|\bgoogle\.subject\b"
)
ROLE = "aws:iam/role:Role"
POOL_PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
EVERYONE = re.compile(r"principalSet://iam\.googleapis\.com/.+/workloadIdentityPools/[^/]+/\*")


def open_roles(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type != ROLE:
        return
    for index, statement in enumerate(entries(document(at(resource.props, "assumeRolePolicy")), "Statement")):
        if at(statement, "Effect") != "Allow" or not trusts_github(at(statement, "Principal", "Federated")):
            continue
        if problem := subject_problem(at(statement, "Condition")):
            yield f"assumeRolePolicy.Statement[{index}] {problem}"


def trusts_github(federated: object) -> bool:
    names = federated if is_list(federated) else [federated]
    return any(isinstance(name, str) and ISSUER in name for name in names)


def subject_problem(conditions: object) -> str:
    """Return the problem of a statement's conditions; empty if one of them restricts the subject to an owner."""
    if conditions is UNKNOWN:
        return ""
    open_subjects: list[Any] = []
    for operator, expected in mapping(conditions).items():
        if not MATCHING_OPERATORS.fullmatch(operator):
            continue
        values = at(expected, SUBJECT)
        each = list(values) if is_list(values) else [values]
        if all(value is UNKNOWN or (isinstance(value, str) and NAMED_OWNER.fullmatch(value)) for value in each):
            return ""
        open_subjects += [value for value in each if isinstance(value, str) and not NAMED_OWNER.fullmatch(value)]
    if not open_subjects:
        return f"has no condition on {SUBJECT}"
    return f"accepts {SUBJECT} of {' or '.join(open_subjects)}, without a fixed owner"


def open_pools(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type == POOL_PROVIDER:
        issuer, condition = at(resource.props, "oidc", "issuerUri"), at(resource.props, "attributeCondition")
        if isinstance(issuer, str) and ISSUER in issuer and condition is not UNKNOWN:
            if not condition:
                yield "attributeCondition is not set, so every repository on GitHub is trusted"
            elif not (isinstance(condition, str) and IDENTIFYING_CLAIMS.search(condition)):
                yield "attributeCondition does not restrict the owner, the repository or the subject"
    if resource.type.startswith("gcp:"):
        for member in [at(resource.props, "member"), *entries(resource.props, "members")]:
            if isinstance(member, str) and EVERYONE.fullmatch(member):
                yield f"{member} means every identity that the pool accepts"


RULES = (
    Rule(
        name="aws-oidc-subject",
        title="An AWS role that trusts GitHub names the workflows.",
        why="GitHub signs tokens for every repository. Without a condition on the subject, any workflow on GitHub can "
        "assume the role.",
        fix=f"Add a condition StringEquals or StringLike on {SUBJECT}. Its value begins with the owner and the "
        "repository, such as repo:acme/kernels:ref:refs/heads/main.",
        sources=(
            "https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-aws",
            "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create_for-idp_oidc.html",
        ),
        check=open_roles,
    ),
    Rule(
        name="gcp-oidc-subject",
        title="A workload identity pool that trusts GitHub names the workflows.",
        why="GitHub signs tokens for every repository. Without a condition, any workflow on GitHub gets an identity.",
        fix='Set attributeCondition, such as assertion.repository_owner_id == "123456". Bind roles to a subject or an '
        "attribute of the pool, not to the whole pool.",
        sources=(
            "https://docs.cloud.google.com/iam/docs/workload-identity-federation-with-deployment-pipelines",
            "https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-google-cloud-platform",
        ),
        check=open_pools,
    ),
)
