"""The component GpuAmiPipeline: builds images (AMIs) of GPU nodes for an EKS cluster, with EC2 Image Builder."""

from __future__ import annotations

import hashlib
import json
from typing import Any, ClassVar

import pulumi
import pulumi_aws as aws

from ..args import Args
from ..component import ImagePipeline
from ..labels import merge
from . import resource_names
from .image import documents
from .image.args import GpuAmiPipelineArgs
from .resource_names import pipeline_name
from .service_role import service_role

__all__ = ["GpuAmiPipeline", "GpuAmiPipelineArgs"]

# The root disk of AL2023 (awslabs/amazon-eks-ami@81fec2e:templates/al2023/template.json).
_ROOT = "/dev/xvda"


class GpuAmiPipeline(ImagePipeline):
    """Builds images (AMIs) of EKS nodes with container images already pulled, and tests them on a machine with a GPU.

    Creates: two components, a recipe, an infrastructure configuration, a distribution configuration and a pipeline of
    EC2 Image Builder. A lifecycle policy, which deletes old images. A role for the build machine and a role for the
    lifecycle policy. A security group, which allows only outgoing HTTPS. The base is EKS's AL2023 image with NVIDIA
    driver. A test machine then checks the kubelet's version, the driver and the container images.
    Costs: a machine with a GPU while an image is built and tested, and the snapshots of the kept images.
    Does not: start a build when it is created. No pool uses a new image by itself: amiId of a pool names one image. The
    account needs the role AWSServiceRoleForImageBuilder.
    Replaces on change of: the recipe for the images, the cluster's version, diskGib and kmsKeyArn. The security group
    for the cluster's network. Other changes are in place. Built images stay.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:GpuAmiPipeline"
    ARGS: ClassVar[type[Args]] = GpuAmiPipelineArgs
    IMAGE_KIND: ClassVar[str] = "ami"
    ENTRY_NAME: ClassVar[str] = "eks-gpu"
    ON_CLUSTER: ClassVar[str] = "eks"
    PINS: ClassVar[tuple[tuple[str, ...], ...]] = (("amiId",),)
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "clusterName": "ci",
        "images": [f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}"],
    }

    pipeline_arn: pulumi.Output[str]
    """ARN of the pipeline, to start a build and to list its images."""

    def __init__(self, name: str, args: GpuAmiPipelineArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        tags = merge(args.tags, {"gpu-ci-pool": name})
        common: dict[str, Any] = {"region": args.region, "tags": tags, "opts": self.child()}
        # Components and recipes have fixed names. The lifecycle policy finds the images of older recipes by the name of
        # the recipe, and gpu-ci images candidates finds the pipeline by its name. A new version must exist before the
        # old one is deleted, because the pipeline uses it. By default, Pulumi first deletes a resource with a fixed
        # name.
        versioned = {**common, "opts": self.child(delete_before_replace=False)}
        prefix = pipeline_name(pulumi.get_stack(), name)
        pulled = _component(f"{name}-pull", f"{prefix}-pull", documents.pull(args.images), versioned)
        tested = _component(
            f"{name}-test",
            f"{prefix}-test",
            pulumi.Output.from_input(args.kubernetes_version).apply(
                lambda version: documents.check(args.images, version)
            ),
            versioned,
        )
        recipe = self._recipe(name, args, prefix, [pulled, tested], versioned)
        pipeline = aws.imagebuilder.ImagePipeline(
            f"{name}-pipeline",
            name=prefix,
            description=f"images of GPU nodes: {name}",
            image_recipe_arn=recipe.arn,
            infrastructure_configuration_arn=self._machines(name, args, tags, common).arn,
            distribution_configuration_arn=self._distribution(name, args, prefix, tags, common).arn,
            # Without tests, an image would be available although nothing has checked it.
            image_tests_configuration={"image_tests_enabled": True},
            schedule=(
                aws.imagebuilder.ImagePipelineScheduleArgs(
                    schedule_expression=args.schedule,
                    # A new value of the SSM parameter with EKS's image counts as an update (botocore 1.44.5,
                    # imagebuilder: Schedule.pipelineExecutionStartCondition).
                    pipeline_execution_start_condition="EXPRESSION_MATCH_AND_DEPENDENCY_UPDATES_AVAILABLE",
                    timezone="Etc/UTC",
                )
                if args.schedule
                else None
            ),
            **common,
        )
        self._cleaner(name, args, recipe, tags, common)
        self.pipeline_arn = pipeline.arn
        self.register()

    def _recipe(
        self,
        name: str,
        args: GpuAmiPipelineArgs,
        prefix: str,
        components: list[aws.imagebuilder.Component],
        common: dict[str, Any],
    ) -> aws.imagebuilder.ImageRecipe:
        """Create the recipe. Every field of it is fixed, so its version is a hash of all of them."""
        # docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html
        parent = pulumi.Output.concat(
            "ssm:/aws/service/eks/optimized-ami/",
            args.kubernetes_version,
            f"/amazon-linux-2023/{args.architecture}/nvidia/recommended/image_id",
        )
        disk: dict[str, Any] = {
            "volume_size": args.disk_gib,
            "volume_type": "gp3",
            "encrypted": "true",
            "kms_key_id": args.kms_key_arn,
            "delete_on_termination": "true",
        }
        ebs = aws.imagebuilder.ImageRecipeBlockDeviceMappingEbsArgs(**disk)
        arns = [each.arn for each in components]
        return aws.imagebuilder.ImageRecipe(
            f"{name}-recipe",
            name=prefix,
            version=pulumi.Output.all(parent, *arns).apply(lambda values: version_of(json.dumps([disk, *values]))),
            parent_image=parent,
            components=[{"component_arn": arn} for arn in arns],
            block_device_mappings=[aws.imagebuilder.ImageRecipeBlockDeviceMappingArgs(device_name=_ROOT, ebs=ebs)],
            **common,
        )

    def _machines(
        self, name: str, args: GpuAmiPipelineArgs, tags: dict[str, str], common: dict[str, Any]
    ) -> aws.imagebuilder.InfrastructureConfiguration:
        """Create the settings of the build machine and the test machine, with their role and their network access."""
        group = aws.ec2.SecurityGroup(
            f"{name}-group",
            description=f"machines that build the images {name}",
            vpc_id=args.vpc_id,
            **common,
        )
        # Registries and the APIs of AWS. DNS and time of a VPC need no rule.
        outgoing = aws.vpc.SecurityGroupEgressRule(
            f"{name}-https",
            security_group_id=group.id,
            cidr_ipv4="0.0.0.0/0",
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            **common,
        )
        profile = build_profile(name, args, tags, self.child())
        return aws.imagebuilder.InfrastructureConfiguration(
            f"{name}-machines",
            description=f"machines that build the images {name}",
            instance_profile_name=profile.name,
            instance_types=args.chosen_instance_types,
            subnet_id=args.subnet_id,
            security_group_ids=[group.id],
            instance_metadata_options={"http_tokens": "required", "http_put_response_hop_limit": 1},
            terminate_instance_on_failure=True,
            resource_tags=tags,
            **{**common, "opts": self.child(depends_on=[outgoing])},
        )

    def _distribution(
        self, name: str, args: GpuAmiPipelineArgs, prefix: str, tags: dict[str, str], common: dict[str, Any]
    ) -> aws.imagebuilder.DistributionConfiguration:
        """Create the settings of the image that a build makes: in the region of the cluster, private, with tags."""
        image = aws.imagebuilder.DistributionConfigurationDistributionAmiDistributionConfigurationArgs(
            name=f"{prefix}-{{{{ imagebuilder:buildDate }}}}",
            description=f"GPU nodes with container images: {name}",
            ami_tags=tags,
            kms_key_id=args.kms_key_arn,
        )
        return aws.imagebuilder.DistributionConfiguration(
            f"{name}-images",
            description=f"images of GPU nodes: {name}",
            distributions=[
                aws.imagebuilder.DistributionConfigurationDistributionArgs(
                    region=args.region, ami_distribution_configuration=image
                )
            ],
            **common,
        )

    def _cleaner(
        self,
        name: str,
        args: GpuAmiPipelineArgs,
        recipe: aws.imagebuilder.ImageRecipe,
        tags: dict[str, str],
        common: dict[str, Any],
    ) -> None:
        """Create the policy that deletes all but the newest images.

        It cannot tell whether a launch template names an image. So it excludes images with the tags of the pools that
        use them, and images from which a machine was started lately.
        """
        users = [(pulumi.get_stack(), pool) for pool in args.pools]
        users += [(stack, pool) for stack, _, pool in (each.partition("/") for each in args.used_by)]
        excluded = aws.imagebuilder.LifecyclePolicyPolicyDetailExclusionRulesAmisArgs(
            last_launched=aws.imagebuilder.LifecyclePolicyPolicyDetailExclusionRulesAmisLastLaunchedArgs(
                unit="DAYS", value=args.keep_launched_days
            ),
            tag_map={resource_names.in_use_key(*each): resource_names.IN_USE for each in users} or None,
        )
        rule = aws.imagebuilder.LifecyclePolicyPolicyDetailArgs(
            action=aws.imagebuilder.LifecyclePolicyPolicyDetailActionArgs(
                type="DELETE",
                include_resources=aws.imagebuilder.LifecyclePolicyPolicyDetailActionIncludeResourcesArgs(
                    amis=True, snapshots=True
                ),
            ),
            filter=aws.imagebuilder.LifecyclePolicyPolicyDetailFilterArgs(type="COUNT", value=args.keep),
            exclusion_rules=aws.imagebuilder.LifecyclePolicyPolicyDetailExclusionRulesArgs(amis=excluded),
        )
        role, granted = cleaner_role(name, args, tags, self.child())
        aws.imagebuilder.LifecyclePolicy(
            f"{name}-cleaner",
            description=f"keeps {args.keep} images of {name}",
            execution_role=role.arn,
            resource_type="AMI_IMAGE",
            policy_details=[rule],
            # The wildcards include the images of older recipes.
            resource_selection=aws.imagebuilder.LifecyclePolicyResourceSelectionArgs(
                recipes=[
                    aws.imagebuilder.LifecyclePolicyResourceSelectionRecipeArgs(
                        name=recipe.name, semantic_version="x.x.x"
                    )
                ]
            ),
            **{**common, "opts": self.child(depends_on=granted)},
        )


def version_of(content: str) -> str:
    """Return a version for this content. Components and recipes never change, so a new content is a new version.

    A number of a version is less than 2 to the power of 30 (botocore 1.44.5, imagebuilder:
    CreateComponentRequest.semanticVersion).
    """
    return f"1.0.{int(hashlib.sha256(content.encode()).hexdigest()[:7], 16)}"


def _component(
    resource: str, name: str, document: pulumi.Input[str], common: dict[str, Any]
) -> aws.imagebuilder.Component:
    data = pulumi.Output.from_input(document)
    return aws.imagebuilder.Component(
        resource, name=name, version=data.apply(version_of), platform="Linux", data=data, **common
    )


# docs.aws.amazon.com/imagebuilder/latest/userguide/image-builder-setting-up.html, "IAM prerequisites": both are
# required for the instance profile. The first allows reading components and writing logs below /aws/imagebuilder/.
_BUILD = {"build": "EC2InstanceProfileForImageBuilder", "session": "AmazonSSMManagedInstanceCore"}
# docs.aws.amazon.com/imagebuilder/latest/userguide/image-lifecycle-prerequisites.html. It allows changes only of
# resources that Image Builder created.
_CLEAN = {"clean": "service-role/EC2ImageBuilderLifecycleExecutionPolicy"}


def build_profile(
    name: str, args: GpuAmiPipelineArgs, tags: dict[str, str], opts: pulumi.ResourceOptions
) -> aws.iam.InstanceProfile:
    """Create the instance profile of the machines. With images from ECR, they may pull from the account's ECR.

    A policy for the repositories of the pipeline alone would need a deployer that writes policies. Such a deployer
    could give itself each permission.
    """
    description = f"machines that build the images {name}"
    policies = {**_BUILD, **({"pull": "AmazonEC2ContainerRegistryPullOnly"} if _pulls_from_ecr(args) else {})}
    role, granted = service_role(f"{name}-build", "ec2", description, policies, args.region, tags, opts)
    waiting = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=granted))
    return aws.iam.InstanceProfile(f"{name}-build", role=role.name, tags=tags, opts=waiting)


def cleaner_role(
    name: str, args: GpuAmiPipelineArgs, tags: dict[str, str], opts: pulumi.ResourceOptions
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """Create the role of the lifecycle policy and its permissions."""
    description = f"deletes old images {name}"
    return service_role(f"{name}-cleaner", "imagebuilder", description, _CLEAN, args.region, tags, opts)


def _pulls_from_ecr(args: GpuAmiPipelineArgs) -> bool:
    return any(documents.ECR.fullmatch(documents.reference(image).partition("/")[0]) for image in args.images)
