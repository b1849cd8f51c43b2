"""The steps of `gpu-ci doctor` about pools on EC2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli.doctor import eks
from gpu_ci.cli.doctor.deployment import Deployment
from gpu_ci.cli.doctor.steps import ask_all
from gpu_ci.cli.stack_files import parse
from gpu_ci.kinds.ec2.doctor import STEPS

from tests.gpu_ci.aws.ec2.test_manager_entry import POOL, stack

ROUTE = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1"}
LIMIT = {"QuotaCode": "L-3819A6DF", "Value": 16.0, "ServiceCode": "ec2"}
ANSWERS: dict[str, Any] = {
    "get_caller_identity": {"Account": "123456789012"},
    "get_parameter": {"Parameter": {"Value": "ami-0123456789abcdef0"}},
    "describe_images": {"Images": [{"Name": "ubuntu", "RootDeviceName": "/dev/sda1"}]},
    "list_service_quotas": {"Quotas": [LIMIT]},
    "describe_route_tables": {"RouteTables": [{"Routes": [ROUTE]}]},
}


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        ("", {}),
        ("images", {"describe_images": {"Images": [{"Name": "al2023", "RootDeviceName": "/dev/xvda"}]}}),
        ("quotas", {"list_service_quotas": {"Quotas": [{**LIMIT, "Value": 8.0}]}}),
        ("subnets", {"describe_route_tables": {"RouteTables": [{"Routes": [{**ROUTE, "NatGatewayId": ""}]}]}}),
    ],
)  # fmt: skip
def test_a_step_fails_if_aws_answers_that_the_pools_cannot_work(
    step: str, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    regions: set[str] = set()

    class Client:
        def __init__(self, service: str, account: Any) -> None:
            regions.add(account.region)

        def call(self, operation: str, **arguments: Any) -> Any:
            return {**ANSWERS, **answer}[operation]

    monkeypatch.setattr(eks, "connect", Client)
    config = stack(a10g={**POOL, "ladder": [{"zones": ["us-east-2a"]}]})
    file = parse(Path("Pulumi.dev.yaml"), json.dumps({"config": config}))
    found = {each.step.name: each.finding for each in ask_all(STEPS, Deployment(file, lambda: None))}  # type: ignore[arg-type,return-value]
    assert {name for name, each in found.items() if each.status != "pass"} == ({step} - {""})
    assert not step or found[step].fix
    assert regions == {"us-east-1", "us-east-2"}
