"""Creates the network of nodes with EFA (Elastic Fabric Adapter), AWS's fast network between nodes.

It consists of network interfaces, a security group for traffic between the nodes, and a placement group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pulumi
import pulumi_aws as aws
from gpu_catalog import Machine

from .args import GpuNodeGroupArgs

# The network cards with EFA, for instance types on which not every card has EFA
# (docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html). The first card of p6-b300 has no EFA. On
# p6e-gb200, one card in four carries the traffic of all GPUs.
_CARDS = {"p6-b300": tuple(range(1, 17)), "p6e-gb200": (1, 5, 9, 13)}


def cards(machine: Machine) -> tuple[int, ...]:
    """Return the indexes of the network cards that get an EFA interface: those in _CARDS, or else all cards."""
    return _CARDS.get(machine.family, tuple(range(machine.efa_interfaces)))


class Fabric(NamedTuple):
    """The EFA settings of a launch template."""

    interfaces: list[aws.ec2.LaunchTemplateNetworkInterfaceArgs]
    placement: aws.ec2.LaunchTemplatePlacementArgs | None


def fabric(name: str, args: GpuNodeGroupArgs, tags: dict[str, str], opts: pulumi.ResourceOptions) -> Fabric:
    """Create the resources that nodes of `name` need for EFA traffic."""
    own = _security_group(name, args, tags, opts)
    # Nodes of a capacity block are close together without a placement group
    # (docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-using.html: "no need to use a cluster placement
    # group").
    group = (
        None
        if args.market == "capacity-block"
        else aws.ec2.PlacementGroup(f"{name}-together", region=args.region, strategy="cluster", tags=tags, opts=opts)
    )
    # EKS does not add the cluster's security group to nodes that have other security groups, so the list includes it
    # (docs.aws.amazon.com/eks/latest/userguide/launch-templates.html, "Using custom security groups").
    groups = [args.cluster_security_group_id, own.id]
    return Fabric(
        interfaces=[
            _interface(0, 0, "interface", groups),
            # An EFA-only interface has no IP address, and cannot be the primary interface of a machine.
            *(_interface(card, 0 if card else 1, "efa-only", groups) for card in cards(args.machines[0])),
        ],
        placement=aws.ec2.LaunchTemplatePlacementArgs(group_name=group.name) if group else None,
    )


def _interface(card: int, device: int, kind: str, groups: Sequence[Any]) -> aws.ec2.LaunchTemplateNetworkInterfaceArgs:
    return aws.ec2.LaunchTemplateNetworkInterfaceArgs(
        network_card_index=card,
        device_index=device,
        interface_type=kind,
        security_groups=groups,
        associate_public_ip_address="false",
        delete_on_termination="true",
    )


def _security_group(
    name: str, args: GpuNodeGroupArgs, tags: dict[str, str], opts: pulumi.ResourceOptions
) -> aws.ec2.SecurityGroup:
    """Create a security group that allows all traffic to and from itself.

    Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html, "Prepare an EFA-enabled security group".
    """
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
