"""The formats of AWS names for zones, clusters, roles and other inputs of nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

REGION = r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$"
ZONE = r"^[a-z]{2,4}(-[a-z]+)+-[0-9][a-z]$"
"""A zone such as us-east-1a. Local Zones, such as us-east-1-dfw-2a, do not match.

Managed node groups do not support them (docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html).
"""

_ID = r"[0-9a-f]{8}([0-9a-f]{9})?"
SUBNET = rf"^subnet-{_ID}$"

Region = Annotated[str, Field(pattern=REGION)]
SubnetId = Annotated[str, Field(pattern=SUBNET)]
SecurityGroupId = Annotated[str, Field(pattern=rf"^sg-{_ID}$")]
VpcId = Annotated[str, Field(pattern=rf"^vpc-{_ID}$")]
ReservationId = Annotated[str, Field(pattern=rf"^cr-{_ID}$")]
AmiId = Annotated[str, Field(pattern=rf"^ami-{_ID}$")]
KmsKeyArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$")]
RoleArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$")]
Profile = Annotated[str, Field(pattern=r"^[^\s\[\]]+$")]
"""The name of an AWS CLI profile."""
# botocore 1.44.5, eks: CreateClusterRequest.name.
ClusterName = Annotated[str, Field(pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$")]
Endpoint = Annotated[str, Field(pattern=r"^https://[A-Za-z0-9.-]+$")]
Base64 = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]+={0,2}$")]
Cidr = Annotated[str, Field(pattern=r"^[0-9a-f.:]+/[0-9]{1,3}$")]
KubernetesVersion = Annotated[str, Field(pattern=r"^1\.[0-9]{2}$")]

# By prefix of regions: the partition, and the suffix of the names of services (botocore 1.44.5, data/partitions.json).
# Other AWS partitions are not supported (nodes/rules.py).
_PARTITIONS = {"cn-": ("aws-cn", "amazonaws.com.cn"), "us-gov-": ("aws-us-gov", "amazonaws.com")}


def partition(region: str) -> str:
    """Return the AWS partition of a region, as ARNs contain it: aws, aws-cn or aws-us-gov."""
    return _partition(region)[0]


def service(name: str, region: str) -> str:
    """Return the name of a service in a role's trust policy, such as ec2.amazonaws.com."""
    return f"{name}.{_partition(region)[1]}"


def _partition(region: str) -> tuple[str, str]:
    return next((found for start, found in _PARTITIONS.items() if region.startswith(start)), ("aws", "amazonaws.com"))
