"""The forms in which AWS names what nodes are placed in and made from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

REGION = r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$"
ZONE = r"^[a-z]{2,4}(-[a-z]+)+-[0-9][a-z]$"
"""us-east-1a. Not us-east-1-dfw-2a: managed node groups are in no Local Zone
(docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html)."""

_ID = r"[0-9a-f]{8}([0-9a-f]{9})?"
SUBNET = rf"^subnet-{_ID}$"

Region = Annotated[str, Field(pattern=REGION)]
SubnetId = Annotated[str, Field(pattern=SUBNET)]
SecurityGroupId = Annotated[str, Field(pattern=rf"^sg-{_ID}$")]
VpcId = Annotated[str, Field(pattern=rf"^vpc-{_ID}$")]
ReservationId = Annotated[str, Field(pattern=rf"^cr-{_ID}$")]
KmsKeyArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$")]
RoleArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$")]
Profile = Annotated[str, Field(pattern=r"^[^\s\[\]]+$")]
"""The name of a profile in the configuration of the AWS command line."""
# botocore 1.44.5, eks: CreateClusterRequest.name.
ClusterName = Annotated[str, Field(pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$")]
KubernetesVersion = Annotated[str, Field(pattern=r"^1\.[0-9]{2}$")]

# Which partition a region is in, and the suffix of its services' names (botocore 1.44.5, data/partitions.json). The
# other partitions are for customers this package cannot be tried with.
_PARTITIONS = {"cn-": ("aws-cn", "amazonaws.com.cn"), "us-gov-": ("aws-us-gov", "amazonaws.com")}


def partition(region: str) -> str:
    """The part of an ARN that says which of AWS's separate clouds it is in."""
    return _partition(region)[0]


def service(name: str, region: str) -> str:
    """A service as a role's trust policy names it: ec2.amazonaws.com."""
    return f"{name}.{_partition(region)[1]}"


def _partition(region: str) -> tuple[str, str]:
    return next((found for start, found in _PARTITIONS.items() if region.startswith(start)), ("aws", "amazonaws.com"))
