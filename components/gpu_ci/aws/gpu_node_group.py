"""GPU nodes on a cluster of Amazon EKS: one managed node group, at no node until a pod wants one."""

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
from .node_group_limits import NodeGroupLimits, NodeGroupLimitsArgs
from .nodes.args import GpuNodeGroupArgs
from .nodes.autoscaler_tags import group_tags, node_labels
from .nodes.launch_template import launch_template
from .nodes.role import node_role
from .nodes.rules import more_spot_types

__all__ = ["GpuNodeGroup", "GpuNodeGroupArgs"]

# EKS's words for how nodes are bought.
_CAPACITY_TYPES = {"spot": "SPOT", "standard": "ON_DEMAND", "capacity-block": "CAPACITY_BLOCK"}

# Faults of the card that a restart does not cure: EKS replaces or restarts as it sees fit where nothing is said
# (docs.aws.amazon.com/eks/latest/userguide/node-repair.html). The reasons are those of
# aws/eks-node-monitoring-agent@029740f:pkg/reasons/reasons.yaml, the time is EKS's own for GPUs.
_REPLACE_FOR = ("NvidiaDeviceCountMismatch", "NvidiaDoubleBitError", "NvidiaFabricError", "NvidiaNVLinkError")
_REPAIR_AFTER_MIN = 10


