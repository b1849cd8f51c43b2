"""Creates the launch template of nodes, their network for EFA, and the labels and tags by which autoscalers find them.

EKS does not copy the tags of a node group to its Auto Scaling group. The tags tell Cluster Autoscaler which nodes an
empty group would start. Their format is from
kubernetes/autoscaler@062f28a:cluster-autoscaler/cloudprovider/aws/README.md.

EFA (Elastic Fabric Adapter) is the fast network between nodes of AWS. It consists of network interfaces, a security
group for traffic between the nodes, and a placement group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pulumi
import pulumi_aws as aws
from gpu_catalog import Machine

from ... import naming
from ...kubernetes import gpu_nodes
from . import ami
from .args import GpuNodeGroupArgs
from .user_data import user_data, user_data_of_own_image

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


ACCELERATOR_LABEL = "k8s.amazonaws.com/accelerator"
"""The label of nodes with GPUs. A new node reports its GPUs only after the device plugin has started.

Cluster Autoscaler waits for the GPUs of nodes with this label. Without the label, it would start too many nodes (the
same README, "Special note on GPU instances").
"""

EFA_RESOURCE = "vpc.amazonaws.com/efa"
"""The resource that the EFA device plugin advertises (docs.aws.amazon.com/eks/latest/userguide/node-efa.html)."""

NODE_GROUP_LABEL = "eks.amazonaws.com/nodegroup"
"""The label with the name of the node group, which EKS adds to every node.

