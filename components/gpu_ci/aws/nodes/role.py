"""Creates the IAM role of nodes, with the permissions that AWS's guide lists. Pods need their own roles."""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

from .. import resource_names
from .args import GpuNodeGroupArgs


def policies(args: GpuNodeGroupArgs) -> dict[str, str]:
    """Return the AWS managed policies of the role, by purpose.

    Source: docs.aws.amazon.com/eks/latest/userguide/create-node-role.html. The VPC CNI should have its own role
    (docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html).
    """
    return {
        "join": "AmazonEKSWorkerNodePolicy",
        "pull": "AmazonEC2ContainerRegistryPullOnly",
        **({"cni": "AmazonEKS_CNI_Policy"} if args.cni_policy else {}),
        **({"session": "AmazonSSMManagedInstanceCore"} if args.session_manager else {}),
    }


def node_role(
    name: str, args: GpuNodeGroupArgs, tags: dict[str, str], opts: pulumi.ResourceOptions
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """Create the role of the nodes of `name` and its policy attachments, which nodes need to join the cluster."""
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": resource_names.service("ec2", args.region)},
        "Action": "sts:AssumeRole",
    }
    role = aws.iam.Role(
        f"{name}-role",
        description=f"nodes of the GPU node group {name}",
        assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
        tags=tags,
        opts=opts,
    )
    attached: list[pulumi.Resource] = [
        aws.iam.RolePolicyAttachment(
            f"{name}-may-{what}",
            role=role.name,
            policy_arn=f"arn:{resource_names.partition(args.region)}:iam::aws:policy/{policy}",
            opts=opts,
        )
        for what, policy in policies(args).items()
    ]
    return role, attached
