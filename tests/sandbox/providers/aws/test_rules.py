"""The rules of AWS that no schema of a type contains: what is refused, at which input, and what is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.aws.conftest import NODE_GROUP, TEMPLATE, Amazon

ALLOW: dict[str, Any] = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
TRUST: dict[str, Any] = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}


def group(**changes: Any) -> tuple[str, dict[str, Any]]:
    return types.NODE_GROUP, {**NODE_GROUP, **changes}


def template(**changes: Any) -> tuple[str, dict[str, Any]]:
    return types.LAUNCH_TEMPLATE, {**TEMPLATE, **changes}


def document(*statements: dict[str, Any], **top: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements), **top})


def policy(statement: dict[str, Any], **top: Any) -> tuple[str, dict[str, Any]]:
    return types.ROLE_POLICY, {"role": "r", "policy": document(statement, **top)}


def trust(statement: dict[str, Any], **role: Any) -> tuple[str, dict[str, Any]]:
    return types.ROLE, {"assumeRolePolicy": document(statement), **role}


ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "a node group": group(),
    "a template that is not known yet": group(launchTemplate=UNKNOWN),
    "a type that the catalog does not have": group(instanceTypes=["m7i.large"], amiType="AL2023_x86_64_STANDARD"),
    "a region without data": group(instanceTypes=["never.heard"], region="xx-nowhere-1"),
    "types that are not known yet": group(instanceTypes=[UNKNOWN, "g6.xlarge"]),
    "a launch template": template(),
    "a type that is not known yet": template(instanceType=UNKNOWN),
    "a policy": policy(ALLOW),
    "a policy with a variable": policy({**ALLOW, "Resource": "arn:aws:s3:::bucket/${aws:username}/*"}),
    "a role": trust(TRUST),
    "a role with an inline policy": trust(TRUST, inlinePolicies=[{"name": "p", "policy": document(ALLOW)}]),
    "a role of GitHub": trust({**TRUST, "Principal": {"Federated": "arn:aws:iam::123456789012:oidc-provider/github"}}),
    "a role that is not known yet": (types.ROLE, {"assumeRolePolicy": UNKNOWN}),
}


@pytest.mark.parametrize(("token", "inputs"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_aws_takes_is_accepted(amazon: Amazon, token: str, inputs: dict[str, Any]) -> None:
    assert amazon.problems(token, inputs) == []


# The path and a part of the message of each problem.
REFUSED: dict[str, tuple[tuple[str, dict[str, Any]], str, str]] = {
    "a policy that is not JSON": ((types.ROLE_POLICY, {"role": "r", "policy": "{"}), "policy", "invalid JSON policy"),
    "a policy without a resource": (
        policy({"Effect": "Allow", "Action": "s3:GetObject"}),
        "policy",
        "$.Statement[0]: exactly one of Resource, NotResource",
    ),
    "a resource that is no ARN": (policy({**ALLOW, "Resource": "bucket"}), "policy", "$.Statement[0].Resource"),
    "a principal in a policy": (policy({**ALLOW, "Principal": "*"}), "policy", "'Principal' was unexpected"),
    "an unknown effect": (policy({**ALLOW, "Effect": "Permit"}), "policy", "$.Statement[0].Effect"),
    "a trust without a principal": (
        trust({"Effect": "Allow", "Action": "sts:AssumeRole"}),
        "assumeRolePolicy",
        "exactly one of Principal, NotPrincipal",
    ),
}


@pytest.mark.parametrize(("case", "path", "text"), REFUSED.values(), ids=REFUSED)
def test_what_aws_refuses_is_refused_at_its_place(
    amazon: Amazon, case: tuple[str, dict[str, Any]], path: str, text: str
) -> None:
    token, inputs = case
    [problem] = amazon.problems(token, {name: value for name, value in inputs.items() if value is not None})
    assert problem.startswith(f"{path}: ")
    assert text in problem
