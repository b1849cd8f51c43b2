"""Policy documents: refused by IAM, accepted by IAM without effect, and invalid ARNs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.aws.conftest import Amazon

TRUST = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
ALLOW = {"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": "*"}
WORKER = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"


def document(*statements: dict[str, Any], **top: Any) -> str:
    return json.dumps({"Version": "2012-10-17", **top, "Statement": list(statements)})


def without(statement: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in statement.items() if name not in names}


def trust(amazon: Amazon, text: Any) -> list[str]:
    return amazon.problems(types.ROLE, {"name": "r", "assumeRolePolicy": text})


def identity(amazon: Amazon, text: Any) -> list[str]:
    return amazon.problems(types.ROLE_POLICY, {"name": "p", "role": "r", "policy": text})


TRUSTED = {
    "a service": TRUST,
    "two services": {**TRUST, "Principal": {"Service": ["ec2.amazonaws.com", "eks.amazonaws.com"]}},
    "an account": {**TRUST, "Principal": {"AWS": "123456789012"}},
    "a role": {**TRUST, "Principal": {"AWS": "arn:aws:iam::123456789012:role/ci/deploy"}},
    "everybody": {**TRUST, "Principal": "*"},
    "pods": {
        **TRUST,
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Principal": {"Service": "pods.eks.amazonaws.com"},
    },
    "an identity provider": {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"},
        "Condition": {"StringEquals": {"token.actions.githubusercontent.com:aud": "sts.amazonaws.com"}},
    },
}


@pytest.mark.parametrize("statement", TRUSTED.values(), ids=TRUSTED)
def test_a_trust_that_iam_takes_is_accepted(amazon: Amazon, statement: dict[str, Any]) -> None:
    assert trust(amazon, document(statement)) == []
    assert trust(amazon, document(statement, Version="2008-10-17")) == []
    assert amazon.messages == []


def test_documents_that_a_preview_does_not_know_are_left_alone(amazon: Amazon) -> None:
    assert trust(amazon, UNKNOWN) == []
    unknown = {**TRUST, "Principal": {"AWS": UNKNOWN}}
    assert trust(amazon, {"Version": "2012-10-17", "Statement": [unknown]}) == []
    resources = {**ALLOW, "Resource": [UNKNOWN]}
    assert identity(amazon, {"Version": "2012-10-17", "Statement": [resources]}) == []


NO_JSON = 'assumeRolePolicy: "assumeRolePolicy" contains an invalid JSON policy'
AT = "MalformedPolicyDocument: "
STATEMENT = f"assumeRolePolicy: Statement[0]: {AT}"
DISTRUSTED: dict[str, tuple[Any, list[str]]] = {
    "no text": ("", ['assumeRolePolicy: "assumeRolePolicy" is an empty string, which is not a valid JSON value']),
    "a file's name": (
        "trust.json",
        [f"{NO_JSON}: not a JSON object"],
    ),
    "a space first": (
        " {}",
        [f"{NO_JSON}: leading space characters are not allowed"],
    ),
    "half of it": (
        '{"Version": "2012-10-17",',
        [(f"{NO_JSON}: Expecting property name enclosed in double quotes, in line 1, column 26")],
    ),
    "no statement": ("{}", [f"assumeRolePolicy: {AT}Syntax errors in policy.\n  got: no Statement"]),
    "a version of one's own": (
        document(TRUST, Version="2024-01-01"),
        [
            (
                f"assumeRolePolicy: {AT}The policy must contain a valid version string\n  got: Version 2024-01-01\n"
                "  expected: 2008-10-17, 2012-10-17"
            )
        ],
    ),
    "a field that is none": (
        document({**TRUST, "Principals": {}}),
        [
            (
                f"{STATEMENT}Syntax errors in policy.\n  got: Principals\n  expected: Action, Condition, Effect, "
                "NotAction, NotPrincipal, NotResource, Principal, Resource, Sid\n  hint: did you mean Principal?"
            )
        ],
    ),
    "permit": (
        document({**TRUST, "Effect": "Permit"}),
        [f"{STATEMENT}Syntax errors in policy.\n  got: Effect Permit\n  expected: Allow, Deny"],
    ),
    "nobody": (
        document(without(TRUST, "Principal")),
        [f"{STATEMENT}Invalid principal in policy: The passed in policy has a statement with no principals!"],
    ),
    "a resource": (document({**TRUST, "Resource": "*"}), [f"{STATEMENT}Has prohibited field Resource"]),
    "no action": (document(without(TRUST, "Action")), [f"{STATEMENT}Policy statement must contain actions."]),
    "an action of another service": (
        document({**TRUST, "Action": "ec2:RunInstances"}),
        [f"{STATEMENT}AssumeRole policy may only specify STS AssumeRole actions.\n  got: ec2:RunInstances"],
    ),
    "a service that is none": (
        document({**TRUST, "Principal": {"Service": "ec2"}}),
        [f'{STATEMENT}Invalid principal in policy: "SERVICE":"ec2"'],
    ),
    "a role's name": (
        document({**TRUST, "Principal": {"AWS": ["arn:aws:iam::123456789012:root", "deploy"]}}),
        [f'{STATEMENT}Invalid principal in policy: "AWS":"deploy"'],
    ),
    "two statements of one name": (
        document({**TRUST, "Sid": "a"}, {**TRUST, "Sid": "a"}),
        [f"assumeRolePolicy: {AT}Statement IDs (SID) in a single policy must be unique.\n  got: a twice"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), DISTRUSTED.values(), ids=DISTRUSTED)
def test_a_trust_that_iam_refuses_is_refused(amazon: Amazon, text: Any, expected: list[str]) -> None:
    assert trust(amazon, text) == expected


FORBIDDEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a principal": ({**ALLOW, "Principal": "*"}, ["Policy document should not specify a principal."]),
    "no resource": (without(ALLOW, "Resource"), ["Policy statement must contain resources."]),
    "an empty list of them": ({**ALLOW, "Resource": []}, ["Policy statement must contain resources."]),
    "a name for a resource": ({**ALLOW, "Resource": "my-topic"}, ['Resource my-topic must be in ARN format or "*".']),
    "an ARN without an account's digits": (
        {**ALLOW, "Resource": "arn:aws:eks:us-east-1:1234:cluster/ci"},
        ['Resource arn:aws:eks:us-east-1:1234:cluster/ci must be in ARN format or "*".'],
    ),
    "an action alone": (
        {**ALLOW, "Action": "DescribeCluster"},
        ["Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.\n  got: DescribeCluster"],
    ),
    "two colons": (
        {**ALLOW, "Action": "ec2:ec2:RunInstances"},
        ["Actions/Condition can contain only one colon.\n  got: ec2:ec2:RunInstances"],
    ),
    "every service": (
        {**ALLOW, "Action": "*:Untag*"},
        ["Action vendors (e.g., aws, ec2, etc.) must not contain wildcards\n  got: *:Untag*"],
    ),
    "an action and its opposite": (
        {**ALLOW, "NotAction": "eks:*"},
        ["Syntax errors in policy.\n  got: Action and NotAction"],
    ),
}


@pytest.mark.parametrize(("statement", "expected"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_policy_that_iam_refuses_is_refused(amazon: Amazon, statement: dict[str, Any], expected: list[str]) -> None:
    assert identity(amazon, document(statement)) == [f"policy: Statement[0]: {AT}{one}" for one in expected]


def test_inline_policies_of_a_role_are_read_too(amazon: Amazon) -> None:
    wrong = [{"name": "p", "policy": document(without(ALLOW, "Effect"))}]
    assert amazon.problems(types.ROLE, {"name": "r", "assumeRolePolicy": document(TRUST), "inlinePolicies": wrong}) == [
        (
            f"inlinePolicies[0].policy: Statement[0]: {AT}Syntax errors in policy.\n  got: Effect not set\n"
            "  expected: Allow, Deny"
        )
    ]


def test_a_managed_policy_has_at_most_6144_characters_without_spaces(amazon: Amazon) -> None:
    def policy(characters: int) -> str:
        rest = len(document({**ALLOW, "Sid": ""}).replace(" ", ""))
        return document({**ALLOW, "Sid": "s" * (characters - rest)})

    assert amazon.problems(types.POLICY, {"name": "p", "policy": policy(6144)}) == []
    assert amazon.problems(types.POLICY, {"name": "p", "policy": policy(6145)}) == [
        "policy: LimitExceeded: Cannot exceed quota for PolicySize: 6144, got 6145"
    ]


NOTED = {
    "eks:DescribeClster": "it is not a known action; did you mean eks:describecluster (case does not matter)?",
    "dyanmodb:PutItem": "dyanmodb is not a known service; did you mean dynamodb?",
    "bogus:Everything": "bogus is not a known service",
}


@pytest.mark.parametrize("name", NOTED)
def test_an_action_that_nobody_knows_is_taken_with_a_warning(amazon: Amazon, name: str) -> None:
    assert identity(amazon, document({**ALLOW, "Action": [name, "ec2:Describe*"]})) == []
    assert amazon.messages == [f"warning: policy: Statement[0]: IAM accepts {name}, but {NOTED[name]}"]


def test_actions_are_known_whatever_their_capitals_and_with_wildcards(amazon: Amazon) -> None:
    names = ["EKS:describecluster", "ssm:Get*", "ec2:*", "*", "autoscaling:Describe?utoScalingGroups"]
    assert identity(amazon, document({**ALLOW, "Action": names})) == []
    assert amazon.messages == []


def attached(amazon: Amazon, arn: Any) -> list[str]:
    return amazon.problems(types.ATTACHMENT, {"role": "r", "policyArn": arn})


def test_a_policy_of_amazons_that_the_sandbox_does_not_know_is_noted(amazon: Amazon) -> None:
    assert attached(amazon, WORKER) == attached(amazon, UNKNOWN) == []
    assert attached(amazon, "arn:aws:iam::123456789012:policy/ours") == []
    assert amazon.messages == []
    assert attached(amazon, f"{WORKER}s") == attached(amazon, "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess") == []
    assert amazon.messages == [
        f"warning: the sandbox does not know whether {WORKER}s exists; did you mean {WORKER}?",
        "info: the sandbox does not know whether arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess exists",
    ]


def test_an_arn_that_is_none_is_refused(amazon: Amazon) -> None:
    assert attached(amazon, "AmazonEKSWorkerNodePolicy") == [
        'policyArn: "policyArn" (AmazonEKSWorkerNodePolicy) is an invalid ARN: arn: invalid prefix'
    ]
    assert attached(amazon, "arn:aws:iam:policy/x") == [
        (
            'policyArn: "policyArn" (arn:aws:iam:policy/x) is an invalid ARN: arn: not enough sections, or one that is '
            "malformed"
        )
    ]
