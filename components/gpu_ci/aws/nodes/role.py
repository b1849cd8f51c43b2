"""Creates the IAM role of nodes, with the permissions that AWS's guide lists. Pods need their own roles."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from ..service_role import service_role
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
    description = f"nodes of the GPU node group {name}"
    return service_role(name, "ec2", description, policies(args), args.region, tags, opts)
