"""The runner manager on Amazon ECS: its process, its roles, and what its managed policy allows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_ci.aws.runner_manager import RunnerManager
from gpu_common import aws_permissions
from gpu_manager.suppliers.ec2.supplier import MANAGER

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import CALLS, COMPUTED, ECS_WIRING, build


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    return deploy(lambda: build(RunnerManager, "manager"), computed=COMPUTED, calls=CALLS)


def test_another_configuration_is_another_process() -> None:
    def labels(text: str) -> Any:
        wiring = ECS_WIRING | {"configuration": text, "mailbox_bucket": "mailbox-1"}
        made: Any = RunnerManager.ARGS
        args = made(**RunnerManager.EXAMPLE, **wiring)
        found = deploy(lambda: RunnerManager("manager", args), computed=COMPUTED, calls=CALLS)
        [container] = json.loads(found.one("ecs/taskDefinition:TaskDefinition").inputs["containerDefinitions"])
        return container["dockerLabels"]

    assert labels('{"a": 1}') == labels('{"a": 1}') != labels('{"a": 2}')


def test_the_policy_allows_a_manager_its_own_machines_and_objects() -> None:
    own = "${aws:PrincipalTag/gpu-ci:manager}"
    assert aws_permissions.MANAGER_TAG == MANAGER
    by_action: dict[str, list[dict[str, Any]]] = {}
    for each in aws_permissions.manager_statements():
        for action in each["Action"]:
            by_action.setdefault(action, []).append(each)
    assert set(by_action) == {
        "ec2:CreateTags", "ec2:DescribeInstances", "ec2:DescribeLaunchTemplateVersions",
        "ec2:DescribeSpotInstanceRequests", "ec2:ModifyInstanceAttribute", "ec2:RunInstances", "ec2:StartInstances",
        "ec2:StopInstances", "ec2:TerminateInstances", "s3:DeleteObject", "s3:GetObject", "s3:ListBucket",
        "s3:PutObject", "secretsmanager:GetSecretValue",
    }  # fmt: skip
    for action in ("ModifyInstanceAttribute", "StartInstances", "StopInstances", "TerminateInstances"):
        [changes] = by_action[f"ec2:{action}"]
        assert changes["Resource"] == ["arn:*:ec2:*:*:instance/*"]
        assert changes["Condition"] == {"StringEquals": {f"aws:ResourceTag/{MANAGER}": own}}
    starts = {
        resource.split(":")[5]: each.get("Condition")
        for each in by_action["ec2:RunInstances"]
        for resource in each["Resource"]
    }
    assert starts["instance/*"] == {"StringEquals": {f"aws:RequestTag/{MANAGER}": own}}
    assert starts["launch-template/*"] == {"StringLike": {"aws:ResourceTag/gpu-ci-pool": "*"}}
    [objects] = by_action["s3:PutObject"]
    assert objects["Resource"] == f"arn:*:s3:::mailbox-*/{own}/*"
    assert [each for each, found in by_action.items() if any(one["Resource"] == "*" for one in found)] == [
        "ec2:DescribeInstances", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeSpotInstanceRequests",
    ]  # fmt: skip


def test_the_task_definition_is_one_that_aws_accepts(deployed: Deployment) -> None:
    """Its judge is the request's model in botocore."""
    from botocore.session import get_session  # type: ignore[import-untyped]
    from botocore.validate import ParamValidator  # type: ignore[import-untyped]

    task = deployed.one("ecs/taskDefinition:TaskDefinition").inputs
    request = {
        **{name: task[name] for name in ("family", "networkMode", "requiresCompatibilities", "cpu", "memory")},
        "containerDefinitions": json.loads(task["containerDefinitions"]),
    }
    model = get_session().get_service_model("ecs").operation_model("RegisterTaskDefinition")
    report = ParamValidator().validate(request, model.input_shape)
    assert not report.has_errors(), report.generate_report()
