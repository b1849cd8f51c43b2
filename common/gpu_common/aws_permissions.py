"""The IAM actions that AWS requires for each operation on the resource types of this package.

The roles of `bootstrap/` grant these actions, and the sandbox refuses an operation whose action is missing.

Sources, unless a comment names another one:
- the `handlers` of CloudFormation's schemas in cfn-lint 1.58.0, and for types without a schema the service
  authorization reference (docs.aws.amazon.com/service-authorization/latest/reference);
- the calls of an operation: terraform-provider-aws, internal/service. It reads a resource after each change.
The table was not tested with a real account.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Operations = Mapping[str, tuple[str, ...]]

CREATE, READ, UPDATE, DELETE = "create", "read", "update", "delete"


def _operations(read: tuple[str, ...], **changes: tuple[str, ...]) -> Operations:
    """Return the operations of a type. Each change also reads the resource."""
    return {READ: read, **{name: (*actions, *read) for name, actions in changes.items()}}


def _rule(way: str) -> Operations:
    """Return the operations of a rule of a security group. Source: vpc_security_group_{ingress,egress}_rule.go."""
    return _operations(
        ("ec2:DescribeSecurityGroupRules",),
        create=(f"ec2:AuthorizeSecurityGroup{way}", "ec2:CreateTags"),
        update=("ec2:CreateTags", "ec2:DeleteTags", "ec2:ModifySecurityGroupRules"),
        delete=(f"ec2:RevokeSecurityGroup{way}",),
    )


def _image_builder(kind: str, *checked: str) -> Operations:
    """Return the operations of a type of EC2 Image Builder.

    Args:
        kind: The name of the type in the API.
        checked: The actions of what a create or an update checks with the caller's permissions.
    """
    return _operations(
        (f"imagebuilder:Get{kind}",),
        create=(f"imagebuilder:Create{kind}", "imagebuilder:TagResource", *checked),
        update=(
            # A component and a recipe never change, except for their tags.
            *(() if kind in ("Component", "ImageRecipe") else (f"imagebuilder:Update{kind}",)),
            "imagebuilder:TagResource", "imagebuilder:UntagResource", *checked,
        ),
        delete=(f"imagebuilder:Delete{kind}", "imagebuilder:UntagResource"),
    )  # fmt: skip


def _bucket_setting(name: str, delete: str = "") -> Operations:
    """Return the operations of a resource that is one setting of a bucket. S3 has few actions that delete one."""
    put = f"s3:Put{name}"
    return _operations((f"s3:Get{name}",), create=(put,), update=(put,), delete=(delete or put,))


RESOURCES: Mapping[str, Operations] = {
    "aws:autoscaling/tag:Tag": _operations(
        ("autoscaling:DescribeTags",),
        create=("autoscaling:CreateOrUpdateTags",),
        update=("autoscaling:CreateOrUpdateTags",),
        delete=("autoscaling:DeleteTags",),
    ),
    "aws:cloudwatch/logGroup:LogGroup": _operations(
        ("logs:DescribeLogGroups", "logs:ListTagsForResource"),
        create=("logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:TagResource"),
        update=("logs:PutRetentionPolicy", "logs:TagResource", "logs:UntagResource"),
        delete=("logs:DeleteLogGroup",),
    ),
    "aws:ecs/cluster:Cluster": _operations(
        ("ecs:DescribeClusters",),
        create=("ecs:CreateCluster", "ecs:TagResource"),
        update=("ecs:TagResource", "ecs:UntagResource", "ecs:UpdateCluster"),
        delete=("ecs:DeleteCluster",),
    ),
    "aws:ecs/service:Service": _operations(
        ("ecs:DescribeServices",),
        # The provider waits until the new tasks run (internal/service/ecs/service.go).
        create=("ecs:CreateService", "ecs:DescribeServiceDeployments", "ecs:ListServiceDeployments", "ecs:TagResource"),
        update=(
            "ecs:DescribeServiceDeployments", "ecs:ListServiceDeployments", "ecs:TagResource", "ecs:UntagResource",
            "ecs:UpdateService",
        ),
        delete=("ecs:DeleteService", "ecs:UpdateService"),
    ),
    # A change of a field other than `tags` creates another revision.
    "aws:ecs/taskDefinition:TaskDefinition": _operations(
        ("ecs:DescribeTaskDefinition",),
        create=("ecs:RegisterTaskDefinition", "ecs:TagResource", "iam:PassRole"),
        update=("ecs:TagResource", "ecs:UntagResource"),
        delete=("ecs:DeregisterTaskDefinition",),
    ),
    "aws:ec2/launchTemplate:LaunchTemplate": _operations(
        ("ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates"),
        create=("ec2:CreateLaunchTemplate", "ec2:CreateTags"),
        update=("ec2:CreateLaunchTemplateVersion", "ec2:CreateTags", "ec2:DeleteTags", "ec2:ModifyLaunchTemplate"),
        delete=("ec2:DeleteLaunchTemplate",),
    ),
    "aws:ec2/placementGroup:PlacementGroup": _operations(
        ("ec2:DescribePlacementGroups",),
        create=("ec2:CreatePlacementGroup", "ec2:CreateTags"),
        update=("ec2:CreateTags", "ec2:DeleteTags"),
        delete=("ec2:DeletePlacementGroup",),
    ),
    # Source: internal/service/ec2/ec2_tag.go.
    "aws:ec2/tag:Tag": _operations(
        ("ec2:DescribeTags",),
        create=("ec2:CreateTags",),
        update=("ec2:CreateTags",),
        delete=("ec2:DeleteTags",),
    ),
    "aws:ec2/securityGroup:SecurityGroup": _operations(
        ("ec2:DescribeSecurityGroups",),
        # The provider revokes the default rule for outgoing traffic.
        create=("ec2:CreateSecurityGroup", "ec2:CreateTags", "ec2:RevokeSecurityGroupEgress"),
        update=("ec2:CreateTags", "ec2:DeleteTags"),
        # The provider first searches for network interfaces that use the group (vpc_security_group.go).
        delete=("ec2:DeleteSecurityGroup", "ec2:DescribeNetworkInterfaces"),
    ),
    # EKS starts the nodes, but requires that the caller has the permission ec2:RunInstances
    # (docs.aws.amazon.com/eks/latest/userguide/launch-templates.html). It also checks the network and the role of the
    # nodes with the caller's permissions (github.com/aws-controllers-k8s/community/issues/2164). Not included:
    # iam:CreateServiceLinkedRole, for the first node group of an account. `gpu-ci doctor` checks that the roles
    # exist.
    "aws:eks/nodeGroup:NodeGroup": _operations(
        ("eks:DescribeNodegroup",),
        create=(
            "ec2:CreateTags", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates",
            "ec2:DescribeRouteTables", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs",
            "ec2:RunInstances", "eks:CreateNodegroup", "eks:TagResource", "iam:GetRole",
            "iam:ListAttachedRolePolicies", "iam:PassRole",
        ),
        update=(
            "ec2:DescribeLaunchTemplateVersions", "ec2:RunInstances", "eks:DescribeUpdate", "eks:TagResource",
            "eks:UntagResource", "eks:UpdateNodegroupConfig", "eks:UpdateNodegroupVersion", "iam:GetRole",
            "iam:PassRole",
        ),
        delete=("eks:DeleteNodegroup",),
    ),
    "aws:iam/instanceProfile:InstanceProfile": _operations(
        ("iam:GetInstanceProfile",),
        create=(
            "iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:PassRole", "iam:TagInstanceProfile",
        ),
        update=(
            "iam:AddRoleToInstanceProfile", "iam:PassRole", "iam:RemoveRoleFromInstanceProfile",
            "iam:TagInstanceProfile", "iam:UntagInstanceProfile",
        ),
        delete=("iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"),
    ),
    "aws:iam/role:Role": _operations(
        ("iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies", "iam:ListRolePolicies"),
        create=("iam:CreateRole", "iam:TagRole"),
        update=("iam:TagRole", "iam:UntagRole", "iam:UpdateRoleDescription"),
        # The provider removes the role from instance profiles (role.go). Roles of release 0.1.0 may have a policy.
        delete=("iam:DeleteRole", "iam:DeleteRolePolicy", "iam:ListInstanceProfilesForRole"),
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": _operations(
        ("iam:ListAttachedRolePolicies",), create=("iam:AttachRolePolicy",), delete=("iam:DetachRolePolicy",)
    ),
    # Image Builder checks with the caller's permissions what a resource refers to. Not included:
    # iam:CreateServiceLinkedRole, for the first pipeline of an account (docs/guides/eks-node-image.md).
    "aws:imagebuilder/component:Component": _image_builder("Component"),
    "aws:imagebuilder/distributionConfiguration:DistributionConfiguration": _image_builder("DistributionConfiguration"),
    "aws:imagebuilder/imagePipeline:ImagePipeline": _image_builder(
        "ImagePipeline", "iam:GetRole", "imagebuilder:GetDistributionConfiguration", "imagebuilder:GetImageRecipe",
        "imagebuilder:GetInfrastructureConfiguration",
    ),
    "aws:imagebuilder/imageRecipe:ImageRecipe": _image_builder(
        # The base image is in a parameter of Systems Manager.
        "ImageRecipe", "ec2:DescribeImages", "imagebuilder:GetComponent", "ssm:GetParameter",
    ),
    "aws:imagebuilder/infrastructureConfiguration:InfrastructureConfiguration": _image_builder(
        "InfrastructureConfiguration", "iam:GetInstanceProfile", "iam:GetRole", "iam:PassRole"
    ),
    "aws:imagebuilder/lifecyclePolicy:LifecyclePolicy": _image_builder("LifecyclePolicy", "iam:PassRole"),
    # The provider reads all settings of a bucket (internal/service/s3/bucket.go, resourceBucketRead). It deletes the
    # objects of a bucket with forceDestroy first.
    "aws:s3/bucket:Bucket": _operations(
        (
            "s3:GetAccelerateConfiguration", "s3:GetBucketAcl", "s3:GetBucketCORS", "s3:GetBucketLocation",
            "s3:GetBucketLogging", "s3:GetBucketObjectLockConfiguration", "s3:GetBucketPolicy",
            "s3:GetBucketRequestPayment", "s3:GetBucketTagging", "s3:GetBucketVersioning", "s3:GetBucketWebsite",
            "s3:GetEncryptionConfiguration", "s3:GetLifecycleConfiguration", "s3:GetReplicationConfiguration",
            "s3:ListBucket",
        ),
        create=("s3:CreateBucket", "s3:PutBucketTagging"),
        update=("s3:PutBucketTagging",),
        delete=("s3:DeleteBucket", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:ListBucketVersions"),
    ),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": _bucket_setting("LifecycleConfiguration"),
    "aws:s3/bucketObjectv2:BucketObjectv2": _operations(
        ("s3:GetObject", "s3:GetObjectTagging"),
        create=("s3:PutObject", "s3:PutObjectTagging"),
        update=("s3:PutObject", "s3:PutObjectTagging"),
        delete=("s3:DeleteObject",),
    ),
    "aws:s3/bucketPolicy:BucketPolicy": _bucket_setting("BucketPolicy", delete="s3:DeleteBucketPolicy"),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": _bucket_setting("BucketPublicAccessBlock"),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": _bucket_setting(
        "EncryptionConfiguration"
    ),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": _rule("Egress"),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _rule("Ingress"),
}  # fmt: skip
"""By Pulumi type and operation."""

CHANGE_TRUST = "iam:UpdateAssumeRolePolicy"
"""No role has this action: trust policies of stacks are constant, and the deployer could take over other roles."""

NEVER_UPDATED = frozenset({"aws:autoscaling/tag:Tag"})
"""Types of which the components set only fields whose change replaces the resource. A test compares them."""

END_OF_GATE = "ec2:TerminateInstances"
CALLS: Mapping[str, tuple[str, ...]] = {
    "autoscaling.describe_scaling_activities": ("autoscaling:DescribeScalingActivities",),
    "autoscaling.suspend_processes": ("autoscaling:SuspendProcesses",),
    "ec2.describe_instances": ("ec2:DescribeInstances",),
    "ec2.describe_launch_template_versions": ("ec2:DescribeLaunchTemplateVersions",),
    # Tags in a request need the second action (docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-
    # tagging.html). The machine has no role to pass.
    "ec2.run_instances": ("ec2:RunInstances", "ec2:CreateTags"),
    "ec2.terminate_instances": (END_OF_GATE,),
    "eks.describe_nodegroup": ("eks:DescribeNodegroup",),
    "eks.describe_update": ("eks:DescribeUpdate",),
    "eks.update_nodegroup_config": ("eks:UpdateNodegroupConfig",),
}
"""The calls of aws.NodeGroupLimits, aws.SmokeGate and of the diagnosis of a failed check, by their names in the SDK."""

READ_SECRET = "secretsmanager:GetSecretValue"  # noqa: S105 - an action
LOOKUPS: Mapping[str, tuple[str, ...]] = {
    "aws:ec2/getSubnet:getSubnet": ("ec2:DescribeSubnets",),
    "aws:ssm/getParameter:getParameter": ("ssm:GetParameter",),
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": ("ec2:DescribeInstanceTypeOfferings",),
    "aws:eks/getCluster:getCluster": ("eks:DescribeCluster",),
    "aws:secretsmanager/getSecretVersion:getSecretVersion": (READ_SECRET,),
}
"""The functions that the stack calls."""


def deployer() -> list[str]:
    """Return the actions of the role that deploys: those of every operation, call and lookup."""
    return _sorted([*map(of_type, RESOURCES), *CALLS.values(), *LOOKUPS.values()])


ROLES = ("*-nodes-role-*", "*-build-role-*", "*-cleaner-role-*", "*-task-role-*", "*-execution-role-*")
"""The names of the roles that stacks create: of nodes, of machines and lifecycle policies of image pipelines, and of
runner managers."""
INSTANCE_PROFILES = ("*-build-*",)
ATTACHED = (
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonSSMManagedInstanceCore",
    "EC2InstanceProfileForImageBuilder",
    "service-role/AmazonECSTaskExecutionRolePolicy",
    "service-role/EC2ImageBuilderLifecycleExecutionPolicy",
)
"""AWS's managed policies of these roles, by their paths."""
MANAGER_POLICY, MANAGER_TAG = "gpu-ci-manager", "gpu-ci:manager"
"""The managed policy of runner managers, which `bootstrap/` creates, and the tag of their roles and machines."""
MAILBOXES = "mailbox-*"
"""The names of the buckets of mailboxes. The deployer's state is in another bucket."""
CONFIGURATIONS = "*/state/configuration.json"
"""The objects of mailboxes with the configurations of runner managers."""
MANAGER_KEY = "github-manager-app-key"
"""The name of the secret with the key of the managers' App."""
APP_KEYS = "github-*-app-key"
"""The names of the secrets that `gpu-ci init` chooses for the keys of GitHub Apps."""
_OF_DOWNLOAD = re.compile(r"s3:(Get|Put)Object")
_READ = re.compile(r"iam:(Get|List)")


