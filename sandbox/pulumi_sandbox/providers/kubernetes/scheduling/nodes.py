"""Define the nodes of a cluster, and the groups of the cluster autoscaler."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import items, pairs
from pulumi_sandbox.providers.kubernetes.quantities import amounts

GPU = "nvidia.com/gpu"
# Taint effects of the APIs of EKS and GKE, with those of Kubernetes (docs.aws.amazon.com/eks/latest/APIReference/
# API_Taint.html; discovery document container v1, NodeTaint.effect).
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
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
    adds_tolerations: bool = False
    """Whether the cluster's API server adds tolerations to pods that request extended resources."""


@dataclass(frozen=True)
class Group:
    """The nodes that one autoscaling group of a cloud starts, with their desired and their maximum number."""

    name: str
    resource: tuple[str, str]
    """The type and the id of the node group or node pool in the emulated cloud state."""
    desired: int
    max_nodes: int
    pattern: Node
    predicted: Node
    """The first node as the cluster autoscaler predicts it for a group without nodes."""
    total: int | None = None
    """The maximum of all groups of the same resource together; None without one."""

    def node(self, number: int) -> Node:
        name = f"{self.name}-{number}"
        return replace(self.pattern, name=name, labels={**self.pattern.labels, "kubernetes.io/hostname": name})


def number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def taints(entries: Any) -> tuple[Taint, ...]:
    """Return taints with Kubernetes' names of their effects."""
    found = ((one, str(one.get("effect"))) for _, one in items(entries))
    return tuple(
        Taint(str(one.get("key")), str(one.get("value") or ""), EFFECTS.get(effect, effect)) for one, effect in found
    )


def listed_nodes(entries: Any, cluster: str) -> Iterator[Node]:
    """Yield the nodes of `values: {kubernetes: {nodes: [...]}}` in sandbox.yaml.

    The keys of a node are name, labels, taints, allocatable and cluster.
    """
    for index, entry in items(entries):
        if cluster and entry.get("cluster") not in (None, cluster, cluster.rpartition("/")[2]):
            continue
        name = str(entry.get("name") or f"node-{index}")
        labels = {"kubernetes.io/hostname": name, **{key: str(value) for key, value in pairs(entry.get("labels"))}}
        yield Node(name, labels, taints(entry.get("taints")), amounts(entry.get("allocatable")))


def nodes_of(group: Group, used: Collection[str]) -> Iterator[Node]:
    """Yield the nodes of a group: the desired ones, and those started for pods that still run."""
    for number in range(max(group.desired, group.max_nodes)):
        if number < group.desired or f"{group.name}-{number}" in used:
            yield group.node(number)
