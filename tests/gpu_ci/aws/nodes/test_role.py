"""The identity of nodes, and the names AWS's partitions have for what it is made of."""

from __future__ import annotations

import json

import pytest

from tests.gpu_ci.aws.node_groups import EFA, SUBNET_A, group


def test_the_role_may_join_and_pull_and_nothing_else() -> None:
    deployment = group()
    assert [row.inputs["policyArn"] for row in deployment.of(":RolePolicyAttachment")] == [
        "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
        "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
    ]
    assert json.loads(deployment.one(":Role").inputs["assumeRolePolicy"]) == {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
    assert {"inlinePolicies", "managedPolicyArns"} & set(deployment.one(":Role").inputs) == set()


def test_more_rights_are_there_only_where_they_are_asked_for() -> None:
    rows = group(cni_policy=True, session_manager=True).of(":RolePolicyAttachment")
    assert [row.inputs["policyArn"].rpartition("/")[2] for row in rows] == [
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonEKS_CNI_Policy",
        "AmazonSSMManagedInstanceCore",
    ]


def test_nodes_come_after_the_rights_to_join() -> None:
    deployment = group()
    attached = {row.urn for row in deployment.of(":RolePolicyAttachment")}
    assert len(attached) == 2
    assert attached <= set(deployment.one(":NodeGroup").request.dependencies)


@pytest.mark.parametrize(
    ("region", "partition", "service"),
    [("cn-north-1", "aws-cn", "ec2.amazonaws.com.cn"), ("us-gov-west-1", "aws-us-gov", "ec2.amazonaws.com")],
)
def test_other_partitions_have_their_own_names(region: str, partition: str, service: str) -> None:
    deployment = group(region=region, subnets={f"{region}a": SUBNET_A}, instance_types=["g4dn.xlarge"])
    assert {row.inputs["policyArn"].split(":")[1] for row in deployment.of(":RolePolicyAttachment")} == {partition}
    trust = json.loads(deployment.one(":Role").inputs["assumeRolePolicy"])["Statement"][0]
    assert trust["Principal"] == {"Service": service}


def test_everything_is_in_the_clusters_region_despite_another_region_of_the_provider() -> None:
    rows = [row for row in group(**EFA).rows if row.type.startswith("aws:") and ":iam/" not in row.type]
    assert [row.name for row in rows if row.inputs.get("region") != "us-east-1"] == []
    assert len(rows) == 16