def statements(actions: Iterable[str]) -> list[dict[str, Any]]:
    """Return the statements of a policy that allows actions, and changes of IAM only for the stacks' own roles.

    Otherwise, a deployer could give itself each permission. It may not write a policy. The condition key is of the
    service authorization reference, "Actions, resources, and condition keys for AWS Identity and Access Management".
    `actions` also limits to which services roles are passed: those with an action that takes a role.
    Of AWS Secrets Manager, it allows only the keys of GitHub Apps. AWS adds six characters to the name of a secret.
    Of mailboxes, it allows no read of the mail of runners, which a reader could take over. The mail of check machines
    has no registration; only a role that ends check machines may read and write it.
    Of instances, it allows only the end of check machines, which have a tag of their own. The condition key is of
    the service authorization reference, "Actions, resources, and condition keys for Amazon EC2". ec2:RunInstances has
    no limit, because no source says what EKS requests with it.
    Of the parameters of Systems Manager, it allows only AWS's own, whose ARN has no account (karpenter.sh,
    reference/cloudformation, AllowSSMReadActions).
    """
    groups = defaultdict[str, list[str]](list)
    mail: list[str] = []
    for action in actions:
        if action == READ_SECRET:
            groups["secrets"].append(action)
        elif action == "ssm:GetParameter":
            groups["parameters"].append(action)
        elif action == END_OF_GATE:
            groups["check machines"].append(action)
            mail = [f"arn:*:s3:::{MAILBOXES}/_gate/mail/*"]
        elif action.startswith("s3:"):
            groups["downloads" if _OF_DOWNLOAD.match(action) else "mailboxes"].append(action)
        elif not action.startswith("iam:") or _READ.match(action):
            groups["all"].append(action)
        elif "InstanceProfile" in action:
            groups["profiles"].append(action)
        else:
            groups["attached" if action.endswith("tachRolePolicy") else "roles"].append(action)
    roles = [f"arn:*:iam::*:role/{name}" for name in ROLES]
    policies = [*(f"arn:*:iam::aws:policy/{path}" for path in ATTACHED), f"arn:*:iam::*:policy/{MANAGER_POLICY}"]
    limits: dict[str, dict[str, Any]] = {
        "all": {"Resource": "*"},
        "roles": {"Resource": roles},
        "attached": {"Resource": roles, "Condition": {"ArnLike": {"iam:PolicyARN": policies}}},
        "profiles": {"Resource": [f"arn:*:iam::*:instance-profile/{name}" for name in INSTANCE_PROFILES]},
        "secrets": {"Resource": [f"arn:*:secretsmanager:*:*:secret:{APP_KEYS}-??????"]},
        "downloads": {
            "Resource": [
                *(f"arn:*:s3:::{MAILBOXES}/{keys}" for keys in ("*/payloads/*", "*/templates/*", CONFIGURATIONS)),
                *mail,
            ],
        },
        "check machines": {
            "Resource": ["arn:*:ec2:*:*:instance/*"],
            "Condition": {"StringLike": {"aws:ResourceTag/gpu-ci:gate": "*"}},
        },
        "mailboxes": {"Resource": [f"arn:*:s3:::{MAILBOXES}"]},
        "parameters": {"Resource": ["arn:*:ssm:*::parameter/aws/service/*"]},
    }
    return [{"Effect": "Allow", "Action": groups[name], **limit} for name, limit in limits.items() if name in groups]


