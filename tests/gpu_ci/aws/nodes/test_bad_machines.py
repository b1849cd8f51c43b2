"""The messages for node groups whose machines, market or zones AWS would reject."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_ci.aws.node_groups import BLOCK, EFA, RESERVATION, SUBNET_A, problems


@pytest.mark.parametrize(
    ("changes", "path", "text", "hint"),
    [
        (
            {"instance_types": ["g6.xlrge"]},
            "instanceTypes[0]",
            "is not an EC2 instance type with an NVIDIA GPU",
            "did you mean g6.xlarge",
        ),
        (
            {"instance_types": ["t3.medium"]},
            "instanceTypes[0]",
            "is not an EC2 instance type with an NVIDIA GPU",
            "such as g6.xlarge",
        ),
        (
            {"instance_types": ["g2-standard-8"]},
            "instanceTypes[0]",
            "is not an EC2 instance type with an NVIDIA GPU",
            "a Compute Engine machine type belongs in machineType of a pool of the kind gce-runners",
        ),
        (
            {"instance_types": ["A10G"]},
            "instanceTypes[0]",
            "is not an EC2 instance type with an NVIDIA GPU",
            "such as g5.xlarge: A10G is a GPU",
        ),
        (
            {"instance_types": ["g4ad.xlarge"]},
            "instanceTypes[0]",
            "g4ad.xlarge has a Radeon Pro V520, an AMD GPU: it has no NVIDIA driver and no CUDA",
            "such as g4dn.xlarge",
        ),
        (
            {"instance_types": ["p2.xlarge"]},
            "instanceTypes[0]",
            "p2.xlarge has a K80, which is retired: current drivers and torch do not support it",
            "such as g4dn.xlarge",
        ),
        ({"instance_types": ["g6.xlarge", "g6.xlarge"]}, "instanceTypes[1]", "is a duplicate", "remove it"),
        (
            {"instance_types": ["g6.xlarge", "g5.xlarge"]},
            "instanceTypes[1]",
            "has 1 A10G (x86_64), but g6.xlarge has 1 L4 (x86_64)",
            "such as g6.2xlarge, g6.4xlarge, gr6.4xlarge, g6.8xlarge, gr6.8xlarge, g6.16xlarge",
        ),
        (
            {"instance_types": ["g6.xlarge", "g6.12xlarge"]},
            "instanceTypes[1]",
            "has 4 L4 (x86_64), but g6.xlarge has 1 L4 (x86_64)",
            "such as g6.2xlarge, g6.4xlarge, gr6.4xlarge, g6.8xlarge, gr6.8xlarge, g6.16xlarge",
        ),
        (
            {"instance_types": ["g4dn.xlarge", "g5g.xlarge"]},
            "instanceTypes[1]",
            "has 1 T4G (arm64), but g4dn.xlarge has 1 T4 (x86_64)",
            "such as g4dn.2xlarge, g4dn.4xlarge, g4dn.8xlarge, g4dn.16xlarge",
        ),
        (
            {"instance_types": ["g6.2xlarge", "g6.xlarge"]},
            "instanceTypes[1]",
            "is smaller than g6.2xlarge, the first type, whose size Cluster Autoscaler assumes for every node",
            "list the smallest type first",
        ),
        (
            {"instance_types": ["gr6.4xlarge", "g6.4xlarge"]},
            "instanceTypes[1]",
            "is smaller than gr6.4xlarge, the first type, whose size Cluster Autoscaler assumes for every node",
            "list the smallest type first",
        ),
        (
            {"instance_types": ["g6.4xlarge", "g6f.4xlarge"]},
            "instanceTypes[1]",
            "has 0.5 L4 (x86_64), but g6.4xlarge has 1 L4 (x86_64)",
            "such as g6.xlarge, g6.2xlarge, gr6.4xlarge, g6.8xlarge, gr6.8xlarge, g6.16xlarge",
        ),
        (
            {"instance_types": ["p3.2xlarge"]},
            "instanceTypes[0]",
            "us-east-1 has no p3.2xlarge",
            "the nearest regions with it: us-gov-west-1",
        ),
        (
            {"instance_types": ["g6.xlarge"], "region": "us-west-1", "subnets": {"us-west-1a": SUBNET_A}},
            "instanceTypes[0]",
            "us-west-1 has no g6.xlarge",
            "the nearest regions with it: us-west-2, us-east-1, us-east-2",
        ),
        (
            {"region": "eusc-de-east-1", "subnets": {"eusc-de-east-1a": SUBNET_A}},
            "region",
            "is in an AWS partition that this package does not support",
            "such as eu-central-1",
        ),
        ({"market": "capacity-block"}, "market", "g6.2xlarge is not available for this market", "use standard or spot"),
        (
            {"instance_types": ["p6e-gb200.36xlarge"]},
            "market",
            "p6e-gb200.36xlarge is not available for this market",
            "use capacity-block",
        ),
        (
            {
                **BLOCK,
                "instance_types": ["p5e.48xlarge", "p5en.48xlarge"],
                "region": "us-west-2",
                "subnets": {"us-west-2a": SUBNET_A},
                "zones": None,
            },
            "market",
            "a reservation is for one instance type",
            "instanceTypes: [p5e.48xlarge]",
        ),
        (
            {**BLOCK, "capacity_reservation_id": None},
            "capacityReservationId",
            "is missing; market: capacity-block requires it",
            "such as cr-0123456789abcdef0",
        ),
        (
            {"capacity_reservation_id": RESERVATION},
            "capacityReservationId",
            "cannot be used by spot nodes",
            "remove it, or use market: capacity-block",
        ),
        (
            {"market": "standard", "capacity_reservation_id": RESERVATION},
            "capacityReservationId",
            "cannot be used by standard nodes",
            "remove it, or use market: capacity-block",
        ),
        (
            {**BLOCK, "zones": None},
            "zones",
            "a reservation is in one zone",
            "zones: [us-east-1a], if that is the zone of the reservation",
        ),
        (
            {**BLOCK, "zones": ["us-east-1a", "us-east-1b"]},
            "zones",
            "a reservation is in one zone",
            "zones: [us-east-1a], if that is the zone of the reservation",
        ),
        ({"zones": ["us-east-1c"]}, "zones[0]", "has no subnet", "one of us-east-1a, us-east-1b"),
        ({"zones": ["us-west-2a"]}, "zones[0]", "is in another region", "a zone of us-east-1"),
        ({"zones": ["us-east-1-dfw-2a"]}, "zones[0]", "is not an availability zone", "such as us-east-1a"),
        ({"zones": ["us-east-1"]}, "zones[0]", "is not an availability zone", "such as us-east-1a"),
        ({"zones": ["us-east-1a", "us-east-1a"]}, "zones[1]", "is a duplicate", "remove it"),
        ({"subnets": {"us-west-2a": SUBNET_A}}, "subnets.us-west-2a", "is in another region", "a zone of us-east-1"),
        (
            {"subnets": {"us-east-1-dfw-2a": SUBNET_A}},
            "subnets.us-east-1-dfw-2a",
            "is not an availability zone",
            "such as us-east-1a",
        ),
        (
            {"offerings": {"g6.2xlarge": ["us-east-1a", "us-east-1b"]}},
            "zones",
            "offerings has no entry for g6.4xlarge, gr6.4xlarge",
            "look up every type of instanceTypes",
        ),
        (
            {"offerings": {n: ["us-east-1a"] for n in ("g6.2xlarge", "g6.4xlarge", "gr6.4xlarge")}},
            "zones",
            "us-east-1b does not offer g6.2xlarge, g6.4xlarge, gr6.4xlarge",
            "zones: [us-east-1a]",
        ),
        (
            {
                "zones": ["us-east-1b"],
                "offerings": {
                    "g6.2xlarge": ["us-east-1a"],
                    "g6.4xlarge": ["us-east-1b"],
                    "gr6.4xlarge": ["us-east-1b"],
                },
            },
            "zones[0]",
            "us-east-1b does not offer g6.2xlarge",
            "use other instance types: none of these zones offers all of them",
        ),
        (
            {"efa": True, "zones": ["us-east-1a"]},
            "efa",
            "is not supported by g6.2xlarge, g6.4xlarge, gr6.4xlarge",
            "such as g6.8xlarge, gr6.8xlarge, g6.16xlarge",
        ),
        ({**EFA, "instance_types": ["g6f.xlarge"]}, "efa", "is not supported by g6f.xlarge", "remove efa"),
        ({**EFA, "zones": None}, "efa", "requires one zone, but the group has more", "zones: [us-east-1a]"),
        (
            {**EFA, "vpc_id": None},
            "vpcId",
            "is missing; efa requires its own security group",
            "use the value from the cluster's vpcConfig",
        ),
        (
            {**EFA, "cluster_security_group_id": None},
            "clusterSecurityGroupId",
            "is missing; efa requires its own security group",
            "use the value from the cluster's vpcConfig",
        ),
        (
            {
                **EFA,
                "instance_types": ["p5e.48xlarge", "p5en.48xlarge"],
                "region": "us-west-2",
                "subnets": {"us-west-2a": SUBNET_A},
                "zones": ["us-west-2a"],
            },
            "efa",
            "the types have different numbers of EFA interfaces",
            "use one instance type",
        ),
    ],
)
def test_one_mistake_is_one_problem_with_one_hint(changes: dict[str, Any], path: str, text: str, hint: str) -> None:
    (found,) = problems(**changes)
    assert (found.path, found.text, found.hint) == (path, text, hint)
