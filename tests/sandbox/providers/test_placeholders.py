"""Placeholders: the outputs of types whose outputs the sandbox does not emulate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types as aws_types
from pulumi_sandbox.providers.github.types import EMULATED
from pulumi_sandbox.providers.placeholders import MARK, Placeholders
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.sdk.types import Type
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.aws.conftest import NODE_GROUP, Amazon
from tests.sandbox.providers.gcp.conftest import Google
from tests.sandbox.providers.github.conftest import Hub

BALANCER = "aws:lb/loadBalancer:LoadBalancer"
ISSUE = "github:index/issue:Issue"


@pytest.fixture(scope="module")
def packages() -> dict[str, Placeholders]:
    return {one: Placeholders(Shapes(one)) for one in ("aws", "gcp", "github")}


@pytest.fixture
def amazon(tmp_path: Path) -> Iterator[Amazon]:
    made = Amazon(tmp_path / "aws", settings="exists: {aws: [cluster/ci, role/eks-node]}\n")
    yield made
    made.world.close()


@pytest.fixture
def google(tmp_path: Path) -> Iterator[Google]:
    made = Google(tmp_path / "gcp")
    yield made
    made.world.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    made = Hub(tmp_path / "github")
    yield made
    made.world.close()


def without_digest(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_digest(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_digest(one) for one in value]
    return value[: value.rindex("-")] if isinstance(value, str) else value


def test_a_missing_output_has_a_value_of_its_type_that_names_itself(packages: dict[str, Placeholders]) -> None:
    made = packages["aws"].missing(BALANCER, "urn:one", ("arn", "region"))
    assert made["dnsName"] == f"{MARK}-dns-name-46d0d1e"
    chosen = ("internal", "secondaryIpsAutoAssignedPerSubnet", "tagsAll", "subnetMappings", "subnets")
    assert without_digest({name: made[name] for name in chosen}) == {
        "internal": False,
        "secondaryIpsAutoAssignedPerSubnet": 1,
        "tagsAll": {},
        # A program may set both lists. The first one has objects.
        "subnetMappings": [],
        "subnets": [f"{MARK}-subnets"],
    }
    # Present, optional.
    assert {"arn", "region", "idleTimeout", "accessLogs"} & made.keys() == set()


def fits(placeholders: Placeholders, kind: Type, value: Any) -> bool:
    match kind.kind:
        case "string":
            return isinstance(value, str) and value.startswith(f"{MARK}-")
        case "boolean":
            return value is False
        case "integer" | "number":
            return isinstance(value, int | float) and value == 1
        case "map":
            return bool(value == {})
        case "list":
            return isinstance(value, list) and all(fits(placeholders, kind.of[0], one) for one in value)
        case "object":
            fields = placeholders.shapes.object(kind.name).properties
            return isinstance(value, dict) and all(
                fits(placeholders, fields[name].type, one) for name, one in value.items()
            )
        case "union":
            return any(fits(placeholders, one, value) for one in kind.of)
        case "enum":
            return value in placeholders.shapes.enum(kind.name)
    return False


@pytest.mark.parametrize(("package", "step", "count"), [("aws", 90, 20), ("gcp", 80, 19), ("github", 7, 13)])
def test_types_from_all_over_an_sdk_get_a_fitting_value_for_every_output(
    packages: dict[str, Placeholders], package: str, step: int, count: int
) -> None:
    placeholders, types = packages[package], 0
    for token in sorted(packages[package].shapes.tokens)[::step]:
        made, secret = placeholders.missing(token, "urn:one", ()), placeholders.shapes.shape(token).secret_outputs
        kinds = placeholders.never_empty(token)
        assert made.keys() == kinds.keys() - secret, token
        assert [name for name, value in made.items() if not fits(placeholders, kinds[name], value)] == [], token
        types += 1
    assert types == count


def test_a_create_and_an_update_fill_what_the_program_and_the_sandbox_leave_empty(amazon: Amazon) -> None:
    made = amazon.make(BALANCER, "web", {"loadBalancerType": "network"})
    assert made.outputs["loadBalancerType"] == "network"
    assert made.outputs["arn"].startswith("arn:aws:lb:us-east-1:123456789012:")
    assert made.outputs["dnsName"].startswith(f"{MARK}-dns-name-")
    assert amazon.world.find(BALANCER)[0].outputs["dnsName"] == made.outputs["dnsName"]
    changed = amazon.change(made, internal=True)
    assert changed.outputs["internal"] is True
    assert changed.outputs["dnsName"] == made.outputs["dnsName"]


def test_a_preview_does_not_know_the_values(amazon: Amazon) -> None:
    res = amazon.resource(BALANCER, "web", {}, preview=True)
    assert amazon.lifecycle.create(res).values["dnsName"] is UNKNOWN


def test_types_that_the_sandbox_emulates_have_no_placeholder(amazon: Amazon, hub: Hub) -> None:
    group = amazon.make(aws_types.NODE_GROUP, "l4", NODE_GROUP)
    assert not any(MARK in str(one) for one in group.outputs.values())
    assert all(hub.cloud.emulates(token) for token in EMULATED)
    assert not hub.cloud.emulates(ISSUE)


def test_a_placeholder_as_an_input_breaks_no_rule_and_no_reference(amazon: Amazon) -> None:
    vpc = amazon.make("aws:ec2/vpc:Vpc", "main", {"cidrBlock": "10.0.0.0/16"})
    marked = vpc.outputs["defaultSecurityGroupId"]
    role = f"arn:aws:iam::123456789012:role/{marked}"
    from_vpc = {**NODE_GROUP, "subnetIds": [marked], "nodeRoleArn": role, "instanceTypes": [marked]}
    assert amazon.problems(aws_types.NODE_GROUP, from_vpc) == []
    made = amazon.make(aws_types.NODE_GROUP, "l4", from_vpc)
    assert made.inputs["subnetIds"] == [marked]
    missing = {"nodeGroupName": "l5", "subnetIds": [marked, "subnet-0a1b2c3d4e5f6ffff"]}
    with pytest.raises(Refused, match="The subnet ID 'subnet-0a1b2c3d4e5f6ffff' does not exist"):
        amazon.make(aws_types.NODE_GROUP, "l5", {**from_vpc, **missing})
