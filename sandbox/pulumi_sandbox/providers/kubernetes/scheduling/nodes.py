"""List the nodes of a cluster, from EKS node groups and from sandbox.yaml."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.kubernetes.cluster import is_cluster
from pulumi_sandbox.providers.kubernetes.fields import quantity
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items, pairs
from pulumi_sandbox.providers.kubernetes.scheduling.toolkit import GPU, PACKAGED, Toolkit, toolkit
from pulumi_sandbox.world.store import Record, World

NODE_GROUP, TAG, TEMPLATE = (
    "aws:eks/nodeGroup:NodeGroup", "aws:autoscaling/tag:Tag", "aws:ec2/launchTemplate:LaunchTemplate",
)  # fmt: skip
# Taint effects of the EKS API, with those of Kubernetes (docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html).
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
# The prefix of tags that describe the nodes of a group without nodes to the cluster autoscaler (kubernetes/autoscaler,
# cluster-autoscaler/cloudprovider/aws/README.md, "Auto-Discovery Setup").
TEMPLATE_TAG = "k8s.io/cluster-autoscaler/node-template/"
# The default instance type and disk size (docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html).
DEFAULT_TYPE = "t3.medium"
DEFAULT_DISK_GIB = 20
DISK = "ephemeral-storage"
ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class Node:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    # A missing native resource has no limit. A missing extended resource does not exist on the node.
    allocatable: Mapping[str, Fraction] = field(default_factory=dict)
    gpus: int = 0
    """NVIDIA GPUs with an installed driver, advertised or not."""
    has_builtin_plugin: bool = False
    toolkit: Toolkit = PACKAGED


@dataclass(frozen=True)
class Group:
    """A managed node group, with its desired and its maximum number of nodes."""

    name: str
    cluster: str
    desired: int
    max_nodes: int
    pattern: Node
    tags: Mapping[str, str] = field(default_factory=dict)

    def node(self, number: int) -> Node:
        name = f"{self.name}-{number}"
        return replace(self.pattern, name=name, labels={**self.pattern.labels, "kubernetes.io/hostname": name})

    def predicted_node(self) -> Node:
        """Return the first node as the cluster autoscaler predicts it from the instance type and the group's tags."""
        group_tags = {
            key.removeprefix(TEMPLATE_TAG): value for key, value in self.tags.items() if key.startswith(TEMPLATE_TAG)
        }
        labels_of_type = {name: value for name, value in self.pattern.labels.items() if not _is_of_group(name)}
        labels = {name.removeprefix("label/"): value for name, value in group_tags.items() if name.startswith("label/")}
        resource_tags = {
            name.removeprefix("resources/"): value
            for name, value in group_tags.items()
            if name.startswith("resources/")
        }
        amounts = {name: amount for name, value in resource_tags.items() if (amount := quantity(value)) is not None}
        taints = []
        for name, value in group_tags.items():
            if name.startswith("taint/"):
                text, _, effect = value.rpartition(":")
                taints.append(Taint(name.removeprefix("taint/"), text, effect))
        gpus = {GPU: Fraction(self.pattern.gpus)} if self.pattern.gpus else {}
        # The autoscaler knows the disk only from a tag (the same repository, cloudprovider/aws/aws_manager.go,
        # buildNodeFromTemplate).
        allocatable = {**self.pattern.allocatable, DISK: Fraction(0), **gpus, **amounts}
        return Node(f"{self.name}-0", {**labels_of_type, **labels}, tuple(taints), allocatable)


def _is_of_group(label: str) -> bool:
    """Return True if the label comes from the group and not from its instance type."""
    return not label.startswith(("node.kubernetes.io/instance-type", "kubernetes.io/arch", "kubernetes.io/os"))


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
        desired, max_nodes = (_number(inner(scaling, key)) for key in ("desiredSize", "maxSize"))
        yield Group(
            name,
            str(inputs.get("clusterName")),
            desired,
            max_nodes,
            _pattern(world, name, row),
            _tags(world, name, row),
        )


def _cluster(row: Record) -> tuple[Any, Any]:
    """Return the name and the region of a node group's cluster."""
    return row.inputs.get("clusterName"), row.outputs.get("region")


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _pattern(world: World, name: str, row: Record) -> Node:
    inputs = row.inputs
    template = _template(world, inputs)
    kind = _instance_type(inputs, template)
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
    taints = tuple(
        Taint(str(one.get("key")), str(one.get("value") or ""), EFFECTS.get(str(one.get("effect")), ""))
        for _, one in items(inputs.get("taints"))
    )
    size = {"cpu": Fraction(machine.vcpus), "memory": Fraction(machine.memory_gib) * 1024**3} if machine else {}
    gpus = ceil(machine.gpu_count) if machine and _has_driver(ami) and gpu_catalog.is_nvidia(machine) else 0
    size[DISK] = _disk(ami, inputs, template)
    container_toolkit = toolkit(ami, template.get("userData"))
    return Node("", labels, taints, size, gpus, _has_device_plugin(ami), container_toolkit)


