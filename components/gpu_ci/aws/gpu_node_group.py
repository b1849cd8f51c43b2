"""The component GpuNodeGroup: a managed node group with GPUs for an Amazon EKS cluster. It starts without nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import pulumi
import pulumi_aws as aws

from ..args import Args
from ..component import Component
from ..errors import ArgsError, Problem
from ..kubernetes import gpu_nodes
from ..labels import merge
from . import resource_names
from .node_group_limits import NodeGroupLimits, NodeGroupLimitsArgs
from .nodes.args import GpuNodeGroupArgs
from .nodes.launch_template import group_tags, launch_template, node_labels
from .service_role import service_role

__all__ = ["GpuNodeGroup", "GpuNodeGroupArgs"]

# EKS's names of the capacity types.
_CAPACITY_TYPES = {"spot": "SPOT", "standard": "ON_DEMAND", "capacity-block": "CAPACITY_BLOCK"}

# Faults of the GPU that a restart does not fix, so EKS must replace the node. By default, EKS chooses between replacing
# and restarting (docs.aws.amazon.com/eks/latest/userguide/node-repair.html). The names are from
# aws/eks-node-monitoring-agent@029740f:pkg/reasons/reasons.yaml. The wait time is the default of EKS for GPUs.
_REPLACE_FOR = ("NvidiaDeviceCountMismatch", "NvidiaDoubleBitError", "NvidiaFabricError", "NvidiaNVLinkError")
_REPAIR_AFTER_MIN = 10


class GpuNodeGroup(Component):
    """GPU nodes on Amazon EKS for pods that tolerate the GPU taint, scaled on demand from zero to `max`.

    Creates: an IAM role for the nodes, with AWS's policies for joining the cluster and pulling images. A launch
    template, and a managed node group on its newest version. Tags on the group's Auto Scaling group, with which Cluster
    Autoscaler scales the group from zero. A NodeGroupLimits, which changes the group's maximum and prevents Auto
    Scaling from terminating busy nodes to balance zones. The template's user data keeps GPUs from unprivileged
    containers that did not request any. With `efa`: also a security group, and a placement group unless the market is a
    capacity block. With `amiId`: a tag on the image, by which its pipeline knows that it is in use.
    Costs: nothing while there is no node. A node costs its instance and its disk. A capacity block is paid when it is
    reserved.
    Does not: start nodes or install cluster software. The cluster must provide an autoscaler, the device plugin
    (Bottlerocket includes one), the EFA device plugin and the add-on eks-node-monitoring-agent. Local disks of an
    instance stay unused, unless instanceStore is set. A capacity block must have no nodes before it begins and before
    its nodes are changed.
    Replaces on change of: the node group for instanceTypes, market, zones, amiType, the cluster and its subnets, and
    for adding or removing amiId. Other changes are in place, also another amiId. After a change of the image or the
    launch template, EKS drains nodes one by one and starts new ones. The launch template contains the tags of machines.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:GpuNodeGroup"
    ARGS: ClassVar[type[Args]] = GpuNodeGroupArgs
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {"nodes": ("launch_template", "instance_types")}
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "instanceTypes": ["g6.2xlarge", "g6.4xlarge"],
        "market": "standard",
        "max": 4,
    }

    node_group_name: pulumi.Output[str]
    """Name of the node group, for programs that change or watch it."""
    autoscaling_group_name: pulumi.Output[str]
    """Name of the Auto Scaling group that EKS created for the node group."""
    node_role_arn: pulumi.Output[str]
    """ARN of the nodes' role."""
    generation: pulumi.Output[str]
    """Identifies the launch template, its version, and the image release of new nodes."""

    def __init__(self, name: str, args: GpuNodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        tags = merge(args.tags, {"gpu-ci-pool": args.pool or name})
        role, attached = node_role(name, args, tags, self.child())
        template = launch_template(name, args, tags, self.child())
        nodes = self._nodes(name, args, tags, role, [*attached, *self._image_in_use(name, args)], template)
        # The name is unknown until EKS has created the group.
        scaling = nodes.resources.apply(partial(_scaling_group, args.subject))
        for short_name, (key, value) in group_tags(name, args, args.cluster_name, nodes.node_group_name).items():
            aws.autoscaling.Tag(
                f"{name}-asg-{short_name}",
                autoscaling_group_name=scaling,
                region=args.region,
                # These tags are for autoscalers, which read the group. Nodes get labels and taints from EKS itself.
                tag={"key": key, "value": value, "propagate_at_launch": False},
                opts=self.child(),
            )
        self.node_group_name = nodes.node_group_name
        self.autoscaling_group_name = scaling
        self.node_role_arn = role.arn
        self.generation = pulumi.Output.concat(
            template.id,
            " ",
            template.latest_version.apply(str),
            " ",
            nodes.ami_type,
            " ",
            # An image of the user's own has no release. A change of it is a new version of the template.
            nodes.release_version.apply(lambda release: release or ""),
        )
        in_several_zones = len(args.chosen_zones) > 1
        NodeGroupLimits(
            f"{name}-limits",
            NodeGroupLimitsArgs(
                region=args.region,
                cluster_name=args.cluster_name,
                node_group_name=nodes.node_group_name,
                max_size=args.max,
                **({"autoscaling_group_name": scaling, "generation": self.generation} if in_several_zones else {}),
                profile=args.profile,
                role_arn=args.role_arn,
            ),
            self.child(),
        )
        self.register()

    def _image_in_use(self, name: str, args: GpuNodeGroupArgs) -> list[pulumi.Resource]:
        """Tag an image of the user's own, so that its pipeline keeps it. Return the tag.

        The node group waits for the tag. A wrong amiId then fails before the node group changes.
        """
        if args.ami_id is None:
            return []
        key = resource_names.in_use_key(pulumi.get_stack(), args.pool or name)
        return [
            aws.ec2.Tag(
                f"{name}-image-in-use",
                resource_id=args.ami_id,
                key=key,
                value=resource_names.IN_USE,
                region=args.region,
                opts=self.child(),
            )
        ]

    def _nodes(
        self,
        name: str,
        args: GpuNodeGroupArgs,
        tags: dict[str, str],
        role: aws.iam.Role,
        attached: list[pulumi.Resource],
        template: aws.ec2.LaunchTemplate,
    ) -> aws.eks.NodeGroup:
        """Create the node group without nodes. An autoscaler changes its size."""
        return aws.eks.NodeGroup(
            f"{name}-nodes",
            region=args.region,
            cluster_name=args.cluster_name,
            # EKS refuses both for an image of the user's own, whose name is in the launch template.
            version=None if args.ami_id else args.kubernetes_version,
            release_version=args.release_version,
            node_role_arn=role.arn,
            subnet_ids=subnet_ids(args),
            # A change from or to an image of the user's own replaces the group: its AMI type never changes.
            ami_type="CUSTOM" if args.ami_id else args.chosen_ami_type,
            capacity_type=_CAPACITY_TYPES[args.market],
            # EKS allows the instance type either here or in the launch template. For a capacity block, it must be in
            # the launch template.
            instance_types=None if args.market == "capacity-block" else args.instance_types,
            # The version is a number. With $Latest, a new version would not appear in the preview.
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            # These sizes apply to a new group only, and NodeGroupLimits changes the maximum later. The AWS provider
            # sends the desired size from the state with every change of a size. EKS would then terminate the nodes
            # above that size (terraform-provider-aws@012e0a32:internal/service/eks/node_group.go,
            # expandNodegroupScalingConfig).
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(min_size=0, max_size=args.max, desired_size=0),
            # With MINIMAL, EKS terminates a node before it starts the replacement. GPUs are scarce, so there may be no
            # capacity for both nodes at the same time.
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1, update_strategy="MINIMAL"),
            node_repair_config=_repair(args),
            # Cluster Autoscaler needs a tag for each label by which pods select nodes. No pod selects by OPERANDS_OFF.
            labels=node_labels(name, args) | gpu_nodes.OPERANDS_OFF,
            taints=[
                aws.eks.NodeGroupTaintArgs(key=key, value=value, effect=_effect_of_eks(gpu_nodes.TAINT_EFFECT))
                for key, value in gpu_nodes.taints(unproven=args.unproven).items()
            ],
            tags=tags,
            opts=self.child(ignore_changes=["scalingConfig"], depends_on=attached),
        )


