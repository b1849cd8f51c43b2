"""The formats of names, tags and ids in AWS, and the names by which resources find each other."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from .. import naming
from ..errors import at_path, invalid, raise_problems

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
BucketName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
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


SECRETS_ALIAS = "alias/pulumi-secrets"
"""The alias of the key that `bootstrap/` creates for the secrets of stacks without Google Cloud."""


def state_bucket(account: str) -> str:
    """Return the name of the bucket that `bootstrap/` creates for the state of stacks without Google Cloud."""
    return f"{account}-pulumi-state"


def state_backend(bucket: str, region: str) -> str:
    """Return the address of a bucket for `pulumi login` (pulumi.com/docs/iac/guides/basics/using-a-diy-backend)."""
    return f"s3://{bucket}?region={region}&awssdk=v2"


def secrets_provider(region: str) -> str:
    """Return the address of the key for `pulumi stack init` (pulumi.com/docs/iac/concepts/secrets)."""
    return f"awskms://{SECRETS_ALIAS}?region={region}"


# docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html, "Tag restrictions". Letters of other scripts are
# excluded, because not every service accepts them.
_KEY = re.compile(r"[A-Za-z0-9 +\-=._:/@]{1,128}")
_VALUE = re.compile(r"[A-Za-z0-9 +\-=._:/@]{0,256}")
_MOST_TAGS = 50
_PREFIX_OF_PACKAGE, _PREFIX_OF_AWS = "gpu-ci-", "aws:"


def _check(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) > _MOST_TAGS - 4:  # components and EKS add up to 4 tags
        raise invalid(f"has more than {_MOST_TAGS - 4} tags", "too-many", hint="a resource has at most 50")
    problems = []
    for key, value in tags.items():
        if key.startswith(_PREFIX_OF_PACKAGE):
            error = invalid(
                f"keys that start with {_PREFIX_OF_PACKAGE} are reserved for this package",
                "reserved-name",
                hint="rename it",
            )
        elif key.lower().startswith(_PREFIX_OF_AWS):
            error = invalid(
                f"keys that start with {_PREFIX_OF_AWS} are reserved for AWS", "reserved-name", hint="rename it"
            )
        elif not _KEY.fullmatch(key):
            error = invalid(
                "the key is not valid in AWS", "not-a-tag", expected="letters, digits, spaces and + - = . _ : / @"
            )
        elif not _VALUE.fullmatch(value):
            error = invalid(
                "is not a valid tag value in AWS", "not-a-tag", expected="letters, digits, spaces and + - = . _ : / @"
            )
        else:
            continue
        problems.append(at_path(error, value, key))
    raise_problems(problems)
    return tags


Tags = Annotated[dict[str, str], AfterValidator(_check)]
"""Tags from a user. The keys that gpu-ci and AWS reserve are not allowed."""


IN_USE = "true"


def in_use_key(stack: str, pool: str) -> str:
    """Return the key of the tag by which an image pipeline knows that the pool of a stack uses an image.

    The lifecycle policy of EC2 Image Builder cannot tell whether a launch template names an image. It can exclude
    images with a tag of an exact key and value (botocore 1.44.5, imagebuilder:
    LifecyclePolicyDetailExclusionRulesAmis). Each node group has a key of its own: the end of one use must not hide
    another use. A key has at most 128 characters.
    """
    return f"gpu-ci-in-use-{naming.fit(f'{stack}-{pool}', 100)}"


def pipeline_name(stack: str, pipeline: str) -> str:
    """Return the name of a pipeline of a stack. It is also the name of its recipe, and the start of other names."""
    return naming.fit(f"{stack}-{pipeline}", 100)
