"""EFA: interfaces on all network cards, a security group that lets them talk, and nodes close together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pulumi
import pulumi_aws as aws

from .gpu_nodes_args import GpuNodeGroupArgs


class Fabric(NamedTuple):
    """What a launch template says of EFA."""

    interfaces: list[aws.ec2.LaunchTemplateNetworkInterfaceArgs]
    placement: aws.ec2.LaunchTemplatePlacementArgs | None


def fabric(name: str, args: GpuNodeGroupArgs, tags: dict[str, str], opts: pulumi.ResourceOptions) -> Fabric:
    """What nodes of `name` need to reach each other over EFA."""
    own = _security_group(name, args, tags, opts)
    # Nodes of a capacity block are close together as they are (docs.aws.amazon.com/AWSEC2/latest/UserGuide/
    # capacity-blocks-using.html: "no need to use a cluster placement group").
    group = (
        None
        if args.market == "capacity-block"
        else aws.ec2.PlacementGroup(f"{name}-together", region=args.region, strategy="cluster", tags=tags, opts=opts)
    )
    # The cluster's own group is among them, because EKS adds it to no node with others (docs.aws.amazon.com/eks/latest/
    # userguide/launch-templates.html, "Using custom security groups").
    groups = [args.cluster_security_group_id, own.id]
    count = args.machines[0].efa_interfaces
    return Fabric(
        interfaces=[_interface(card, groups) for card in range(count)],
        placement=aws.ec2.LaunchTemplatePlacementArgs(group_name=group.name) if group else None,
    )


def _interface(card: int, groups: Sequence[Any]) -> aws.ec2.LaunchTemplateNetworkInterfaceArgs:
    """One on each network card; only the first has an address besides
    (docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html)."""
    return aws.ec2.LaunchTemplateNetworkInterfaceArgs(
        network_card_index=card,
        device_index=1 if card else 0,
        interface_type="efa-only" if card else "efa",
        security_groups=groups,
        delete_on_termination="true",
    )


def _security_group(
    name: str, args: GpuNodeGroupArgs, tags: dict[str, str], opts: pulumi.ResourceOptions
) -> aws.ec2.SecurityGroup:
    """All traffic to and from itself, out as well as in
    (docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html, "Prepare an EFA-enabled security group")."""
    group = aws.ec2.SecurityGroup(
        f"{name}-efa",
        description=f"EFA between nodes of the GPU node group {name}",
        vpc_id=args.vpc_id,
        region=args.region,
        tags=tags,
        opts=opts,
    )
    rules = {"in": aws.vpc.SecurityGroupIngressRule, "out": aws.vpc.SecurityGroupEgressRule}
    for way, rule in rules.items():
        rule(
            f"{name}-efa-{way}",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            ip_protocol="-1",
            region=args.region,
            tags=tags,
            opts=opts,
        )
    return group