def subnet_ids(args: GpuNodeGroupArgs) -> pulumi.Output[list[str]]:
    """Return the subnets of the chosen zones. Check the arguments again when their Outputs are known."""

    def checked(values: dict[str, Any]) -> list[str]:
        try:
            type(args)(**dict(args) | values)
        except ArgsError as error:
            raise ArgsError(args.subject, error.problems) from None
        return [values["subnets"][zone] for zone in args.chosen_zones]

    wiring = ("kubernetes_version", "offerings", "subnets")
    return pulumi.Output.all(**{key: getattr(args, key) for key in wiring}).apply(checked)


def _scaling_group(subject: str, resources: Sequence[aws.eks.outputs.NodeGroupResource] | None) -> str:
    """Return the name of the Auto Scaling group of a node group. Fail unless EKS reports exactly one."""
    groups = [group for each in resources or () for group in each.autoscaling_groups or ()]
    if len(groups) != 1:
        problem = Problem(
            "",
            f"EKS reports {len(groups)} Auto Scaling groups for the node group",
            expected="one",
            rule="not-one-scaling-group",
        )
        raise pulumi.RunError(problem.render(subject))
    return str(groups[0].name)


def _repair(args: GpuNodeGroupArgs) -> aws.eks.NodeGroupNodeRepairConfigArgs:
    """Return the settings of EKS's node repair, which replaces nodes with one of the faults in _REPLACE_FOR."""
    overrides = [
        aws.eks.NodeGroupNodeRepairConfigNodeRepairConfigOverrideArgs(
            node_monitoring_condition="AcceleratedHardwareReady",
            node_unhealthy_reason=reason,
            min_repair_wait_time_mins=_REPAIR_AFTER_MIN,
            repair_action="Replace",
        )
        for reason in (_REPLACE_FOR if args.node_repair else ())
    ]
    return aws.eks.NodeGroupNodeRepairConfigArgs(
        enabled=args.node_repair, node_repair_config_overrides=overrides or None
    )


def _effect_of_eks(effect: str) -> str:
    """Convert the effect of a taint from Kubernetes' spelling to that of the EKS API: NoSchedule to NO_SCHEDULE."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", effect).upper()


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
