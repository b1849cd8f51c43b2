"""EFA: what nodes need to reach each other faster than over TCP."""

from __future__ import annotations

import gpu_catalog as catalog
import pytest
from gpu_ci.aws.nodes.launch_template import cards

from tests.gpu_ci.aws.node_groups import BLOCK, EFA, group, scaling_tags, template

GROUPS = ["sg-0123456789abcdef0", "l4-efa-id"]


def test_the_first_interface_has_an_address_and_the_others_are_for_efa_alone() -> None:
    found = template(**EFA)["networkInterfaces"]
    assert [(card["networkCardIndex"], card["deviceIndex"], card["interfaceType"]) for card in found] == [
        (0, 0, "interface"),
        (0, 1, "efa-only"),
        (1, 0, "efa-only"),
        (2, 0, "efa-only"),
        (3, 0, "efa-only"),
    ]
    assert {card["associatePublicIpAddress"] for card in found} == {"false"}
    assert {card["deleteOnTermination"] for card in found} == {"true"}


def test_every_interface_is_in_the_clusters_security_group_too() -> None:
    """EKS adds it to no node whose template names others."""
    found = template(**EFA)["networkInterfaces"]
    assert [card["securityGroups"] for card in found] == [GROUPS] * 5
    assert {"networkInterfaces", "vpcSecurityGroupIds"} & set(template()) == set()


def test_nodes_may_send_each_other_everything_out_as_well_as_in() -> None:
    deployment = group(**EFA)
    own = deployment.one("ec2/securityGroup:SecurityGroup")
    assert own.inputs["vpcId"] == "vpc-0123456789abcdef0"
    assert {"ingress", "egress"} & set(own.inputs) == set()
    rules = [
        deployment.one("vpc/securityGroupIngressRule:SecurityGroupIngressRule"),
        deployment.one("vpc/securityGroupEgressRule:SecurityGroupEgressRule"),
    ]
    for rule in rules:
        assert rule.inputs["securityGroupId"] == rule.inputs["referencedSecurityGroupId"] == "l4-efa-id"
        assert rule.inputs["ipProtocol"] == "-1"
        assert {"cidrIpv4", "cidrIpv6", "prefixListId"} & set(rule.inputs) == set()


def test_nodes_are_close_together() -> None:
    deployment = group(**EFA)
    assert deployment.one(":PlacementGroup").inputs["strategy"] == "cluster"
    assert deployment.one(":LaunchTemplate").inputs["placement"] == {"groupName": "l4-together-1"}
    assert len(deployment.one(":NodeGroup").inputs["subnetIds"]) == 1


def test_a_capacity_block_needs_no_placement_group() -> None:
    deployment = group(**{**EFA, **BLOCK})
    assert deployment.of(":PlacementGroup") == []
    assert "placement" not in deployment.one(":LaunchTemplate").inputs
    assert len(deployment.one(":LaunchTemplate").inputs["networkInterfaces"]) == 33


def test_an_autoscaler_knows_of_the_interfaces_before_there_is_a_node() -> None:
    key = "k8s.io/cluster-autoscaler/node-template/resources/vpc.amazonaws.com/efa"
    assert scaling_tags(group(**EFA))[key] == "4"
    assert key not in scaling_tags(group())


def test_everything_of_it_is_tagged_and_named_after_the_group() -> None:
    tags = {"gpu-ci-pool": "l4", "team": "ml"}
    more = [row for row in group(**EFA).rows if row.name.startswith(("l4-efa", "l4-together"))]
    assert {row.name: row.inputs["tags"] for row in more} == dict.fromkeys(
        ("l4-efa", "l4-efa-in", "l4-efa-out", "l4-together"), tags
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [("g6e.24xlarge", (0, 1)), ("p5.48xlarge", tuple(range(32))), ("p6-b300.48xlarge", tuple(range(1, 17))),
     ("p6e-gb200.36xlarge", (1, 5, 9, 13))],
)  # fmt: skip
def test_there_is_one_interface_on_each_card_that_has_efa(name: str, expected: tuple[int, ...]) -> None:
    assert cards(catalog.machine(name)) == expected