def manager_statements() -> list[dict[str, Any]]:
    """Return the statements of the managed policy of runner managers.

    By a variable, it allows a manager only what has its name, which is the value of the tag MANAGER_TAG of its role:
    to start instances with this tag, to stop and terminate them, to change the user data of stopped ones, and to use
    its objects in mailboxes. It passes no role, so instances have none. Sources: docs.aws.amazon.com/IAM/latest/
    UserGuide/reference_policies_variables.html, and the service authorization reference, "Actions, resources, and
    condition keys for Amazon EC2".
    """
    name = f"${{aws:PrincipalTag/{MANAGER_TAG}}}"
    own: list[tuple[tuple[str, ...], str | list[str], dict[str, Any]]] = [
        (("ec2:DescribeInstances", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeSpotInstanceRequests"), "*", {}),
        (
            ("ec2:RunInstances",),
            _of_ec2("instance", "volume", "spot-instances-request"),
            {"StringEquals": {f"aws:RequestTag/{MANAGER_TAG}": name}},
        ),
        (
            ("ec2:RunInstances",),
            _of_ec2("capacity-reservation", "image", "network-interface", "security-group", "snapshot", "subnet"),
            {},
        ),
        # Every launch template of a pool has this tag.
        (("ec2:RunInstances",), _of_ec2("launch-template"), {"StringLike": {"aws:ResourceTag/gpu-ci-pool": "*"}}),
        (("ec2:CreateTags",), _of_ec2("*"), {"StringEquals": {"ec2:CreateAction": "RunInstances"}}),
        (
            ("ec2:ModifyInstanceAttribute", "ec2:StartInstances", "ec2:StopInstances", "ec2:TerminateInstances"),
            _of_ec2("instance"),
            {"StringEquals": {f"aws:ResourceTag/{MANAGER_TAG}": name}},
        ),
        (("s3:DeleteObject", "s3:GetObject", "s3:PutObject"), f"arn:*:s3:::{MAILBOXES}/{name}/*", {}),
        (("s3:ListBucket",), f"arn:*:s3:::{MAILBOXES}", {"StringLike": {"s3:prefix": f"{name}/*"}}),
        ((READ_SECRET,), f"arn:*:secretsmanager:*:*:secret:{MANAGER_KEY}-??????", {}),
    ]
    return [
        {"Effect": "Allow", "Action": list(actions), "Resource": resource, **({"Condition": when} if when else {})}
        for actions, resource, when in own
    ]


def _of_ec2(*kinds: str) -> list[str]:
    return [f"arn:*:ec2:*:*:{kind}/*" for kind in kinds]


def state_statements(bucket: str, key: str) -> list[dict[str, Any]]:
    """Return the statements of a policy for Pulumi's state and its secrets. `bucket` and `key` are ARNs.

    S3 encrypts and decrypts objects with the caller's permissions for the key (docs.aws.amazon.com/AmazonS3/latest/
    userguide/UsingKMSEncryption.html, "Permissions").
    """
    allowed = {
        bucket: ["s3:ListBucket"],
        f"{bucket}/*": ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
        key: ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
    }
    return [{"Effect": "Allow", "Action": actions, "Resource": resource} for resource, actions in allowed.items()]


def of_type(token: str) -> list[str]:
    """Return the actions of the operations that the stacks of this package do on a type."""
    never = {UPDATE} if token in NEVER_UPDATED else set()
    return _sorted(actions for name, actions in RESOURCES[token].items() if name not in never)


def reader() -> list[str]:
    """Return the actions of the role that previews: those of reads and lookups. It cannot read a secret."""
    found = _sorted([*(operations[READ] for operations in RESOURCES.values()), *LOOKUPS.values()])
    return [each for each in found if each != READ_SECRET]


def add_to_role(role: str, actions: Iterable[str], resource: str = "*") -> str:
    """Return the command that gives a role a further policy with these actions."""
    listed = ",".join(f'"{action}"' for action in actions)
    statement = f'{{"Effect":"Allow","Action":[{listed}],"Resource":"{resource}"}}'
    document = f'{{"Version":"2012-10-17","Statement":[{statement}]}}'
    return f"aws iam put-role-policy --role-name {role} --policy-name added --policy-document '{document}'"


def _sorted(groups: Iterable[Iterable[str]]) -> list[str]:
    return sorted({action for group in groups for action in group})
