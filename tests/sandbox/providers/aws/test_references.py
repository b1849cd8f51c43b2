"""A node group and related resources refer to other resources, which must exist and fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.aws.conftest import NODE_GROUP, ROLE_ARN, TEMPLATE, Amazon, creating, listing, refused

SUBNET = NODE_GROUP["subnetIds"][0]


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_node_group_of_what_is_listed_and_looked_up_comes_up(account: Amazon) -> None:
    assert account.make(types.NODE_GROUP, "l4", NODE_GROUP).id == "ci:l4"


MISSING = {
    "the cluster": (
        {"clusterName": "other"},
        creating("No cluster found for name: other.", "ResourceNotFoundException", 404).replace("ci:l4", "other:l4")
        + listing("cluster/other"),
    ),
    "a subnet": (
        {"subnetIds": [SUBNET, "subnet-1"]},
        creating("The subnet ID 'subnet-1' does not exist") + listing("subnet-1"),
    ),
    "the role": (
        {"nodeRoleArn": "arn:aws:iam::123456789012:role/ci/gone"},
        creating("The role with name gone cannot be found.") + listing("role/ci/gone"),
    ),
    "the template": (
        {"launchTemplate": {"id": "lt-1", "version": "1"}},
        creating("The specified launch template, with template ID lt-1, does not exist.") + listing("lt-1"),
    ),
    "the template by its name": (
        {"launchTemplate": {"name": "gone", "version": "1"}},
        creating("The specified launch template, with template name gone, does not exist.")
        + listing("launch-template/gone"),
    ),
    "a group of those that may log in": (
        {"remoteAccess": {"ec2SshKey": "me", "sourceSecurityGroupIds": ["sg-1"]}},
        creating("The security group 'sg-1' does not exist") + listing("sg-1"),
    ),
}


@pytest.mark.parametrize(("changes", "words"), MISSING.values(), ids=MISSING)
def test_a_node_group_without_what_it_needs_is_refused_with_how_to_list_it(
    account: Amazon, changes: dict[str, Any], words: str
) -> None:
    assert refused(account, types.NODE_GROUP, {**NODE_GROUP, **changes}) == words


def test_a_role_of_another_account_or_of_a_service_is_not_asked_for(account: Amazon) -> None:
    for name, arn in enumerate(
        ["arn:aws:iam::210987654321:role/theirs", "arn:aws:iam::123456789012:role/aws-service-role/eks.amazonaws.com/x"]
    ):
        made = {**NODE_GROUP, "nodeRoleArn": arn, "nodeGroupName": f"n{name}"}
        assert account.make(types.NODE_GROUP, f"n{name}", made).id == f"ci:n{name}"


def test_a_role_that_ec2_may_not_assume_is_no_nodes_role(account: Amazon) -> None:
    role = account.make(types.ROLE, "node", {"name": "node", "assumeRolePolicy": trust("eks.amazonaws.com")})
    inputs = {**NODE_GROUP, "nodeRoleArn": role.outputs["arn"]}
    assert refused(account, types.NODE_GROUP, inputs) == creating(
        "Following required service principals [ec2.amazonaws.com] were not found in the trust relationships of "
        "nodeRole arn:aws:iam::123456789012:role/node"
    )
    account.change(role, assumeRolePolicy=trust("ec2.amazonaws.com"))
    assert account.make(types.NODE_GROUP, "l4", inputs).id == "ci:l4"


def test_images_of_amazon_linux_2_end_with_kubernetes_1_32(account: Amazon) -> None:
    old = {**NODE_GROUP, "amiType": "AL2_x86_64_GPU"}
    assert refused(account, types.NODE_GROUP, old) == creating(
        "AMI Type AL2_x86_64_GPU is only supported for kubernetes versions 1.32 or earlier"
    )
    assert account.make(types.NODE_GROUP, "l4", {**old, "version": "1.32"}).id == "ci:l4"


def test_a_name_that_is_taken_is_refused(account: Amazon) -> None:
    account.make(types.NODE_GROUP, "l4", NODE_GROUP)
    assert refused(account, types.NODE_GROUP, NODE_GROUP) == creating(
        "NodeGroup already exists with name l4 and cluster name ci", "ResourceInUseException", 409
    )
    account.make(types.LAUNCH_TEMPLATE, "l4", TEMPLATE)
    assert refused(account, types.LAUNCH_TEMPLATE, TEMPLATE) == (
        "creating EC2 Launch Template (l4-nodes): operation error EC2: CreateLaunchTemplate, api error "
        "InvalidLaunchTemplateName.AlreadyExistsException: Launch template name already in use."
    )


def test_what_is_used_is_not_deleted(account: Amazon) -> None:
    vpc = {"subnetIds": [SUBNET]}
    cluster = account.make(
        types.CLUSTER, "c", {"name": "mine", "roleArn": "arn:aws:iam::123456789012:role/eks-cluster", "vpcConfig": vpc}
    )
    group = account.make(types.NODE_GROUP, "l4", {**NODE_GROUP, "clusterName": "mine"})
    with pytest.raises(Refused) as answer:
        account.delete(cluster)
    assert str(answer.value) == (
        "deleting EKS Cluster (mine): operation error EKS: DeleteCluster, ResourceInUseException: Cluster has "
        "nodegroups attached"
    )
    account.delete(group)
    account.delete(cluster)
    assert account.world.find(types.CLUSTER) == []


ELSEWHERE: dict[str, tuple[str, dict[str, Any], str]] = {
    "an access entry": (
        types.ACCESS_ENTRY,
        {"clusterName": "gone", "principalArn": ROLE_ARN},
        f"creating EKS Access Entry (gone:{ROLE_ARN}): operation error EKS: CreateAccessEntry, https response error "
        "StatusCode: 404, ResourceNotFoundException: No cluster found for name: gone." + listing("cluster/gone"),
    ),
    "an add-on": (
        types.ADDON,
        {"clusterName": "gone", "addonName": "vpc-cni"},
        "creating EKS Add-On (gone:vpc-cni): operation error EKS: CreateAddon, https response error StatusCode: 404, "
        "ResourceNotFoundException: No cluster found for name: gone." + listing("cluster/gone"),
    ),
    "a pod's identity": (
        types.POD_IDENTITY,
        {"clusterName": "ci", "namespace": "ci", "serviceAccount": "ci", "roleArn": f"{ROLE_ARN}s"},
        "creating EKS Pod Identity Association: operation error EKS: CreatePodIdentityAssociation, https response "
        "error StatusCode: 400, InvalidParameterException: Role provided in the request does not exist."
        + listing("role/eks-nodes"),
    ),
    "a cluster": (
        types.CLUSTER,
        {"name": "c", "roleArn": ROLE_ARN, "vpcConfig": {"subnetIds": ["subnet-1"]}},
        "creating EKS Cluster (c): operation error EKS: CreateCluster, https response error StatusCode: 400, "
        "InvalidParameterException: The subnet ID 'subnet-1' does not exist" + listing("subnet-1"),
    ),
    "a policy of a role": (
        types.ATTACHMENT,
        {"role": "gone", "policyArn": "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
        "attaching IAM Policy (arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy) to IAM Role (gone): operation error IAM: "
        "AttachRolePolicy, https response error StatusCode: 404, NoSuchEntity: The role with name gone cannot be found."
        + listing("role/gone"),
    ),
    "a policy of one's own": (
        types.ATTACHMENT,
        {"role": "eks-node", "policyArn": "arn:aws:iam::123456789012:policy/gone"},
        "attaching IAM Policy (arn:aws:iam::123456789012:policy/gone) to IAM Role (eks-node): operation error IAM: "
        "AttachRolePolicy, https response error StatusCode: 404, NoSuchEntity: Policy "
        "arn:aws:iam::123456789012:policy/gone does not exist or is not attachable." + listing("policy/gone"),
    ),
    "a tag": (
        types.GROUP_TAG,
        {"autoscalingGroupName": "eks-l4-1", "tag": {"key": "k", "value": "v", "propagateAtLaunch": False}},
        "creating AutoScaling Group (eks-l4-1) tag (k): ValidationError: the Auto Scaling group is missing"
        + listing("autoScalingGroupName/eks-l4-1"),
    ),
    "a subnet of a network": (
        types.SUBNET,
        {"vpcId": "vpc-1", "cidrBlock": "10.0.0.0/24"},
        "creating EC2 Subnet: operation error EC2: CreateSubnet, https response error StatusCode: 400, api error "
        "InvalidVpcID.NotFound: The vpc ID 'vpc-1' does not exist" + listing("vpc-1"),
    ),
}


@pytest.mark.parametrize(("token", "inputs", "words"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_is_around_a_node_group_needs_its_parts_too(
    account: Amazon, token: str, inputs: dict[str, Any], words: str
) -> None:
    assert refused(account, token, inputs) == words


def test_a_policy_is_associated_with_an_entry_that_is_there(account: Amazon) -> None:
    account.world.insert(Record(types.CLUSTER, "made", outputs={"name": "made"}))
    given = {
        "clusterName": "made",
        "principalArn": ROLE_ARN,
        "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy",
        "accessScope": {"type": "namespace", "namespaces": ["ci"]},
    }
    assert refused(account, types.ACCESS_POLICY, given) == (
        f"creating EKS Access Policy Association (made#{ROLE_ARN}#{given['policyArn']}): operation error EKS: "
        "AssociateAccessPolicy, https response error StatusCode: 404, ResourceNotFoundException: The specified "
        "principalArn could not be found."
    )
    account.make(types.ACCESS_ENTRY, "e", {"clusterName": "made", "principalArn": ROLE_ARN})
    assert account.make(types.ACCESS_POLICY, "p", given).id == f"made#{ROLE_ARN}#{given['policyArn']}"


def test_a_value_that_is_no_list_is_reported(tmp_path: Path) -> None:
    amazon = Amazon(tmp_path, settings="exists: {aws: cluster/ci}\n")
    assert refused(amazon, types.NODE_GROUP, NODE_GROUP) == (
        "sandbox.yaml: exists.aws: wrong type\n  got: {'aws': 'cluster/ci'}\n"
        "  expected: a list of paths such as subnet-* or cluster/ci"
    )


def test_an_account_has_one_provider_for_an_issuer(amazon: Amazon) -> None:
    github = {"url": "https://token.actions.githubusercontent.com", "clientIdLists": ["sts.amazonaws.com"]}
    made = amazon.make(types.OIDC_PROVIDER, "one", github)
    assert (
        made.id == made.outputs["arn"] == "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"
    )
    with pytest.raises(Refused, match=r"EntityAlreadyExists: Provider with url https://token\.actions"):
        amazon.make(types.OIDC_PROVIDER, "two", github)
