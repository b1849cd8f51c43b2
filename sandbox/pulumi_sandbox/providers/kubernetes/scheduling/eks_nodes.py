"""List the nodes of EKS node groups, and predict a group's first node as the cluster autoscaler does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.aws.references import scaling_groups
from pulumi_sandbox.providers.kubernetes.cluster import is_cluster
from pulumi_sandbox.providers.kubernetes.objects import inner, pairs
from pulumi_sandbox.providers.kubernetes.quantities import amounts
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import (
    ARCHITECTURES,
    DISK,
    GPU,
    Group,
    Node,
    Taint,
    number,
    taints,
)
from pulumi_sandbox.world.store import Record, World

NODE_GROUP, TAG, TEMPLATE = (
    "aws:eks/nodeGroup:NodeGroup", "aws:autoscaling/tag:Tag", "aws:ec2/launchTemplate:LaunchTemplate",
)  # fmt: skip
# The prefix of tags that describe the nodes of a group without nodes to the cluster autoscaler (kubernetes/autoscaler,
# cluster-autoscaler/cloudprovider/aws/README.md, "Auto-Discovery Setup").
TEMPLATE_TAG = "k8s.io/cluster-autoscaler/node-template/"
LABELS_OF_TYPE = ("node.kubernetes.io/instance-type", "kubernetes.io/arch", "kubernetes.io/os")
# The default instance type (docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html).
DEFAULT_TYPE = "t3.medium"


def groups(world: World, cluster: str) -> Iterator[Group]:
    """Yield the node groups of a cluster. Without a name, it is the only cluster with node groups."""
    rows = world.find(NODE_GROUP)
    if not cluster and len({_cluster(row) for row in rows}) > 1:
        return
    for row in rows:
        inputs = row.inputs
        if cluster and not is_cluster(cluster, *_cluster(row)):
            continue
        name = str(row.outputs.get("nodeGroupName") or inputs.get("nodeGroupName") or row.name)
        scaling = inputs.get("scalingConfig") or {}
        desired, max_nodes = (number(inner(scaling, key)) for key in ("desiredSize", "maxSize"))
        pattern = _pattern(world, name, row)
        predicted = _predicted(name, pattern, _tags(world, name, row))
        yield Group(name, (NODE_GROUP, f"{inputs.get('clusterName')}:{name}"), desired, max_nodes, pattern, predicted)


def _predicted(name: str, pattern: Node, tags: Mapping[str, str]) -> Node:
    """Return the first node as the cluster autoscaler predicts it from the instance type and the group's tags."""

    def tagged(kind: str) -> dict[str, str]:
        prefix = f"{TEMPLATE_TAG}{kind}/"
        return {key.removeprefix(prefix): value for key, value in tags.items() if key.startswith(prefix)}

    of_type = {label: value for label, value in pattern.labels.items() if label.startswith(LABELS_OF_TYPE)}
    tagged_taints = tuple(Taint(key, *value.rsplit(":", 1)) for key, value in tagged("taint").items() if ":" in value)
    gpus = {GPU: Fraction(pattern.gpus)} if pattern.gpus else {}
    # The autoscaler knows the disk only from a tag (kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/
    # aws_manager.go, buildNodeFromTemplate).
    allocatable = {**pattern.allocatable, DISK: Fraction(0), **gpus, **amounts(tagged("resources"))}
    return Node(f"{name}-0", {**of_type, **tagged("label")}, tagged_taints, allocatable)


def _cluster(row: Record) -> tuple[Any, Any]:
    """Return the name and the region of a node group's cluster."""
    return row.inputs.get("clusterName"), row.outputs.get("region")


def _pattern(world: World, name: str, row: Record) -> Node:
    inputs = row.inputs
    template = _template(world, inputs)
    # The cluster autoscaler also uses the first instance type of the list.
    kind = str(next(iter(inputs.get("instanceTypes") or ()), template.get("instanceType") or DEFAULT_TYPE))
    machine = _machine(kind)
    ami = str(inputs.get("amiType") or "")
    labels = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": ARCHITECTURES[machine.architecture] if machine else "amd64",
        "node.kubernetes.io/instance-type": kind,
        "eks.amazonaws.com/nodegroup": name,
        "eks.amazonaws.com/capacityType": str(inputs.get("capacityType") or "ON_DEMAND"),
        **{key: str(value) for key, value in pairs(inputs.get("labels"))},
    }
    size = {"cpu": Fraction(machine.vcpus), "memory": Fraction(machine.memory_gib) * 1024**3} if machine else {}
    gpus = ceil(machine.gpu_count) if machine and _has_driver(ami) and gpu_catalog.is_nvidia(machine) else 0
    # NVIDIA variants of Bottlerocket contain the device plugin
    # (docs.aws.amazon.com/eks/latest/userguide/eks-ami-nvidia.html).
    has_plugin = ami.startswith("BOTTLEROCKET_") and "NVIDIA" in ami
    return Node("", labels, taints(inputs.get("taints")), size, gpus, has_plugin)


def _has_driver(ami: str) -> bool:
    """Return True if an image has the NVIDIA driver. Custom images are assumed to have the driver."""
    known = {one.ami_type: one.nvidia for one in gpu_catalog.ami_types()}
    return ami in ("", "CUSTOM") or known.get(ami, False)


def _template(world: World, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inputs of a group's launch template."""
    reference = inner(inputs, "launchTemplate") or {}
    for row in world.find(TEMPLATE):
        if reference and (row.id == reference.get("id") or row.inputs.get("name") == reference.get("name")):
            return row.inputs
    return {}


def _machine(kind: str) -> gpu_catalog.Machine | None:
    """Return the catalog entry of an instance type; None without GPUs, as the catalog has only GPU machines."""
    try:
        return gpu_catalog.machine(kind, "aws")
    except gpu_catalog.UnknownMachine:
        return None


def _tags(world: World, name: str, row: Record) -> dict[str, str]:
    """Return the tags of the group's Auto Scaling group, which does not get the tags of the node group."""
    known, tags = [*scaling_groups(row.outputs)], {}
    for tag in world.find(TAG):
        target = str(tag.inputs.get("autoscalingGroupName"))
        # Amazon names the Auto Scaling group eks-<node group>-<uuid>.
        if target in known or (not known and target.startswith(f"eks-{name}-")):
            tags[str(inner(tag.inputs, "tag", "key"))] = str(inner(tag.inputs, "tag", "value"))
    return tags
