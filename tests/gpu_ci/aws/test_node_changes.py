"""The effect of a changed argument on `pulumi up`: no change, an update in place, or a replacement.

Which properties AWS cannot change is read from the schemas cfn-lint carries (createOnlyProperties). That covers what
CloudFormation and this package both make. Tags of the Auto Scaling group are not among it: its name decides them.
"""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.aws.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs
from pydantic.alias_generators import to_camel

from tests.gpu_ci.aws.node_groups import BLOCK, EFA, OWN_IMAGE, P3DN, SUBNET_A, SUBNET_B, TYPES, cloudformation, group

SCHEMAS = {
    "aws:eks/nodeGroup:NodeGroup": "AWS::EKS::Nodegroup",
    "aws:ec2/launchTemplate:LaunchTemplate": "AWS::EC2::LaunchTemplate",
    "aws:ec2/securityGroup:SecurityGroup": "AWS::EC2::SecurityGroup",
    "aws:ec2/placementGroup:PlacementGroup": "AWS::EC2::PlacementGroup",
    "aws:iam/role:Role": "AWS::IAM::Role",
}
LIMITS = "gpu-ci:aws:NodeGroupLimits"
# Where CloudFormation's word is not Pulumi's. The rest of a launch template is one property there.
WORDS = {
    "AWS::EKS::Nodegroup": {"nodeRoleArn": "NodeRole", "subnetIds": "Subnets"},
    "AWS::EC2::LaunchTemplate": {"name": "LaunchTemplateName", "tags": "TagSpecifications"},
}

KEY = "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-0000-4000-8000-000000000000"
OTHER_VPC = "vpc-0fedcba9876543210"
OTHER_GROUP = "sg-0fedcba9876543210"

