"""Planted faults of node groups have messages of AWS that a public source quotes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.aws.conftest import NODE_GROUP, TEMPLATE, Amazon, refused

RUNNING = {**NODE_GROUP, "scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 4}}
FAILED = (
    "waiting for EKS Node Group (ci:l4) create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last error: "
    "eks-l4: AsgInstanceLaunchFailures: "
)
NO_SPOT = (
    "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request "
    "configuration. Please adjust your request and try again. Launching EC2 instance failed."
)


def sold_out(kind: str, zone: str) -> str:
    others = ", ".join(f"us-east-1{letter}" for letter in "abcdef" if not zone.endswith(letter))
    return (
        f"Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient "
        f"{kind} capacity in the Availability Zone you requested ({zone}). Our system will be working on provisioning "
        f"additional capacity. You can currently get {kind} capacity by not specifying an Availability Zone in your "
        f"request or choosing {others}. Launching EC2 instance failed."
    )


def test_a_stockout_strikes_the_zone_of_the_subnet_and_the_next_try_succeeds(account: Amazon) -> None:
    account.world.add_fault(Fault("stockout"))
    assert refused(account, types.NODE_GROUP, RUNNING) == FAILED + sold_out("g6.xlarge", "us-east-1a")
    assert account.world.find(types.NODE_GROUP) == []
    assert account.make(types.NODE_GROUP, "l4", RUNNING).id == "ci:l4"


def test_a_group_without_machines_asks_for_none_and_meets_no_stockout(account: Amazon) -> None:
    account.world.add_fault(Fault("stockout", times=0))
    account.world.add_fault(Fault("quota", times=0))
    group = account.make(types.NODE_GROUP, "l4", NODE_GROUP)
    assert account.change(group, labels={"team": "ci"}).outputs["status"] == "ACTIVE"
    assert [fault.kind for fault in account.world.faults()] == ["stockout", "quota"]


def test_a_stockout_in_one_zone_strikes_groups_of_that_zone_alone(account: Amazon) -> None:
    account.world.add_fault(Fault("stockout", zone="us-east-1b", times=0))
    assert account.make(types.NODE_GROUP, "l4", RUNNING).id == "ci:l4"
    both = {**RUNNING, "subnetIds": ["subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002"]}
    words = refused(account, types.NODE_GROUP, {**both, "nodeGroupName": "two"})
    assert words == FAILED.replace("l4", "two") + sold_out("g6.xlarge", "us-east-1b")


def test_the_zone_of_a_subnet_that_a_stack_made_is_its_own(account: Amazon) -> None:
    network = account.make(types.VPC, "v", {"cidrBlock": "10.0.0.0/16"}).id
    subnet = account.make(
        types.SUBNET, "s", {"vpcId": network, "cidrBlock": "10.0.0.0/24", "availabilityZone": "us-east-1d"}
    )
    account.world.add_fault(Fault("stockout"))
    words = refused(account, types.NODE_GROUP, {**RUNNING, "subnetIds": [subnet.id]})
    assert words == FAILED + sold_out("g6.xlarge", "us-east-1d")


SPOT: dict[str, tuple[str, str]] = {
    "stockout": ("stockout", NO_SPOT),
    "quota": (
        "quota",
        (
            "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded. "
            "Launching EC2 instance failed."
        ),
    ),
}


@pytest.mark.parametrize(("kind", "words"), SPOT.values(), ids=SPOT)
def test_spot_machines_are_refused_in_words_of_their_own(account: Amazon, kind: str, words: str) -> None:
    account.world.add_fault(Fault(kind))
    assert refused(account, types.NODE_GROUP, {**RUNNING, "capacityType": "SPOT"}) == FAILED + words


def test_a_quota_of_nothing_is_met_before_the_stock(account: Amazon) -> None:
    account.world.add_fault(Fault("stockout"))
    account.world.add_fault(Fault("quota"))
    assert refused(account, types.NODE_GROUP, RUNNING) == FAILED + (
        "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity than your "
        "current vCPU limit of 0 allows for the instance bucket that the specified instance type belongs to. Please "
        "visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit. Launching EC2 "
        "instance failed."
    )


def test_the_type_that_is_sold_out_is_the_templates_where_that_names_it(account: Amazon) -> None:
    template = account.make(types.LAUNCH_TEMPLATE, "t", {**TEMPLATE, "instanceType": "g6e.xlarge"})
    account.world.add_fault(Fault("stockout"))
    inputs: dict[str, Any] = {**RUNNING, "instanceTypes": None, "launchTemplate": {"id": template.id, "version": "1"}}
    assert refused(account, types.NODE_GROUP, inputs) == FAILED + sold_out("g6e.xlarge", "us-east-1a")


def test_a_node_group_that_is_busy_is_not_deleted(account: Amazon) -> None:
    group = account.make(types.NODE_GROUP, "l4", NODE_GROUP)
    account.world.add_fault(Fault("busy"))
    with pytest.raises(Refused, match=re.escape("deleting EKS Node Group (ci:l4): operation error EKS")):
        account.delete(group)
    account.delete(group)
    assert account.world.find(types.NODE_GROUP) == []
