"""aws-oidc-subject and gcp-oidc-subject."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN

from .support import found

ISSUER = "token.actions.githubusercontent.com"
ROLE = "aws:iam/role:Role"
POOL_PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
NOTHING = f"assumeRolePolicy.Statement[0] has no condition on {ISSUER}:sub"


def role(condition: Any, federated: Any = f"arn:aws:iam::123456789012:oidc-provider/{ISSUER}") -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": federated},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": condition,
    }
    return {"assumeRolePolicy": json.dumps({"Version": "2012-10-17", "Statement": [statement]})}


def subject(operator: str, *values: str) -> dict[str, Any]:
    return {operator: {f"{ISSUER}:sub": values[0] if len(values) == 1 else list(values)}}


def wide(text: str) -> list[str]:
    return [f"assumeRolePolicy.Statement[0] accepts {ISSUER}:sub of {text}, without a fixed owner"]


@pytest.mark.parametrize(
    ("condition", "violations"),
    [
        ({}, [NOTHING]),
        ({"StringEquals": {f"{ISSUER}:aud": "sts.amazonaws.com"}}, [NOTHING]),
        (subject("StringLike", "*"), wide("*")),
        (subject("StringLike", "repo:*"), wide("repo:*")),
        (subject("StringLike", "repo:*/kernels:*"), wide("repo:*/kernels:*")),
        (subject("StringLike", "repo:acme*/x"), wide("repo:acme*/x")),
        (subject("StringEquals", "repo:/x"), wide("repo:/x")),
        (subject("StringEquals", ":acme/x"), wide(":acme/x")),
        (subject("StringLike", "repo:acme/kernels:*", "*"), wide("*")),
        (subject("StringNotEquals", "repo:evil/x:*"), [NOTHING]),
        (subject("StringLikeIfExists", "repo:acme/kernels:*"), [NOTHING]),
        (subject("StringEquals", "repo:acme/kernels:ref:refs/heads/main"), []),
        (subject("StringLike", "repo:acme/kernels:*", "repo:acme/web:*"), []),
        (subject("StringLike", "*") | subject("StringEquals", "repo:acme/kernels:environment:ci"), []),
        (subject("ForAnyValue:StringLike", "repo:acme/*"), []),
    ],
)
def test_a_role_has_to_name_the_owner_in_the_subject(condition: dict[str, Any], violations: list[str]) -> None:
    assert found("aws-oidc-subject", ROLE, role(condition)) == violations


@pytest.mark.parametrize(
    "props",
    [
        role({}, federated="arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/X"),
        {"assumeRolePolicy": '{"Statement": {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}}}'},
        {"assumeRolePolicy": UNKNOWN},
        {"assumeRolePolicy": "no JSON"},
        {},
    ],
)
def test_a_role_that_does_not_trust_github_passes(props: dict[str, Any]) -> None:
    assert found("aws-oidc-subject", ROLE, props) == []


def test_other_types_with_the_same_properties_are_left_alone() -> None:
    assert found("aws-oidc-subject", "aws:iam/policy:Policy", role({})) == []
    assert found("gcp-oidc-subject", "gcp:iam/workloadIdentityPool:WorkloadIdentityPool", provider(None)) == []
    pool = "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/github/*"
    assert found("gcp-oidc-subject", "github:index/membership:Membership", {"member": pool}) == []


def test_a_statement_that_is_no_list_and_a_subject_that_is_not_known_are_read() -> None:
    principal = {"Federated": [f"arn:aws:iam::1:oidc-provider/{ISSUER}"]}
    statement: dict[str, Any] = {"Effect": "Allow", "Principal": principal}
    assert found("aws-oidc-subject", ROLE, {"assumeRolePolicy": {"Statement": statement}}) == [NOTHING]
    unknown = statement | {"Condition": {"StringEquals": {f"{ISSUER}:sub": UNKNOWN}}}
    assert found("aws-oidc-subject", ROLE, {"assumeRolePolicy": {"Statement": unknown}}) == []
    assert found("aws-oidc-subject", ROLE, {"assumeRolePolicy": {"Statement": statement | {"Effect": "Deny"}}}) == []


def provider(condition: Any, issuer: Any = f"https://{ISSUER}") -> dict[str, Any]:
    return {"oidc": {"issuerUri": issuer}, "attributeCondition": condition}


VAGUE = "attributeCondition does not restrict the owner, the repository or the subject"


@pytest.mark.parametrize(
    ("props", "violations"),
    [
        (provider(None), ["attributeCondition is not set, so every repository on GitHub is trusted"]),
        (provider(""), ["attributeCondition is not set, so every repository on GitHub is trusted"]),
        (provider("true"), [VAGUE]),
        (provider('assertion.ref == "refs/heads/main"'), [VAGUE]),
        (provider('assertion.repository_owner_id == "123456"'), []),
        (provider("attribute.repository == 'acme/kernels'"), []),
        (provider(UNKNOWN), []),
        (provider(None, issuer="https://login.example.com"), []),
        (provider(None, issuer=UNKNOWN), []),
    ],
)
def test_an_identity_pool_needs_a_condition_on_the_repository(props: dict[str, Any], violations: list[str]) -> None:
    assert found("gcp-oidc-subject", POOL_PROVIDER, props) == violations


def test_a_role_for_a_whole_pool_of_identities_is_refused_and_one_for_an_attribute_is_not() -> None:
    pool = "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/github"
    kind = "gcp:serviceaccount/iAMMember:IAMMember"
    violations = [f"{pool}/* means every identity that the pool accepts"]
    assert found("gcp-oidc-subject", kind, {"member": f"{pool}/*"}) == violations
    assert found("gcp-oidc-subject", kind, {"members": ["user:a@example.com", f"{pool}/*"]}) == violations
    assert found("gcp-oidc-subject", kind, {"member": f"{pool}/attribute.repository/acme/kernels"}) == []
    assert found("gcp-oidc-subject", kind, {"member": UNKNOWN}) == []
