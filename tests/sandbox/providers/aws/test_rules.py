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


def vm(**changes: Any) -> tuple[str, dict[str, Any]]:
    return "aws:ec2/instance:Instance", {"ami": "ami-0a1b2c3d4e5f60001", "instanceType": "g6.xlarge", **changes}


def document(*statements: dict[str, Any], **top: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements), **top})


def policy(statement: dict[str, Any], **top: Any) -> tuple[str, dict[str, Any]]:
    return types.ROLE_POLICY, {"role": "r", "policy": document(statement, **top)}


def trust(statement: dict[str, Any], **role: Any) -> tuple[str, dict[str, Any]]:
    return types.ROLE, {"assumeRolePolicy": document(statement), **role}


ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "a node group": group(),
    "sizes that are not known yet": group(scalingConfig={"minSize": UNKNOWN, "desiredSize": 0, "maxSize": UNKNOWN}),
    "a template that is not known yet": group(launchTemplate=UNKNOWN),
    "ARM": group(instanceTypes=["g5g.xlarge"], amiType="AL2023_ARM_64_NVIDIA"),
    "a type that the catalog does not have": group(instanceTypes=["m7i.large"], amiType="AL2023_x86_64_STANDARD"),
    "a type of another region": group(instanceTypes=["p5e.48xlarge"], region="us-east-2"),
    "a region without data": group(instanceTypes=["never.heard"], region="xx-nowhere-1"),
    "labels that a kubelet may set": group(
        labels={"nvidia.com/gpu.present": "true", "node.kubernetes.io/purpose": "ci", "kubernetes.io/os": "linux"}
    ),
    "types that are not known yet": group(instanceTypes=[UNKNOWN, "g6.xlarge"]),
    "a launch template": template(),
    "a type that is not known yet": template(instanceType=UNKNOWN),
    "a VM": vm(instanceMarketOptions={"marketType": "spot"}),
    "a VM in another region": vm(instanceType="p5e.48xlarge", region="us-east-2"),
    "a VM from a launch template": vm(instanceType=None, launchTemplate={"id": "lt-1"}),
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
    "fewer than the minimum": (
        group(scalingConfig={"minSize": 2, "desiredSize": 1, "maxSize": 4}),
        "scalingConfig.minSize",
        "minSize can't be greater than desiredSize",
    ),
    "more than the maximum": (
        group(scalingConfig={"minSize": 0, "desiredSize": 5, "maxSize": 4}),
        "scalingConfig.desiredSize",
        "desiredSize can't be greater than maxSize",
    ),
    "a type that does not exist": (group(instanceTypes=["g6.3xlarge"]), "instanceTypes[0]", "do not exist"),
    "a type of other regions": (group(instanceTypes=["p5e.48xlarge"]), "instanceTypes[0]", "us-east-2 has it"),
    "ARM on an x86 image": (
        group(instanceTypes=["g6.xlarge", "g5g.xlarge"]),
        "instanceTypes",
        "[g5g.xlarge] is not a valid instance type for requested amiType AL2023_x86_64_NVIDIA",
    ),
    "no type, which is t3.medium": (
        group(amiType="AL2023_ARM_64_STANDARD", instanceTypes=None),
        "instanceTypes",
        "[t3.medium] is not a valid instance type",
    ),
    "two architectures": (
        group(amiType=None, instanceTypes=["m7i.large", "m7g.large"]),
        "instanceTypes",
        "expected instance types of one architecture",
    ),
    "a label of EKS": (
        group(labels={"eks.amazonaws.com/nodegroup": "mine"}),
        'labels["eks.amazonaws.com/nodegroup"]',
        "Label cannot contain reserved prefixes",
    ),
    "a label with which no node joins": (
        group(labels={"node-role.kubernetes.io/gpu": "true"}),
        'labels["node-role.kubernetes.io/gpu"]',
        "NodeCreationFailure",
    ),
    "a launch template of another region": (template(instanceType="p5e.48xlarge"), "instanceType", "is not valid"),
    "a VM that does not exist": (vm(instanceType="g5.xxlarge"), "instanceType", "is not valid"),
    "a VM in a market without it": (
        vm(instanceMarketOptions={"marketType": "capacity-block"}),
        "instanceType",
        "is not offered as CAPACITY_BLOCK",
    ),
    "a market without the machine": (
        template(instanceType="g6.xlarge", instanceMarketOptions={"marketType": "capacity-block"}),
        "instanceType",
        "is not offered as CAPACITY_BLOCK",
    ),
    "EFA on a machine without it": (
        template(networkInterfaces=[{"deviceIndex": 0, "interfaceType": "efa"}]),
        "networkInterfaces",
        "g6.xlarge has 0 EFA interfaces",
    ),
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