# What is there before, what changes, and what happens to which child.
CHANGES: list[tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = [
    ({}, {"cluster_name": "other"}, {"nodes": "replace", "limits": "replace"}),
    ({}, {"kubernetes_version": "1.36"}, {"nodes": "update"}),
    ({}, {"subnets": {"us-east-1a": SUBNET_B, "us-east-1b": SUBNET_A}}, {"nodes": "replace"}),
    ({}, {"offerings": {name: ["us-east-1a", "us-east-1b"] for name in TYPES}}, {}),
    ({}, {"tags": {"team": "web"}}, {"role": "update", "template": "update", "nodes": "update"}),
    ({}, {"instance_types": ["g6.2xlarge", "g6.4xlarge", "g6.8xlarge"]}, {"nodes": "replace"}),
    ({}, {"market": "standard"}, {"nodes": "replace"}),
    (BLOCK, {"capacity_reservation_id": "cr-0fedcba9876543210"}, {"template": "update"}),
    ({}, {"zones": ["us-east-1a"]}, {"nodes": "replace", "limits": "update"}),
    ({}, {"max": 5}, {"limits": "update"}),
    ({}, {"profile": "prod"}, {"limits": "update"}),
    ({}, {"role_arn": "arn:aws:iam::123456789012:role/deployer"}, {"limits": "update"}),
    ({**EFA, "efa": False}, {"efa": True}, {"template": "update"}),
    (EFA, {"vpc_id": OTHER_VPC}, {"efa": "replace"}),
    (EFA, {"cluster_security_group_id": OTHER_GROUP}, {"template": "update"}),
    ({}, {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}, {"template": "update", "nodes": "replace"}),
    (P3DN, {"release_version": "1.35.4-20261001"}, {"nodes": "update"}),
    ({**OWN_IMAGE, "ami_id": None}, {"ami_id": OWN_IMAGE["ami_id"]}, {"template": "update", "nodes": "replace"}),
    (OWN_IMAGE, {"cluster_endpoint": "https://OTHER.gr7.us-east-1.eks.amazonaws.com"}, {"template": "update"}),
    (OWN_IMAGE, {"cluster_certificate": "LS0tLS0="}, {"template": "update"}),
    (OWN_IMAGE, {"service_cidr": "10.100.0.0/16"}, {"template": "update"}),
    ({}, {"unproven": True}, {"nodes": "update"}),
    # Only the kubelet of such an image sets the taint, by the user data.
    (OWN_IMAGE, {"unproven": True}, {"template": "update", "nodes": "update"}),
    ({}, {"torch": "2.14.0+cu126"}, {}),
    ({}, {"disk_gib": 200}, {"template": "update"}),
    ({}, {"disk_iops": 4000}, {"template": "update"}),
    ({}, {"disk_throughput_mib": 500}, {"template": "update"}),
    ({}, {"instance_store": True}, {"template": "update"}),
    ({"disk_throughput_mib": 600}, {"parallel_image_pull": True}, {"template": "update"}),
    ({}, {"kms_key_arn": KEY}, {"template": "update"}),
    ({}, {"metadata_hop_limit": 2}, {"template": "update"}),
    ({}, {"session_manager": True}, {}),
    ({}, {"cni_policy": True}, {}),
    ({}, {"node_repair": False}, {"nodes": "update"}),
]


def verdict(type_: str, key: str) -> str:
    """Return the effect of a change of this input."""
    if type_ == LIMITS:
        return "replace" if key in ("clusterName", "nodeGroupName", "region") else "update"
    name = SCHEMAS[type_]
    word = WORDS.get(name, {}).get(key, key[0].upper() + key[1:])
    if name == "AWS::EC2::LaunchTemplate" and word not in cloudformation(name)["properties"]:
        word = "LaunchTemplateData"
    assert word in cloudformation(name)["properties"], f"{name} has no {word}"
    return "replace" if f"/properties/{word}" in cloudformation(name)["createOnlyProperties"] else "update"


def happens(before: dict[str, Any], change: dict[str, Any]) -> dict[str, str]:
    """Return the change of each child that both deployments have, by its role."""
    was = {row.urn: row for row in group(**before).rows}
    found: dict[str, str] = {}
    for row in group(**{**before, **change}).rows:
        if row.urn not in was or row.type not in (*SCHEMAS, LIMITS):
            continue
        old, ignored = was[row.urn].inputs, set(row.request.ignoreChanges)
        changed = [key for key in {**old, **row.inputs} if old.get(key) != row.inputs.get(key) and key not in ignored]
        verdicts = {verdict(row.type, key) for key in changed}
        if verdicts:
            found[row.name.removeprefix("l4-")] = "replace" if "replace" in verdicts else "update"
    return found


@pytest.mark.parametrize(("before", "change", "expected"), CHANGES, ids=lambda value: "-".join(value))
def test_a_changed_argument_has_the_documented_effect(
    before: dict[str, Any], change: dict[str, Any], expected: dict[str, str]
) -> None:
    assert happens(before, change) == expected


def test_another_image_of_the_user_is_a_new_version_of_the_template() -> None:
    assert happens(OWN_IMAGE, {"ami_id": "ami-0fedcba9876543210"}) == {"template": "update"}


def test_every_argument_is_in_the_table_but_the_region() -> None:
    """Another region is another cluster: everything that is in one is made anew."""
    fields = {field for _, change, _ in CHANGES for field in change}
    assert set(GpuNodeGroupArgs.model_fields) - fields == {"pool", "region", "transform"}


def test_the_docstring_names_what_makes_another_node_group() -> None:
    told = (GpuNodeGroup.__doc__ or "").partition("Replaces on change of:")[2].partition(".")[0]
    for _, change, expected in CHANGES:
        (field,) = change
        words = {"cluster_name": "cluster", "subnets": "subnets"}.get(field, to_camel(field))
        assert (words in told) == (expected.get("nodes") == "replace"), field


def test_what_cannot_change_is_what_cfn_lint_says_of_node_groups() -> None:
    """So that a new cfn-lint with another list is seen here."""
    assert sorted(cloudformation("AWS::EKS::Nodegroup")["createOnlyProperties"]) == [
        "/properties/AmiType",
        "/properties/CapacityType",
        "/properties/ClusterName",
        "/properties/DiskSize",
        "/properties/InstanceTypes",
        "/properties/NodeRole",
        "/properties/NodegroupName",
        "/properties/RemoteAccess",
        "/properties/Subnets",
    ]
