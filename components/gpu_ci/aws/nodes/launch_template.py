"""Creates the launch template of nodes: disks, metadata access, user data, network interfaces and reservation."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws

from ...kubernetes import gpu_nodes
from . import ami
from .args import GpuNodeGroupArgs
from .autoscaler_tags import node_labels
from .efa import fabric
from .user_data import user_data, user_data_of_own_image

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
        lambda values: user_data_of_own_image(*values, labels=labels, instance_store=args.instance_store)
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