class GpuNodeGroup(Component):
    """GPU nodes on Amazon EKS that only pods with a GPU in mind get on, from none to as many as they ask for.

    Creates: a role for the nodes with AWS's policies for joining the cluster and pulling images, a launch template, a
    managed node group on its newest version, tags on that group's Auto Scaling group by which Cluster Autoscaler scales
    it from zero, and a NodeGroupLimits, which changes the group's maximum and keeps Auto Scaling from ending busy nodes
    to balance zones. What the template runs on a node keeps its GPUs from unprivileged containers that asked for none.
    With efa also a security group, and a placement group unless a capacity block is the market.
    Costs: nothing while there is no node; a node costs its instance and its disk. A capacity block is paid when it is
    reserved.
    Does not: start nodes or install what runs on them: an autoscaler, the device plugin (Bottlerocket has its own), the
    EFA device plugin and the add-on eks-node-monitoring-agent are the cluster's. Local disks of an instance are left
    unused. A capacity block has to be at no node before it begins and before its nodes are changed.
    Replaces on change of: the node group for instanceTypes, market, zones, amiType, the cluster and its subnets. The
    rest is changed in place; for a release of the image and whatever stands in the template, the tags of machines among
    it, EKS drains nodes one by one and starts others.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:GpuNodeGroup"
    ARGS: ClassVar[type[Args]] = GpuNodeGroupArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "instanceTypes": ["g6.2xlarge", "g6.4xlarge"],
        "market": "standard",
        "max": 4,
    }

    node_group_name: pulumi.Output[str]
    """Name of the node group, for what changes or watches it."""
    autoscaling_group_name: pulumi.Output[str]
    """Name of the Auto Scaling group EKS made for it."""
    node_role_arn: pulumi.Output[str]
    """The identity of the nodes."""
    generation: pulumi.Output[str]
    """What the nodes are made of: the template and its version, and the release of the image they begin with."""

    def __init__(self, name: str, args: GpuNodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        if args.market == "spot" and (others := more_spot_types(args.machines, args.region)):
            # What AWS recommends (docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html, "Spot"). It is no
            # mistake to have fewer: of some GPUs there is one type.
            pulumi.log.warn(
                f"instanceTypes: spot is found and kept more often with several types; hint: add {', '.join(others)}",
                self,
            )
        tags = merge(args.tags, {"gpu-ci-pool": args.pool or name})
        role, attached = node_role(name, args, tags, self.child())
        template = launch_template(name, args, tags, self.child())
        nodes = self._nodes(name, args, tags, role, attached, template)
        # Unknown until EKS has made the group.
        scaling = nodes.resources.apply(partial(_scaling_group, args.subject))
        for word, (key, value) in group_tags(name, args, args.cluster_name).items():
            aws.autoscaling.Tag(
                f"{name}-asg-{word}",
                autoscaling_group_name=scaling,
                region=args.region,
                # EKS gives nodes their labels and taints; these are for whoever reads the group.
                tag={"key": key, "value": value, "propagate_at_launch": False},
                opts=self.child(),
            )
        self.node_group_name = nodes.node_group_name
        self.autoscaling_group_name = scaling
        self.node_role_arn = role.arn
        self.generation = pulumi.Output.concat(
            template.id, " ", template.latest_version.apply(str), " ", nodes.ami_type, " ", nodes.release_version
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

    def _nodes(
        self,
        name: str,
        args: GpuNodeGroupArgs,
        tags: dict[str, str],
        role: aws.iam.Role,
        attached: list[pulumi.Resource],
        template: aws.ec2.LaunchTemplate,
    ) -> aws.eks.NodeGroup:
        """The node group; what it starts with no node, an autoscaler resizes."""
        return aws.eks.NodeGroup(
            f"{name}-nodes",
            region=args.region,
            cluster_name=args.cluster_name,
            version=args.kubernetes_version,
            release_version=args.release_version,
            node_role_arn=role.arn,
            subnet_ids=subnet_ids(args),
            ami_type=args.chosen_ami_type,
            capacity_type=_CAPACITY_TYPES[args.market],
            # In the template or here, never in both; a capacity block needs it there.
            instance_types=None if args.market == "capacity-block" else args.instance_types,
            # A number: $Latest would mean another version each time, and no preview would say so.
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            # For a new group alone. With a change of any size the provider sends the desired one too, as the state
            # has it, and EKS ends the nodes beyond it (terraform-provider-aws@012e0a32:internal/service/eks/
            # node_group.go, expandNodegroupScalingConfig). NodeGroupLimits changes the maximum by itself.
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(min_size=0, max_size=args.max, desired_size=0),
            # MINIMAL ends a node before it starts another: where GPUs are scarce, there is none to start first.
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1, update_strategy="MINIMAL"),
            node_repair_config=_repair(args),
            # No pod selects by the second map, so the autoscaler needs no tag of it.
            labels=node_labels(name, args) | gpu_nodes.OPERANDS_OFF,
            taints=[
                aws.eks.NodeGroupTaintArgs(
                    key=gpu_nodes.TAINT_KEY,
                    value=gpu_nodes.TAINT_VALUE,
                    effect=_as_eks_writes(gpu_nodes.TAINT_EFFECT),
                )
            ],
            tags=tags,
            opts=self.child(ignore_changes=["scalingConfig"], depends_on=attached),
        )


def subnet_ids(args: GpuNodeGroupArgs) -> pulumi.Output[list[str]]:
    """The subnets of the chosen zones, once what was late is known to fit the choices as well."""

    def checked(known: dict[str, Any]) -> list[str]:
        try:
            type(args)(**dict(args) | known)
        except ArgsError as error:
            raise ArgsError(args.subject, error.problems) from None
        return [known["subnets"][zone] for zone in args.chosen_zones]

    wiring = ("kubernetes_version", "offerings", "subnets")
    return pulumi.Output.all(**{key: getattr(args, key) for key in wiring}).apply(checked)


def _scaling_group(subject: str, resources: Sequence[aws.eks.outputs.NodeGroupResource] | None) -> str:
    """The one Auto Scaling group EKS makes of a node group."""
    groups = [group for each in resources or () for group in each.autoscaling_groups or ()]
    if len(groups) != 1:
        problem = Problem("", f"EKS names {len(groups)} Auto Scaling groups of the node group", expected="one")
        raise pulumi.RunError(problem.render(subject))
    return str(groups[0].name)


def _repair(args: GpuNodeGroupArgs) -> aws.eks.NodeGroupNodeRepairConfigArgs:
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


def _as_eks_writes(effect: str) -> str:
    """NO_SCHEDULE for what Kubernetes calls NoSchedule."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", effect).upper()
