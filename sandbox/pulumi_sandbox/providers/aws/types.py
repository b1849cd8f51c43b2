"""The AWS schema of each resource type of pulumi-aws, and the mapping of property names.

A property has the same name in both, except for case. Differences are in `fields`. The key is the path of names in
pulumi-aws. The value is the path in the schema, relative to the parent object.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
CLUSTER = "aws:eks/cluster:Cluster"
INSTANCE = "aws:ec2/instance:Instance"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
PLACEMENT_GROUP = "aws:ec2/placementGroup:PlacementGroup"
CAPACITY_RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
SUBNET = "aws:ec2/subnet:Subnet"
VPC = "aws:ec2/vpc:Vpc"
ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
POLICY = "aws:iam/policy:Policy"
INSTANCE_PROFILE = "aws:iam/instanceProfile:InstanceProfile"
OIDC_PROVIDER = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
GROUP_TAG = "aws:autoscaling/tag:Tag"
TAG = "aws:ec2/tag:Tag"
AMI = "aws:ec2/ami:Ami"
IMAGE_COMPONENT = "aws:imagebuilder/component:Component"
IMAGE_RECIPE = "aws:imagebuilder/imageRecipe:ImageRecipe"
BUILD_MACHINES = "aws:imagebuilder/infrastructureConfiguration:InfrastructureConfiguration"
IMAGE_DISTRIBUTION = "aws:imagebuilder/distributionConfiguration:DistributionConfiguration"
IMAGE_PIPELINE = "aws:imagebuilder/imagePipeline:ImagePipeline"
IMAGE_LIFECYCLE = "aws:imagebuilder/lifecyclePolicy:LifecyclePolicy"


@dataclass(frozen=True)
class Target:
    """One resource type in AWS's schemas."""

    schema: str
    # The path of the resource's properties in CloudFormation's schema.
    base: tuple[str, ...] = ()
    fields: dict[str, str] = field(default_factory=dict)
    # Objects whose structure differs in pulumi-aws. Their required properties are not checked.
    loose: frozenset[str] = frozenset()


_RULES = {"ingress": "SecurityGroupIngress", "egress": "SecurityGroupEgress"}

TARGETS = {
    NODE_GROUP: Target(
        "AWS::EKS::Nodegroup",
        fields={
            "forceUpdateVersion": "ForceUpdateEnabled",
            "nodeRoleArn": "NodeRole",
            "remoteAccess.sourceSecurityGroupIds": "SourceSecurityGroups",
            "subnetIds": "Subnets",
        },
        # The provider accepts source groups without a key; CloudFormation does not.
        loose=frozenset({"remoteAccess"}),
    ),
    CLUSTER: Target(
        "AWS::EKS::Cluster",
        fields={"vpcConfig": "ResourcesVpcConfig", "forceUpdateVersion": "Force"},
    ),
    LAUNCH_TEMPLATE: Target(
        "AWS::EC2::LaunchTemplate",
        base=("LaunchTemplateData",),
        fields={
            "description": "/VersionDescription",
            "name": "/LaunchTemplateName",
            "networkInterfaces.ipv4Addresses": "PrivateIpAddresses.PrivateIpAddress",
            "networkInterfaces.ipv4AddressCount": "SecondaryPrivateIpAddressCount",
            "networkInterfaces.ipv4Prefixes": "Ipv4Prefixes.Ipv4Prefix",
            "networkInterfaces.ipv6Addresses": "Ipv6Addresses.Ipv6Address",
            "networkInterfaces.ipv6Prefixes": "Ipv6Prefixes.Ipv6Prefix",
            "networkInterfaces.securityGroups": "Groups",
            "securityGroupNames": "SecurityGroups",
            "tags": "/TagSpecifications.Tags",
            "vpcSecurityGroupIds": "SecurityGroupIds",
        },
    ),
    SECURITY_GROUP: Target(
        "AWS::EC2::SecurityGroup",
        fields={"description": "GroupDescription", "name": "GroupName", **_RULES}
        | {f"{direction}.cidrBlocks": "CidrIp" for direction in _RULES}
        | {f"{direction}.ipv6CidrBlocks": "CidrIpv6" for direction in _RULES}
        | {f"{direction}.protocol": "IpProtocol" for direction in _RULES},
        loose=frozenset(_RULES),
    ),
    PLACEMENT_GROUP: Target("AWS::EC2::PlacementGroup"),
    ROLE: Target(
        "AWS::IAM::Role",
        fields={
            "assumeRolePolicy": "AssumeRolePolicyDocument",
            "inlinePolicies": "Policies",
            "inlinePolicies.name": "PolicyName",
            "inlinePolicies.policy": "PolicyDocument",
            "name": "RoleName",
        },
        loose=frozenset({"inlinePolicies"}),
    ),
    ROLE_POLICY: Target(
        "AWS::IAM::RolePolicy", fields={"name": "PolicyName", "policy": "PolicyDocument", "role": "RoleName"}
    ),
    POLICY: Target("AWS::IAM::ManagedPolicy", fields={"name": "ManagedPolicyName", "policy": "PolicyDocument"}),
    INSTANCE_PROFILE: Target("AWS::IAM::InstanceProfile", fields={"name": "InstanceProfileName", "role": "Roles"}),
    OIDC_PROVIDER: Target(
        "AWS::IAM::OIDCProvider", fields={"clientIdLists": "ClientIdList", "thumbprintLists": "ThumbprintList"}
    ),
    IMAGE_COMPONENT: Target(
        "AWS::ImageBuilder::Component",
    ),
    IMAGE_RECIPE: Target(
        "AWS::ImageBuilder::ImageRecipe",
        fields={
            "systemsManagerAgent": "AdditionalInstanceConfiguration.SystemsManagerAgent",
            "userDataBase64": "AdditionalInstanceConfiguration.UserDataOverride",
        },
    ),
    BUILD_MACHINES: Target(
        "AWS::ImageBuilder::InfrastructureConfiguration",
    ),
    IMAGE_DISTRIBUTION: Target(
        "AWS::ImageBuilder::DistributionConfiguration",
    ),
    IMAGE_PIPELINE: Target("AWS::ImageBuilder::ImagePipeline"),
    IMAGE_LIFECYCLE: Target("AWS::ImageBuilder::LifecyclePolicy"),
    GROUP_TAG: Target("AWS::AutoScaling::AutoScalingGroup", fields={"tag": "Tags"}),
}