Cluster Autoscaler does not know the label of an empty group (kubernetes/autoscaler@017598c:cluster-autoscaler/
cloudprovider/aws/aws_wrapper.go, getManagedNodegroupInfo), so the group needs a tag for it.
"""

_PREFIX = "k8s.io/cluster-autoscaler"
_NODE_PREFIX = f"{_PREFIX}/node-template"


def node_labels(name: str, args: GpuNodeGroupArgs) -> dict[str, str]:
    """Return the labels of the nodes of `name`."""
    return gpu_nodes.labels(args.pool or name) | {ACCELERATOR_LABEL: f"nvidia-{args.machines[0].gpu.key}"}


def group_tags(
    name: str, args: GpuNodeGroupArgs, cluster: pulumi.Input[str], node_group: pulumi.Input[str]
) -> dict[str, tuple[pulumi.Input[str], pulumi.Input[str]]]:
    """Return key and value of each tag of the group with the name `node_group`, by a unique short name."""
    return {
        "enabled": (f"{_PREFIX}/enabled", "true"),
        "owned": (pulumi.Output.concat(f"{_PREFIX}/", cluster), "owned"),
        "taint": (f"{_NODE_PREFIX}/taint/{gpu_nodes.TAINT_KEY}", f"{gpu_nodes.TAINT_VALUE}:{gpu_nodes.TAINT_EFFECT}"),
        **_tags("label", {**node_labels(name, args), NODE_GROUP_LABEL: node_group}),
        **_tags("resources", _resources(args)),
    }


def _tags(kind: str, values: Mapping[str, pulumi.Input[str]]) -> dict[str, tuple[pulumi.Input[str], pulumi.Input[str]]]:
    return {naming.fit(f"{kind}-{key}", 60): (f"{_NODE_PREFIX}/{kind}/{key}", value) for key, value in values.items()}


def _resources(args: GpuNodeGroupArgs) -> dict[str, str]:
    """Return the resources that a pod can request on one node. A fraction of a GPU counts as one device."""
    machine = args.machines[0]
    return {
        gpu_nodes.RESOURCE: str(math.ceil(machine.gpu_count)),
        "ephemeral-storage": f"{free_for_pods_gib(args.pod_disk_gib)}Gi",
        **({EFA_RESOURCE: str(len(cards(machine)))} if args.efa else {}),
    }


def free_for_pods_gib(disk_gib: int) -> int:
    """Return the disk size in GiB that pods may request.

    The kubelet evicts pods if less than a tenth of the disk is free, and reserves 1 GiB
    (awslabs/amazon-eks-ami@e48b98a:nodeadm/internal/kubelet/config.go). If the tag had a larger number, Cluster
    Autoscaler would start nodes for pods that do not fit on them.
    """
    return disk_gib * 9 // 10 - 1


_TAGGED = ("instance", "volume", "network-interface")


def launch_template(
    name: str, args: GpuNodeGroupArgs, tags: dict[str, str], opts: pulumi.ResourceOptions
) -> aws.ec2.LaunchTemplate:
    """Create the launch template of the node group `name`.

    Every change creates a new version of the template. EKS then replaces the nodes one by one. EKS does not allow a
    subnet, an instance profile and a shutdown behavior in the template
    (docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
    """
    network = fabric(name, args, tags, opts) if args.efa else None
    return aws.ec2.LaunchTemplate(
        f"{name}-template",
        region=args.region,
        description=f"nodes of the GPU node group {name}",
        image_id=args.ami_id,
        block_device_mappings=_disks(args),
        # With a hop limit of 1, only the node itself gets its credentials. With a larger limit, pods can get them, too.
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=args.metadata_hop_limit
        ),
        user_data=_user_data(name, args),
        # Without EFA the template has no interfaces, so that EKS adds the cluster's security group.
        network_interfaces=network.interfaces if network else None,
        placement=network.placement if network else None,
        tag_specifications=[
            aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags) for kind in _TAGGED
        ],
        tags=tags,
        opts=opts,
        **_reserved(args),
    )


def _user_data(name: str, args: GpuNodeGroupArgs) -> pulumi.Input[str]:
    """Return the user data. With an image of EKS, EKS adds the address of the cluster, the labels and the taint."""
    if args.ami_id is None:
        return user_data(
            ami.system_of(args.chosen_ami_type),
            parallel_image_pull=args.parallel_image_pull,
            instance_store=args.instance_store,
        )
    cluster = (args.cluster_name, args.cluster_endpoint, args.cluster_certificate, args.service_cidr)
    labels = node_labels(name, args) | gpu_nodes.OPERANDS_OFF
    return pulumi.Output.all(*cluster).apply(
        lambda values: user_data_of_own_image(
            *values,
            labels=labels,
            taints=gpu_nodes.taints(unproven=args.unproven),
            instance_store=args.instance_store,
        )
    )


def _disks(args: GpuNodeGroupArgs) -> list[aws.ec2.LaunchTemplateBlockDeviceMappingArgs]:
    """Return the disk for images and jobs, and Bottlerocket's separate system disk. All disks are encrypted.

    Source: github.com/bottlerocket-os/bottlerocket, README, "Default Volumes".
    """
    shared = _encrypted(args, volume_size=args.disk_gib, iops=args.disk_iops, throughput=args.disk_throughput_mib)
    if ami.system_of(args.chosen_ami_type) == "bottlerocket":
        return [_disk("/dev/xvda", _encrypted(args)), _disk("/dev/xvdb", shared)]
    return [_disk("/dev/xvda", shared)]


def _disk(
    device: str, volume: aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs
) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(device_name=device, ebs=volume)


def _encrypted(args: GpuNodeGroupArgs, **size: Any) -> aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs:
    return aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
        volume_type="gp3", encrypted="true", kms_key_id=args.kms_key_arn, delete_on_termination="true", **size
    )


def _reserved(args: GpuNodeGroupArgs) -> dict[str, Any]:
    """Return the settings of a capacity block (docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html)."""
    if args.market != "capacity-block":
        return {}
    return {
        "instance_type": args.instance_types[0],
        "instance_market_options": {"market_type": "capacity-block"},
        "capacity_reservation_specification": {
            "capacity_reservation_target": {"capacity_reservation_id": args.capacity_reservation_id}
        },
    }
