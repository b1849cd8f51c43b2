"""Planted faults of node groups have messages of AWS that a public source quotes."""

from __future__ import annotations

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.aws.conftest import NODE_GROUP, Amazon, refused

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


def test_the_zone_of_a_subnet_that_a_stack_made_is_its_own(account: Amazon) -> None:
    network = account.make(types.VPC, "v", {"cidrBlock": "10.0.0.0/16"}).id
    subnet = account.make(
        types.SUBNET, "s", {"vpcId": network, "cidrBlock": "10.0.0.0/24", "availabilityZone": "us-east-1d"}
    )
    account.world.add_fault(Fault("stockout"))
    words = refused(account, types.NODE_GROUP, {**RUNNING, "subnetIds": [subnet.id]})
    assert words == FAILED + sold_out("g6.xlarge", "us-east-1d")


def test_a_quota_of_nothing_is_met_before_the_stock(account: Amazon) -> None:
    account.world.add_fault(Fault("stockout"))
    account.world.add_fault(Fault("quota"))
    assert refused(account, types.NODE_GROUP, RUNNING) == FAILED + (
        "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity than your "
        "current vCPU limit of 0 allows for the instance bucket that the specified instance type belongs to. Please "
        "visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit. Launching EC2 "
        "instance failed."
    )
