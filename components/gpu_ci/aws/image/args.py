"""The arguments of GpuAmiPipeline: the cluster, the container images to pull, the build machine and the schedule."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

import gpu_catalog as catalog
from pydantic import Field, ValidationInfo, field_validator

from ...args import Input, Integer
from ...errors import at_path, invalid, raise_problems
from ...kubernetes.name_types import EachOnce, Image
from ...pool_args import EntryArgs
from ..nodes.rules import kms_key_arn, region
from ..resource_names import AmiId, ClusterName, KmsKeyArn, KubernetesVersion, Region, SubnetId, Tags, VpcId
from . import documents

# The cheapest machines with a GPU, by architecture. The test of the driver needs a GPU.
BUILD_TYPES = {"x86_64": ["g4dn.xlarge"], "arm64": ["g5g.xlarge"]}

# docs.aws.amazon.com/imagebuilder/latest/userguide/cron-expressions.html: six fields in UTC.
_CRON = re.compile(r"cron\(([0-9*,/-]+) ([0-9*,/-]+) (\S+) (\S+) (\S+) (\S+)\)")
_RATE = re.compile(r"rate\(([1-9][0-9]*) (day|days|hour|hours)\)")
# A lifecycle policy excludes by at most 50 tags (botocore 1.44.5, imagebuilder: TagMap).
_MAX_TAGS = 50


class GpuAmiPipelineArgs(EntryArgs):
    """The arguments of a pipeline that builds images of EKS nodes."""

    WIRING: ClassVar[frozenset[str]] = frozenset(
        {"region", "kubernetes_version", "subnet_id", "vpc_id", "pools", "tags"}
    )

    region: Region = Field(description="the region of the cluster, such as us-east-1")
    cluster_name: Input[ClusterName] = Field(
        description="the EKS cluster whose nodes use the images, as a name of gpu-ci:clusters in a stack file"
    )
    kubernetes_version: Input[KubernetesVersion] = Field(
        description="the Kubernetes version of the cluster, such as 1.35"
    )
    subnet_id: Input[SubnetId] = Field(
        description="the private subnet of the build machine, with a route to the Internet"
    )
    vpc_id: Input[VpcId] = Field(description="the VPC of that subnet")
    tags: Tags = Field(default={}, description="tags of every resource that supports tags")
    pools: list[str] = Field(default=[], description="the pools of this stack that can use the images")

    images: Annotated[list[Image], EachOnce] = Field(
        min_length=1,
        max_length=20,
        description="the container images to pull, each by its digest: the images of runners and of checks; from "
        "public registries or private ones on Amazon ECR",
    )
    architecture: Literal["x86_64", "arm64"] = Field(
        default="x86_64", description="the architecture of the nodes: x86_64 or arm64"
    )
    instance_types: list[str] | None = Field(
        default=None,
        validate_default=True,
        min_length=1,
        max_length=10,
        description="instance types of the build machine and the test machine, with a GPU, of which Image Builder "
        "uses an available one; by default g4dn.xlarge, for arm64 g5g.xlarge",
    )
    disk_gib: Integer = Field(
        default=100,
        ge=30,
        le=16_000,
        description="size of the image's disk in GiB, 30 to 16000; diskGib of a pool must not be smaller",
    )
    kms_key_arn: KmsKeyArn | None = Field(
        default=None,
        examples=["arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-0000-4000-8000-000000000000"],
        description="the KMS key that encrypts the image; by default AWS's own key. The key's policy must allow its "
        "use by AWSServiceRoleForImageBuilder and AWSServiceRoleForAutoScaling",
    )
    schedule: str | None = Field(
        default="cron(0 6 ? * MON *)",
        description="when to build, in UTC, as cron(minute hour day month weekday year) or rate(7 days); an image is "
        "built only if EKS's image has changed; null builds only on request",
    )
    keep: Integer = Field(
        default=4,
        ge=2,
        le=1000,
        description="the number of images to keep, 2 to 1000; the previous ones are for undoing",
    )
    keep_launched_days: Integer = Field(
        default=90,
        ge=1,
        le=365,
        description="also keep images from which a machine was started in this number of days, 1 to 365",
    )
    used_by: Annotated[list[Annotated[str, Field(pattern=r"^[\w.-]+/[A-Za-z0-9][\w.-]*$")]], EachOnce] = Field(
        default=[],
        validate_default=True,
        max_length=_MAX_TAGS,
        examples=[["prod/a10g"]],
        description="pools of other stacks that use the images, as STACK/POOL; images that they use are kept",
    )

    skip: Annotated[list[AmiId], EachOnce] = Field(
        default=[],
        examples=[["ami-0123456789abcdef0"]],
        description="images that gpu-ci images promote never writes, such as one that was rolled back",
    )

    @field_validator("region", "kms_key_arn")
    @classmethod
    def _in_region(cls, value: Any, info: ValidationInfo) -> Any:
        return (region if info.field_name == "region" else kms_key_arn)(value, info.data)

    @field_validator("images")
    @classmethod
    def _images(cls, values: list[str]) -> list[str]:
        problems, owners = [], dict[str, int]()
        for at, value in enumerate(values):
            owner = owners.setdefault(documents.reference(value), at)
            if owner != at:
                problems.append(
                    at_path(
                        invalid(f"is the same image as images[{owner}]", "duplicate", safe_hint="remove it"), value, at
                    )
                )
        raise_problems(problems)
        if len(documents.pull(values)) > documents.MAX_CHARACTERS:
            raise invalid(
                "are too long for one component of Image Builder", "too-many-images", safe_hint="list fewer images"
            )
        return values

    @field_validator("instance_types")
    @classmethod
    def _instance_types(cls, values: list[str] | None, info: ValidationInfo) -> list[str] | None:
        architecture = info.data.get("architecture")
        problems = []
        for at, name in enumerate(values or ()):
            if name in (values or ())[:at]:
                problems.append(at_path(invalid("is a duplicate", "duplicate", hint="remove it"), name, at))
            elif problem := _instance_type(name, architecture, info.data.get("region")):
                problems.append(at_path(problem, name, at))
        raise_problems(problems)
        return values

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, value: str | None) -> str | None:
        if value is None:
            return value
        found = _CRON.fullmatch(value)
        if not found and not _RATE.fullmatch(value):
            raise invalid(
                "is not a schedule of Image Builder",
                "not-a-schedule",
                expected="cron(minute hour day month weekday year) or rate(N days)",
                hint="such as cron(0 6 ? * MON *)",
            )
        if found and [found[3], found[5]].count("?") != 1:
            raise invalid(
                "needs ? for either the day or the weekday", "not-a-schedule", hint="such as cron(0 6 ? * MON *)"
            )
        return value

    @field_validator("used_by")
    @classmethod
    def _used_by(cls, values: list[str], info: ValidationInfo) -> list[str]:
        if len(values) + len(info.data.get("pools", ())) > _MAX_TAGS:
            raise invalid(
                f"are more than {_MAX_TAGS} pools with those of this stack",
                "too-many",
                hint="use a pipeline of their own for some",
            )
        return values

    @property
    def chosen_instance_types(self) -> list[str]:
        """The instance types of the build machine: the given types, or the default."""
        return self.instance_types or BUILD_TYPES[self.architecture]


def _instance_type(name: str, architecture: Any, region: Any) -> Any:
    """Return the error for an instance type on which the test of an image cannot pass, or None."""
    example = BUILD_TYPES.get(architecture, BUILD_TYPES["x86_64"])[0]
    try:
        machine = catalog.machine(name, "aws")
    except catalog.UnknownMachine:
        text = "is not an EC2 instance type with an NVIDIA GPU, which the test of the driver needs"
        return invalid(text, "not-a-gpu-machine", hint=f"such as {example}")
    if architecture and machine.architecture != architecture:
        return invalid(
            f"is {machine.architecture}, but the image is for {architecture}",
            "wrong-architecture",
            hint=f"such as {example}",
        )
    if region and machine.regions and region not in machine.regions:
        return invalid(f"{region} has no {name}", "type-not-in-region", hint="use a type of the region")
    return None
