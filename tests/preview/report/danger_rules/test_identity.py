"""Tests of the rule `identity`: wider grants and trusts, more repositories, and changes that allow no more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_preview.model import Severity

from ...danger_cases import CREATE, DELETE, UNKNOWN, UPDATE, found, texts

MEMBER = "gcp:projects/iAMMember:IAMMember"
BINDING = "gcp:projects/iAMBinding:IAMBinding"
POLICY = "aws:iam/policy:Policy"
ROLE = "aws:iam/role:Role"
PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
ROLE_BINDING = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"
GROUP = "github:index/actionsRunnerGroup:ActionsRunnerGroup"
GITHUB = "token.actions.githubusercontent.com"


def policy(action: Any, resource: Any = "*", **others: Any) -> dict[str, Any]:
    return {
        "policy": json.dumps({"Statement": [{"Effect": "Allow", "Action": action, "Resource": resource, **others}]})
    }


def trust(*subjects: str, operator: str = "StringLike", audience: bool = True) -> dict[str, Any]:
    condition: dict[str, Any] = {"StringEquals": {f"{GITHUB}:aud": "sts.amazonaws.com"}} if audience else {}
    if subjects:
        condition.setdefault(operator, {})[f"{GITHUB}:sub"] = list(subjects)
    principal = {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{GITHUB}"}
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRoleWithWebIdentity"}
    return {"assumeRolePolicy": json.dumps({"Statement": [{**statement, "Condition": condition}]})}


NO_SUB = f"trusts {GITHUB} with no condition on sub"
TAKES = "workflows of other repositories can assume the role"
ONE = "repo:org/a:ref:refs/heads/main"

# The type, the inputs before (None: a new resource) and after, and the texts of the findings.
CASES: list[tuple[str, dict[str, Any] | None, dict[str, Any], list[str]]] = [
    (MEMBER, None, {"role": "roles/owner", "member": "user:a"}, ["grants roles/owner to user:a"]),
    (MEMBER, None, {"role": "roles/logging.logWriter", "member": "user:a"}, []),
    (MEMBER, None, {"role": "roles/editor", "member": UNKNOWN},
     ["grants roles/editor to a member known only after the update"]),
    (MEMBER, {"role": "roles/viewer", "member": "user:a"}, {"role": "roles/editor", "member": "user:a"},
     ["grants roles/editor to user:a"]),
    (BINDING, {"role": "roles/owner", "members": ["user:a"]}, {"role": "roles/owner", "members": ["user:b", "user:a"]},
     ["grants roles/owner to user:b"]),
    (MEMBER, None, {"role": "roles/x", "member": "principalSet://iam.googleapis.com/p/workloadIdentityPools/ci/*"},
     ["grants a role to every identity of a pool: principalSet://iam.googleapis.com/p/workloadIdentityPools/ci/*"]),
    (MEMBER, None, {"role": "roles/x", "member": "principalSet://iam.googleapis.com/p/workloadIdentityPools/ci/a/b"},
     []),
    (POLICY, None, policy("*", "arn:aws:s3:::a"), ["allows *"]),
    (POLICY, None, policy(["s3:*", "s3:GetObject"]), ["allows s3:*"]),
    (POLICY, None, policy("s3:*", "arn:aws:s3:::a"), []),
    (POLICY, policy("s3:*"), policy(["ec2:*", "s3:*"]), ["allows ec2:*"]),
    (POLICY, None, policy(None, NotAction="iam:*"), ["allows all but some (NotAction)"]),
    (POLICY, None, {"policy": json.dumps({"Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]})}, []),
    (POLICY, None, {"policy": UNKNOWN}, []),
    (ROLE, {}, {"managedPolicyArns": ["arn:aws:iam::aws:policy/AdministratorAccess"]},
     ["attaches arn:aws:iam::aws:policy/AdministratorAccess"]),
    ("aws:iam/rolePolicyAttachment:RolePolicyAttachment", None,
     {"policyArn": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"}, []),
    (ROLE, trust(ONE), trust(), [f"{NO_SUB} any more: {TAKES}"]),
    (ROLE, trust(ONE), trust(ONE, operator="StringNotLike"), [f"{NO_SUB} any more: {TAKES}"]),
    (ROLE, None, trust(audience=False), [f"{NO_SUB}: {TAKES}"]),
    (ROLE, None, trust(ONE), []),
    (ROLE, trust(ONE), trust("repo:org/*:*"), [f"trusts {GITHUB} with sub like repo:org/*:*: {TAKES}"]),
    (ROLE, trust(ONE), trust("repo:org/a:*"), [f"newly trusts repo:org/a:* of {GITHUB}"]),
    (ROLE, trust("repo:org/a:*"), trust(ONE), []),
    (ROLE, trust(ONE), trust(ONE, "repo:org/b:*"), [f"newly trusts repo:org/b:* of {GITHUB}"]),
    (ROLE, None, trust("repo:org/*", operator="StringEquals"), []),
    (PROVIDER, {"attributeCondition": "a == 'b'"}, {},
     ["accepts tokens of every repository: its attributeCondition is removed"]),
    (PROVIDER, {"attributeCondition": "a == 'b'"}, {"attributeCondition": "a == 'c'"},
     ["accepts tokens by another attributeCondition: check if it accepts more tokens"]),
    (PROVIDER, {"attributeCondition": "a == 'b'"}, {"attributeCondition": "a=='b'"}, []),
    (PROVIDER, {"attributeCondition": "a == 'b'"}, {"attributeCondition": UNKNOWN}, []),
    (PROVIDER, None, {"oidc": {"issuerUri": f"https://{GITHUB}"}},
     ["accepts tokens of every repository: it has no attributeCondition"]),
    (PROVIDER, None, {"oidc": {"issuerUri": f"https://{GITHUB}"}, "attributeCondition": "a == 'b'"}, []),
    ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding", None, {"roleRef": {"name": "cluster-admin"}},
     ["makes its subjects cluster-admin"]),
    ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding", None, {"roleRef": {"name": "view"}}, []),
    (ROLE, trust(ONE), trust(ONE, operator="StringLikeIfExists"), [f"{NO_SUB} any more: {TAKES}"]),
    ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", {"rules": [{"verbs": ["get"], "resources": ["*"]}]},
     {"rules": [{"verbs": ["*"], "resources": ["*"]}]}, ["allows every verb on every resource"]),
    ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", None, {"rules": [{"verbs": ["*"], "resources": ["pods"]}]},
     []),
    ("kubernetes:apps/v1:Deployment", {"spec": [{"privileged": False}]}, {"spec": [{"privileged": True}]},
     ["weakens the isolation of a container: spec[0].privileged"]),
    (GROUP, {"selectedRepositoryIds": [1]}, {"selectedRepositoryIds": [2, 1, 3]},
     ["allows 2 more in selectedRepositoryIds"]),
    (GROUP, {"selectedRepositoryIds": [1]}, {"selectedRepositoryIds": UNKNOWN}, []),
    (GROUP, {"selectedRepositoryIds": [1]}, {"selectedRepositoryIds": [1, UNKNOWN]}, []),
    (GROUP, None, {"selectedRepositoryIds": [1], "visibility": "selected"}, []),
    (GROUP, {"visibility": "selected"}, {"visibility": "all"}, ["is available to all repositories (before: selected)"]),
    (GROUP, None, {"visibility": "all"}, ["is available to all repositories (before: none)"]),
    (GROUP, {"restrictedToWorkflows": True}, {"restrictedToWorkflows": False},
     ["is no longer restricted to selected workflows"]),
    (ROLE_BINDING, {"subjects": [{"kind": "User", "name": "dev"}]},
     {"subjects": [{"kind": "Group", "name": f"system:{each}"} for each in ("unauthenticated", "serviceaccounts")]},
     ["binds every client of the API server: system:unauthenticated",
      "binds every pod of the cluster: system:serviceaccounts"]),
    (ROLE_BINDING, None, {"subjects": [{"kind": "Group", "name": "system:authenticated"}]},
     ["binds every account of the cluster: system:authenticated"]),
    (ROLE_BINDING, {"subjects": [{"name": "system:anonymous"}]},
     {"subjects": [{"name": "system:anonymous"}, {"name": "a"}]}, []),
    (ROLE_BINDING, None, {"subjects": [{"name": ["system:anonymous"]}, 3]}, []),
    ("github:index/repositoryRuleset:RepositoryRuleset", {"enforcement": "active"}, {"enforcement": "disabled"},
     ["is no longer enforced: enforcement is not active"]),
    ("github:index/repositoryRuleset:RepositoryRuleset", {"enforcement": "evaluate"}, {"enforcement": "disabled"}, []),
    ("github:index/repositoryRuleset:RepositoryRuleset", {"bypassActors": []}, {"bypassActors": [{"actorId": 1}]},
     ["allows 1 more in bypassActors"]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "before", "after", "expected"), CASES)
def test_a_change_that_allows_more_is_reported(type_: str, before: Any, after: Any, expected: list[str]) -> None:
    findings = found(type_, CREATE if before is None else UPDATE, before, after)
    assert texts(findings) == [f"identity: {type_.rpartition(':')[2]} x {text}" for text in expected]
    assert {each.severity for each in findings} <= {Severity.DANGER}


def test_a_ruleset_that_is_deleted_is_reported() -> None:
    type_ = "github:index/repositoryRuleset:RepositoryRuleset"
    assert texts(found(type_, DELETE, {"enforcement": "active"})) == [
        "identity: RepositoryRuleset x is deleted: its branches can be changed without its checks"
    ]
    assert found(MEMBER, DELETE, {"role": "roles/owner", "member": "user:a"}) == []
