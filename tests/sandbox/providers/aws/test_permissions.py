"""A role without an action is refused, and the error names action, role and the command that adds the action."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpu_ci.aws.limits.eks_api import Account, ApiError, AwsEks
from gpu_common import aws_permissions
from pulumi_sandbox.providers.aws import permissions, types
from pulumi_sandbox.providers.aws.eks.api import AwsServer, EksApi
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.aws.conftest import TEMPLATE, Amazon

ROLE = "deploy-1"
NOTHING = Decoded({})
FULL = aws_permissions.deployer()
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
USER = f"User: arn:aws:sts::123456789012:assumed-role/{ROLE}/sandbox is not authorized to perform: "


def statement(*actions: str, effect: str = "Allow", **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": list(actions), "Resource": "*", **more}


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def grant(amazon: Amazon, *statements: dict[str, Any]) -> None:
    """Run as a role with a policy of these statements. A second call replaces the policy."""
    amazon.world.delete(types.ROLE_POLICY, f"{ROLE}:stack")
    inputs = {"role": ROLE, "policy": document(*statements)}
    amazon.world.insert(Record(types.ROLE_POLICY, f"{ROLE}:stack", "stack", inputs=inputs))
    amazon.cloud.__dict__["caller"] = permissions.Caller(amazon.world, "123456789012", ROLE)


def without(action: str) -> dict[str, Any]:
    return statement(*(one for one in FULL if one != action))


def template(amazon: Amazon) -> Resource:
    return amazon.make(types.LAUNCH_TEMPLATE, "nodes", TEMPLATE)


def create(amazon: Amazon, token: str) -> None:
    other = amazon.resource(token, "other", {**TEMPLATE, "name": "other"}, seed=b"other")
    amazon.lifecycle.create(other)


def update(amazon: Amazon, res: Resource) -> None:
    changed = amazon.resource(
        res.token, res.name, {**res.inputs, "description": "x"}, old_inputs=res.inputs, id=res.id, outputs=res.outputs
    )
    amazon.lifecycle.update(changed, Decoded(res.outputs))


OPERATIONS: dict[str, tuple[str, Callable[[Amazon, Resource], object]]] = {
    "creating": ("ec2:CreateTags", lambda amazon, res: create(amazon, res.token)),
    "updating": ("ec2:ModifyLaunchTemplate", update),
    "deleting": ("ec2:DeleteLaunchTemplate", lambda amazon, res: amazon.delete(res)),
    "reading": (
        "ec2:DescribeLaunchTemplates",
        lambda amazon, res: amazon.lifecycle.read(res.token, res.id, (NOTHING, NOTHING)),
    ),
}


@pytest.mark.parametrize(("action", "act"), OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_without_an_action_is_refused(
    amazon: Amazon, request: pytest.FixtureRequest, action: str, act: Callable[[Amazon, Resource], object]
) -> None:
    made = template(amazon)
    grant(amazon, without(action))
    with pytest.raises(Refused) as refused:
        act(amazon, made)
    name = action.partition(":")[2]
    error, _, hint = str(refused.value).partition("\n")
    assert error.startswith(request.node.callspec.id)
    assert error.endswith(
        f"operation error EC2: {name}, https response error StatusCode: 403, api error UnauthorizedOperation: You are "
        f"not authorized to perform this operation. {USER}{action} because no identity-based policy allows the "
        f"{action} action"
    )
    policy = f'{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":["{action}"],"Resource":"*"}}]}}'
    assert json.loads(policy)
    assert hint == (
        f"  hint: the role {ROLE} lacks the action; to add it: aws iam put-role-policy --role-name {ROLE} "
        f"--policy-name added --policy-document '{policy}'"
    )
    grant(amazon, statement(*FULL))
    act(amazon, made)


@pytest.mark.parametrize(
    ("statements", "permitted"),
    [
        ([statement("EC2:*LaunchTemplate*", "ec2:CreateTags")], True),
        ([statement("*")], True),
        ([statement("*"), statement("ec2:CreateTags", effect="Deny")], False),
        ([statement("*", Resource="arn:aws:ec2:*:*:launch-template/*")], False),
        ([statement("*", Condition={"StringEquals": {"aws:RequestedRegion": "us-east-1"}})], False),
        ([], False),
    ],
    ids=["patterns", "everything", "an explicit deny", "one resource", "a condition", "nothing"],
)
def test_a_statement_counts_without_conditions_and_for_every_resource(
    amazon: Amazon, statements: list[dict[str, Any]], permitted: bool
) -> None:
    grant(amazon, *statements)
    found = amazon.resource(types.LAUNCH_TEMPLATE, "nodes", TEMPLATE)
    assert (list(amazon.cloud.refusals(found)) == []) is permitted


@pytest.mark.parametrize(
    ("pattern", "permitted"), [("arn:*:s3:::mailbox-*", True), ("arn:*:s3:::state-*", False), ("*", True)]
)
def test_a_statement_about_buckets_counts_by_their_names(amazon: Amazon, pattern: str, permitted: bool) -> None:
    grant(amazon, statement("s3:*", Resource=pattern))
    found = amazon.resource("aws:s3/bucket:Bucket", "mailbox", {"bucket": "mailbox-us-east-1"})
    assert (list(amazon.cloud.refusals(found)) == []) is permitted


def test_attached_policies_count_and_other_aws_managed_policies_do_not(amazon: Amazon) -> None:
    grant(amazon)
    found = amazon.resource(types.LAUNCH_TEMPLATE, "nodes", TEMPLATE)
    arn = "arn:aws:iam::123456789012:policy/ours"
    amazon.world.insert(Record(types.POLICY, arn, "ours", inputs={"policy": document(statement("ec2:*"))}))
    for number, (attached, permitted) in enumerate(
        [("arn:aws:iam::aws:policy/AmazonEC2FullAccess", False), ("arn:aws:iam::aws:policy/AdministratorAccess", True),
         (arn, True)]
    ):  # fmt: skip
        inputs = {"role": ROLE, "policyArn": attached}
        amazon.world.insert(Record(types.ATTACHMENT, str(number), "attached", inputs=inputs))
        assert (list(amazon.cloud.refusals(found)) == []) is permitted, attached
        amazon.world.delete(types.ATTACHMENT, str(number))


def test_the_variable_names_a_role_by_its_arn_or_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, name in {"": "", ROLE: ROLE, f"arn:aws:iam::123456789012:role/{ROLE}": ROLE}.items():
        monkeypatch.setenv("PULUMI_SANDBOX_AWS_ROLE", value)
        assert permissions.role_of_environment() == name


def test_a_lookup_needs_its_action(amazon: Amazon) -> None:
    token, arguments = "aws:eks/getCluster:getCluster", {"name": "ci"}
    grant(amazon, without("eks:DescribeCluster"))
    with pytest.raises(
        Refused, match=r"api error AccessDeniedException: User: .* perform: eks:DescribeCluster because"
    ):
        amazon.cloud.invoke(token, arguments)
    grant(amazon, statement(*FULL))
    assert amazon.cloud.invoke(token, arguments)[0]["name"] == "ci"


def test_a_type_without_known_actions_is_permitted_and_says_so(amazon: Amazon) -> None:
    grant(amazon)
    queue = amazon.resource("aws:sqs/queue:Queue", "jobs", {})
    assert list(amazon.cloud.refusals(queue)) == []
    assert f"info: aws:sqs/queue:Queue: its actions are not known, so {ROLE} may change it" in amazon.messages


def test_the_eks_api_needs_its_actions(amazon: Amazon, monkeypatch: pytest.MonkeyPatch) -> None:
    grant(amazon, without("eks:UpdateNodegroupConfig"))
    server = AwsServer(0, EksApi(amazon.world, amazon.cloud.caller))
    for name, value in {"ENDPOINT_URL": f"http://127.0.0.1:{server.port}", "MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "sandbox")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sandbox")
    try:
        with pytest.raises(ApiError) as error:
            AwsEks(Account("us-east-1")).set_most("ci", "l4", 2)
        assert error.value.code == "AccessDeniedException"
        assert "eks:UpdateNodegroupConfig" in str(error.value)
        # The next call has its action, so the error is that of a missing group.
        with pytest.raises(ApiError, match="No node group found for name: l4"):
            AwsEks(Account("us-east-1")).sizes("ci", "l4")
    finally:
        server.close()
