"""The tags of an Auto Scaling group that tell Cluster Autoscaler which nodes an empty group would start.

EKS does not copy the tags of a node group to its Auto Scaling group. The format of the tags is from
kubernetes/autoscaler@062f28a:cluster-autoscaler/cloudprovider/aws/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pulumi

from ... import naming
from ...kubernetes import gpu_nodes
from .args import GpuNodeGroupArgs
from .efa import cards

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
