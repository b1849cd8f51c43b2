"""Roles in an AWS account for the jobs that deploy and preview pools on EKS.

READS and WRITES list the actions of each resource type. Most actions are from the `handlers` of CloudFormation's
schemas in cfn-lint 1.58.0. For types without a schema, they are from the service authorization reference
(docs.aws.amazon.com/service-authorization/latest/reference). The lists were not tested with a real account.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws
from gpu_ci.aws.github_identity import GithubIdentity, GithubIdentityArgs
from gpu_ci.github_trust import Purpose

from bootstrap.settings import Settings

READS: Mapping[str, tuple[str, ...]] = {
    "aws:autoscaling/tag:Tag": ("autoscaling:DescribeTags",),
    "aws:ec2/launchTemplate:LaunchTemplate": ("ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates"),
    "aws:ec2/placementGroup:PlacementGroup": ("ec2:DescribePlacementGroups",),
    "aws:ec2/securityGroup:SecurityGroup": ("ec2:DescribeSecurityGroupRules", "ec2:DescribeSecurityGroups"),
    "aws:eks/nodeGroup:NodeGroup": ("eks:DescribeNodegroup", "eks:DescribeUpdate", "eks:ListUpdates"),
    "aws:iam/role:Role": (
        "iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies", "iam:ListRolePolicies",
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ("iam:ListAttachedRolePolicies",),
    "gpu-ci:aws:NodeGroupLimits": ("autoscaling:DescribeAutoScalingGroups", "eks:DescribeNodegroup"),
    # The stack reads the cluster, and the zones of its subnets.
    "lookups": ("ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSubnets", "ec2:DescribeVpcs", "eks:DescribeCluster"),
}  # fmt: skip

WRITES: Mapping[str, tuple[str, ...]] = {
    "aws:autoscaling/tag:Tag": ("autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags"),
    "aws:ec2/launchTemplate:LaunchTemplate": (
        "ec2:CreateLaunchTemplate", "ec2:CreateLaunchTemplateVersion", "ec2:CreateTags", "ec2:DeleteLaunchTemplate",
        "ec2:DeleteTags", "ec2:ModifyLaunchTemplate",
    ),
    "aws:ec2/placementGroup:PlacementGroup": ("ec2:CreatePlacementGroup", "ec2:DeletePlacementGroup"),
    "aws:ec2/securityGroup:SecurityGroup": (
        "ec2:AuthorizeSecurityGroupEgress", "ec2:AuthorizeSecurityGroupIngress", "ec2:CreateSecurityGroup",
        "ec2:DeleteSecurityGroup", "ec2:RevokeSecurityGroupEgress", "ec2:RevokeSecurityGroupIngress",
    ),
    # EKS starts the nodes, but requires that the caller has the permission ec2:RunInstances
    # (docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
    "aws:eks/nodeGroup:NodeGroup": (
        "ec2:RunInstances", "eks:CreateNodegroup", "eks:DeleteNodegroup", "eks:TagResource", "eks:UntagResource",
        "eks:UpdateNodegroupConfig", "eks:UpdateNodegroupVersion", "iam:PassRole",
    ),
    "aws:iam/role:Role": (
        "iam:CreateRole", "iam:DeleteRole", "iam:ListInstanceProfilesForRole", "iam:TagRole", "iam:UntagRole",
        "iam:UpdateAssumeRolePolicy", "iam:UpdateRole", "iam:UpdateRoleDescription",
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ("iam:AttachRolePolicy", "iam:DetachRolePolicy"),
    "gpu-ci:aws:NodeGroupLimits": (
        "autoscaling:ResumeProcesses", "autoscaling:SuspendProcesses", "eks:UpdateNodegroupConfig",
    ),
}  # fmt: skip


def actions(purpose: Purpose) -> list[str]:
    """Return the actions of a purpose, sorted and without duplicates."""
    groups = [*READS.values(), *(WRITES.values() if purpose == "deploy" else ())]
    return sorted({action for group in groups for action in group})


def build(settings: Settings, region: str) -> dict[str, Any]:
    """Create the OIDC provider and both roles, and return their ARNs."""
    through = aws.Provider("aws", region=region)
    deploy = _identity(settings, "deploy", through)
    preview = _identity(settings, "preview", through, provider_arn=deploy.provider_arn)
    return {"deploy": {"role": deploy.role_arn}, "preview": {"role": preview.role_arn}}


def _identity(settings: Settings, purpose: Purpose, through: aws.Provider, **wiring: Any) -> GithubIdentity:
    github = settings.github
    jobs = github.deploy if purpose == "deploy" else github.preview
    statement = {"Effect": "Allow", "Action": actions(purpose), "Resource": "*"}
    return GithubIdentity(
        f"aws-{purpose}",
        GithubIdentityArgs(
            purpose=purpose,
            owner_id=github.owner_id,
            repository_id=github.repository_id,
            allow_organization=github.allow_organization,
            **jobs.model_dump(exclude={"pool_id"}),
            policies={"stack": json.dumps({"Version": "2012-10-17", "Statement": [statement]})},
            **wiring,
        ),
        pulumi.ResourceOptions(provider=through),
    )
