"""Creates the role of the build machine, and the role of the policy that deletes old images."""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

from .. import resource_names
from ..service_role import service_role
from . import documents
from .args import GpuAmiPipelineArgs

# docs.aws.amazon.com/imagebuilder/latest/userguide/image-builder-setting-up.html, "IAM prerequisites": both are
# required for the instance profile. The first allows reading components and writing logs below /aws/imagebuilder/.
_BUILD = {"build": "EC2InstanceProfileForImageBuilder", "session": "AmazonSSMManagedInstanceCore"}
# docs.aws.amazon.com/imagebuilder/latest/userguide/image-lifecycle-prerequisites.html. It allows changes only of
# resources that Image Builder created.
_CLEAN = {"clean": "service-role/EC2ImageBuilderLifecycleExecutionPolicy"}
# docs.aws.amazon.com/AmazonECR/latest/userguide/security-iam-awsmanpol.html, AmazonEC2ContainerRegistryPullOnly.
_PULL = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


def build_profile(
    name: str, args: GpuAmiPipelineArgs, tags: dict[str, str], opts: pulumi.ResourceOptions
) -> aws.iam.InstanceProfile:
    """Create the instance profile of the machines. They may pull only the images of the pipeline from ECR."""
    description = f"machines that build the images {name}"
    role, granted = service_role(f"{name}-build", "ec2", description, _BUILD, args.region, tags, opts)
    if repositories := _repositories(args):
        statements = [
            {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
            {"Effect": "Allow", "Action": list(_PULL), "Resource": repositories},
        ]
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
        granted.append(aws.iam.RolePolicy(f"{name}-build-may-pull", role=role.name, policy=policy, opts=opts))
    waiting = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=granted))
    return aws.iam.InstanceProfile(f"{name}-build", role=role.name, tags=tags, opts=waiting)


def cleaner_role(
    name: str, args: GpuAmiPipelineArgs, tags: dict[str, str], opts: pulumi.ResourceOptions
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """Create the role of the lifecycle policy and its permissions."""
    description = f"deletes old images {name}"
    return service_role(f"{name}-cleaner", "imagebuilder", description, _CLEAN, args.region, tags, opts)


def _repositories(args: GpuAmiPipelineArgs) -> list[str]:
    """Return the ARNs of the repositories on ECR from which the pipeline pulls."""
    found = []
    for image in args.images:
        host, _, rest = documents.reference(image).partition("/")
        if registry := documents.ECR.fullmatch(host):
            place = f"{registry['region']}:{registry['account']}:repository/{rest.partition('@')[0]}"
            found.append(f"arn:{resource_names.partition(args.region)}:ecr:{place}")
    return sorted(set(found))
