"""AWS managed policies of clusters, nodes and image pipelines, and notes about policies that are not in the list.

Sources: docs.aws.amazon.com/eks/latest/userguide/security-iam-awsmanpol.html and create-node-role.html; for the paths
docs.aws.amazon.com/aws-managed-policy/latest/reference/policy-list.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_common.suggest import closest

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.inputs import rows

AWS_PREFIX = "arn:aws:iam::aws:policy/"
KNOWN = (
    "AmazonEBSCSIDriverEKSClusterScopedPolicy", "AmazonEC2ContainerRegistryFullAccess",
    "AmazonEC2ContainerRegistryPowerUser", "AmazonEC2ContainerRegistryPullOnly", "AmazonEC2ContainerRegistryReadOnly",
    "AmazonEKSBlockStoragePolicy", "AmazonEKSClusterPolicy", "AmazonEKSComputePolicy",
    "AmazonEKSFargatePodExecutionRolePolicy", "AmazonEKSLoadBalancingPolicy", "AmazonEKSLocalOutpostClusterPolicy",
    "AmazonEKSNetworkingPolicy", "AmazonEKSServicePolicy", "AmazonEKSVPCResourceController",
    "AmazonEKSWorkerNodeMinimalPolicy", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy",
    "AmazonSSMManagedEC2InstanceDefaultPolicy", "AmazonSSMManagedInstanceCore", "CloudWatchAgentServerPolicy",
    "EC2InstanceProfileForImageBuilder", "service-role/AmazonEBSCSIDriverPolicy",
    "service-role/EC2ImageBuilderLifecycleExecutionPolicy",
)  # fmt: skip
MIN_SIMILARITY = 0.8


def notes(token: str, inputs: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a note with its severity for each policy that is not in the list.

    A name that is similar to a known one is probably a typing error, and gets a warning.
    """
    arns = rows(inputs.get("managedPolicyArns")) if token == types.ROLE else [inputs.get("policyArn")]
    for arn in arns if token in (types.ROLE, types.ATTACHMENT) else ():
        if not isinstance(arn, str) or not arn.startswith(AWS_PREFIX) or arn.removeprefix(AWS_PREFIX) in KNOWN:
            continue
        name = arn.removeprefix(AWS_PREFIX)
        similar = closest(name, KNOWN, cutoff=MIN_SIMILARITY)
        if similar:
            yield f"the sandbox does not know whether {arn} exists; did you mean {AWS_PREFIX}{similar}?", "warning"
        else:
            yield f"the sandbox does not know whether {arn} exists", "info"