def _disk(ami: str, given: Mapping[str, Any], template: Mapping[str, Any]) -> Fraction:
    """Return the bytes of the disk that pods may request.

    The kubelet reserves 1 GiB, and a tenth for eviction (awslabs/
    amazon-eks-ami@e48b98a:nodeadm/internal/kubelet/config.go). On Bottlerocket the disk is the second volume.
    """
    device = "/dev/xvdb" if ami.startswith("BOTTLEROCKET_") else "/dev/xvda"
    volumes = {
        one.get("deviceName"): inner(one, "ebs", "volumeSize") for _, one in items(template.get("blockDeviceMappings"))
    }
    gib = _number(volumes.get(device)) or _number(given.get("diskSize")) or DEFAULT_DISK_GIB
    return (Fraction(gib) * 9 / 10 - 1) * 1024**3


def _has_driver(ami: str) -> bool:
    """Return True if an image has the NVIDIA driver. Custom images are assumed to have the driver."""
    known = {one.ami_type: one.nvidia for one in gpu_catalog.ami_types()}
    return ami in ("", "CUSTOM") or known.get(ami, False)


def _has_device_plugin(ami: str) -> bool:
    """Return True for an NVIDIA variant of Bottlerocket, which contains the device plugin.

    Source: docs.aws.amazon.com/eks/latest/userguide/eks-ami-nvidia.html.
    """
    return ami.startswith("BOTTLEROCKET_") and "NVIDIA" in ami


def _template(world: World, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inputs of a group's launch template."""
    reference = inner(inputs, "launchTemplate") or {}
    for row in world.find(TEMPLATE):
        if reference and (row.id == reference.get("id") or row.inputs.get("name") == reference.get("name")):
            return row.inputs
    return {}


def _instance_type(given: Mapping[str, Any], template: Mapping[str, Any]) -> str:
    """Return the first instance type of the list, which the cluster autoscaler also uses."""
    types = given.get("instanceTypes") or []
    return str(types[0] if types else template.get("instanceType") or DEFAULT_TYPE)


def _machine(kind: str) -> gpu_catalog.Machine | None:
    """Return the catalog entry of an instance type; None without GPUs, as the catalog has only GPU machines."""
    try:
        return gpu_catalog.machine(kind, "aws")
    except gpu_catalog.UnknownMachine:
        return None


def _tags(world: World, name: str, row: Record) -> dict[str, str]:
    """Return the tags of the group's Auto Scaling group, which does not get the tags of the node group."""
    scaling_groups = {
        str(one.get("name")) for _, at in items(row.outputs.get("resources")) for one in _scaling_groups(at)
    }
    tags = {}
    for tag in world.find(TAG):
        target = str(tag.inputs.get("autoscalingGroupName"))
        # Amazon names the Auto Scaling group eks-<node group>-<uuid>.
        if target in scaling_groups or (not scaling_groups and target.startswith(f"eks-{name}-")):
            tags[str(inner(tag.inputs, "tag", "key"))] = str(inner(tag.inputs, "tag", "value"))
    return tags


def _scaling_groups(resources: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return [one for _, one in items(resources.get("autoscalingGroups"))]


def listed_nodes(entries: Any, cluster: str) -> Iterator[Node]:
    """Yield the nodes of `values: {kubernetes: {nodes: [...]}}` in sandbox.yaml.

    The keys of a node are name, labels, taints, allocatable and cluster.
    """
    for index, entry in items(entries):
        if cluster and entry.get("cluster") not in (None, cluster, cluster.rpartition("/")[2]):
            continue
        taints = tuple(
            Taint(str(taint.get("key")), str(taint.get("value") or ""), str(taint.get("effect")))
            for _, taint in items(entry.get("taints"))
        )
        amounts = {
            name: amount for name, value in pairs(entry.get("allocatable")) if (amount := quantity(value)) is not None
        }
        name = str(entry.get("name") or f"node-{index}")
        labels = {"kubernetes.io/hostname": name, **{key: str(value) for key, value in pairs(entry.get("labels"))}}
        yield Node(name, labels, taints, amounts)


def nodes_of(group: Group, used: Collection[str]) -> Iterator[Node]:
    """Yield the nodes of a group: the desired ones, and those started for pods that still run."""
    for number in range(max(group.desired, group.max_nodes)):
        if number < group.desired or f"{group.name}-{number}" in used:
            yield group.node(number)
