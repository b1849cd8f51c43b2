"""A node group and related resources refer to other resources, which must exist and fit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.aws.conftest import NODE_GROUP, TEMPLATE, Amazon, creating, listing, refused

SUBNET = NODE_GROUP["subnetIds"][0]


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_node_group_of_what_is_listed_and_looked_up_comes_up(account: Amazon) -> None:
    assert account.make(types.NODE_GROUP, "l4", NODE_GROUP).id == "ci:l4"


MISSING: dict[str, tuple[str, dict[str, Any], str]] = {
    "the cluster": (types.NODE_GROUP, {**NODE_GROUP, "clusterName": "other"}, "cluster/other"),
    "a subnet": (types.NODE_GROUP, {**NODE_GROUP, "subnetIds": [SUBNET, "subnet-1"]}, "subnet-1"),
    "the role": (
        types.NODE_GROUP,
        {**NODE_GROUP, "nodeRoleArn": "arn:aws:iam::123456789012:role/ci/gone"},
        "role/ci/gone",
    ),
    "the template": (types.NODE_GROUP, {**NODE_GROUP, "launchTemplate": {"id": "lt-1", "version": "1"}}, "lt-1"),
    "the template by its name": (
        types.NODE_GROUP,
        {**NODE_GROUP, "launchTemplate": {"name": "gone", "version": "1"}},
        "launch-template/gone",
    ),
    "the role of an attached policy": (
        types.ATTACHMENT,
        {"role": "gone", "policyArn": "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
        "role/gone",
    ),
    "the scaling group of a tag": (
        types.GROUP_TAG,
        {"autoscalingGroupName": "eks-l4-1", "tag": {"key": "k", "value": "v", "propagateAtLaunch": False}},
        "autoScalingGroupName/eks-l4-1",
    ),
}


@pytest.mark.parametrize(("token", "inputs", "path"), MISSING.values(), ids=MISSING)
def test_what_is_missing_is_refused_with_how_to_list_it(
    account: Amazon, token: str, inputs: dict[str, Any], path: str
) -> None:
    assert refused(account, token, inputs).endswith(listing(path))


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


def test_a_name_that_is_taken_is_refused(account: Amazon) -> None:
    account.make(types.NODE_GROUP, "l4", NODE_GROUP)
    assert refused(account, types.NODE_GROUP, NODE_GROUP) == creating(
        "NodeGroup already exists with name l4 and cluster name ci", "ResourceInUseException", 409
    )
    role = {"name": "node", "assumeRolePolicy": trust("ec2.amazonaws.com")}
    account.make(types.ROLE, "node", role)
    assert refused(account, types.ROLE, role) == (
        "creating IAM Role (node): operation error IAM: CreateRole, EntityAlreadyExists: Role with name node already "
        "exists."
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


def test_an_account_has_one_provider_for_an_issuer(amazon: Amazon) -> None:
    github = {"url": "https://token.actions.githubusercontent.com", "clientIdLists": ["sts.amazonaws.com"]}
    made = amazon.make(types.OIDC_PROVIDER, "one", github)
    assert (
        made.id == made.outputs["arn"] == "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"
    )
    with pytest.raises(Refused, match=r"EntityAlreadyExists: Provider with url https://token\.actions"):
        amazon.make(types.OIDC_PROVIDER, "two", github)


def test_a_version_of_a_template_that_is_not_there_is_refused(account: Amazon) -> None:
    made = account.make(types.LAUNCH_TEMPLATE, "l4", TEMPLATE)
    inputs = {**NODE_GROUP, "instanceTypes": None, "launchTemplate": {"id": made.id, "version": "2"}}
    assert refused(account, types.NODE_GROUP, inputs) == creating(
        f"Could not find launch template version 2 for template {made.id}."
    )
    inputs["launchTemplate"]["version"] = "$Latest"
    assert account.make(types.NODE_GROUP, "l4", inputs).id == "ci:l4"
