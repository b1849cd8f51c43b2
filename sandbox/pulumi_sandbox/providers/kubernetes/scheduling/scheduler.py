"""Place pods on the nodes of a cluster, and start nodes for pods that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.aws.eks.api import ACTIVITY as LAUNCH_FAILED
from pulumi_sandbox.providers.kubernetes.helm.charts import DAEMON_SET
from pulumi_sandbox.providers.kubernetes.objects import inner
from pulumi_sandbox.providers.kubernetes.scheduling import eks_nodes, gke_nodes
from pulumi_sandbox.providers.kubernetes.scheduling.eks_nodes import NODE_GROUP
from pulumi_sandbox.providers.kubernetes.scheduling.fit import (
    Misfit,
    misfit_of,
    requests,
    runs_daemon,
    unschedulable_message,
)
from pulumi_sandbox.providers.kubernetes.scheduling.gke_nodes import NODE_POOL
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import GPU, Group, Node, listed_nodes, nodes_of
from pulumi_sandbox.providers.resource import Log
from pulumi_sandbox.world.store import Record, World

POD = "kubernetes:core/v1:Pod"
DEVICE_PLUGIN = "device-plugin"
ENDED = ("Succeeded", "Failed")


def groups(world: World, cluster: str) -> Iterator[Group]:
    """Yield the groups of a cluster on every cloud. Without a name, it is the only cluster with groups."""
    found = [list(kind.groups(world, cluster)) for kind in (eks_nodes, gke_nodes)]
    if cluster or not all(found):
        for groups_of_kind in found:
            yield from groups_of_kind


@dataclass(frozen=True)
class Placement:
    """The node of a pod, or the reason why the pod stays Pending."""

    node: str = ""
    message: str = ""
    started: str = ""
    """The group in which a node was started for the pod."""


@dataclass
class Scheduler:
    """Finds a node for each pod, as the scheduler and the autoscaler of a cluster do."""

    world: World
    values: Callable[[], Mapping[str, Any]]
    """Returns the values of sandbox.yaml and the fixtures for the cluster."""
    cluster: Callable[[], str]
    """Returns the name of the cluster; empty if the provider's configuration has none."""

    def launches(self, log: Log) -> Launches:
        return Launches(self.world, log)

    def knows_no_node(self) -> bool:
        """Return True if the sandbox knows no node and therefore cannot place pods."""
        return not any(groups(self.world, self.cluster())) and not self.values().get("nodes")

    def nodes(self) -> list[Node]:
        """Return the running nodes with their advertised GPUs."""
        cluster, used = self.cluster(), self._used_nodes()
        all_nodes = [*listed_nodes(self.values().get("nodes"), cluster)]
        for group in groups(self.world, cluster):
            all_nodes.extend(nodes_of(group, used))
        return [self.with_advertised_gpus(node) for node in all_nodes]

    def _used_nodes(self) -> set[str]:
        return {str(inner(row.inputs, "spec", "nodeName")) for row in self.running()}

    def running(self, node: str = "") -> Iterator[Record]:
        """Yield the pods on a node, or on all nodes without a name."""
        for row in self.world.find(POD):
            place = inner(row.inputs, "spec", "nodeName")
            if place and place == (node or place) and inner(row.outputs, "status", "phase") not in ENDED:
                yield row

    def device_plugins(self) -> Iterator[Mapping[str, Any]]:
        """Yield the pod specs of the device plugins. One that was edited to have no ready pod is left out."""
        for row in self.world.find(DAEMON_SET):
            if DEVICE_PLUGIN in row.id and inner(row.outputs, "status", "numberReady") != 0:
                yield inner(row.inputs, "spec", "template", "spec") or {}

    def with_advertised_gpus(self, node: Node) -> Node:
        """Return the node with its GPUs as allocatable if a device plugin runs on the node."""
        if not node.gpus:
            return node
        if node.has_builtin_plugin or any(runs_daemon(spec, node) for spec in self.device_plugins()):
            return replace(node, allocatable={**node.allocatable, GPU: Fraction(node.gpus)})
        return node

    def place(self, spec: Mapping[str, Any], launches: Launches | None = None) -> Placement:
        """Place a pod on a running node, or on a node that the cluster autoscaler starts.

        Args:
            spec: The spec of the pod.
            launches: The launches of new nodes. Without them, no node is started and the result is a prediction.
        """
        nodes = self.nodes()
        misfits = [self._misfit(spec, each) for each in nodes]
        for node, misfit in zip(nodes, misfits, strict=True):
            if misfit is None:
                return Placement(node.name)
        found_misfits = [each for each in misfits if each is not None]
        for group in self._groups_to_grow(spec):
            node = self.with_advertised_gpus(group.node(self._next(group)))
            misfit = self._misfit(spec, node)
            if misfit is not None:
                found_misfits.append(misfit)
            elif launches is None or not launches.is_refused(group):
                return Placement(node.name, started=group.name)
        return Placement(message=unschedulable_message(found_misfits))

    def _misfit(self, spec: Mapping[str, Any], node: Node) -> Misfit | None:
        pods = [inner(row.inputs, "spec") or {} for row in self.running(node.name)]
        return misfit_of(spec, node, _sum_of_requests([*pods, *self._daemons_of(node)]))

    def _daemons_of(self, node: Node) -> list[Mapping[str, Any]]:
        """Return the pod specs of the DaemonSets that run on the node. Their pods are not stored."""
        specs = [inner(row.inputs, "spec", "template", "spec") or {} for row in self.world.find(DAEMON_SET)]
        return [spec for spec in specs if runs_daemon(spec, node)]

    def _groups_to_grow(self, spec: Mapping[str, Any]) -> Iterable[Group]:
        """Yield the groups in which the autoscaler would start a node for the pod.

        The autoscaler checks a running node of the group, or predicts the first node from the tags.
        """
        all_groups = list(groups(self.world, self.cluster()))
        for group in all_groups:
            if self._next(group) >= group.max_nodes or self._reached_total(group, all_groups):
                continue
            example = self.with_advertised_gpus(group.node(0)) if group.desired else group.predicted
            # The autoscaler adds the pods of DaemonSets to the new node, too (kubernetes/autoscaler,
            # cluster-autoscaler/simulator/node_info_utils.go).
            if misfit_of(spec, example, _sum_of_requests(self._daemons_of(example))) is None:
                yield group

    def _next(self, group: Group) -> int:
        """Return the number of the next node, or the maximum if the group is full."""
        used = self._used_nodes()
        free = (number for number in range(group.desired, group.max_nodes) if f"{group.name}-{number}" not in used)
        return next(free, group.max_nodes)

    def _reached_total(self, group: Group, all_groups: Iterable[Group]) -> bool:
        """Return True if the groups of a resource have as many nodes together as its total allows."""
        if group.total is None:
            return False
        siblings = [each for each in all_groups if each.resource == group.resource]
        return sum(1 for each in siblings for _ in nodes_of(each, self._used_nodes())) >= group.total


def _sum_of_requests(specs: Iterable[Mapping[str, Any]]) -> dict[str, Fraction]:
    """Return the sum of the requests of pods, by resource."""
    total: dict[str, Fraction] = {}
    for spec in specs:
        for name, amount in requests(spec).items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


# Sources: https://github.com/rancher/rancher/issues/38196, https://github.com/klothoplatform/klotho/pull/311 and
# https://github.com/huggingface/Google-Cloud-Containers/issues/126.
FAULTS = {
    NODE_GROUP: {
        "quota": "VcpuLimitExceeded - You have requested more vCPU capacity than your current vCPU limit allows.",
        "stockout": "UnfulfillableCapacity - Unable to fulfill capacity due to your request configuration.",
    },
    NODE_POOL: {"quota": "GCE quota exceeded", "stockout": "GCE out of resources"},
}
"""The message of a failed start of a node, by the type of its group and the kind of the planted fault."""
NO_NODE = "the cluster autoscaler gets no node for {}: {}"
NEXT_TRY = "the cluster autoscaler tries again after 5 minutes; the sandbox tries again at once"


@dataclass
class Launches:
    """The launches for the pods of one resource."""

    world: World
    log: Log
    permanently_refused: set[str] = field(default_factory=set)
    """Groups with a permanent fault, which would also fail a later attempt before the deadline."""

    def is_refused(self, group: Group) -> bool:
        """Return True, and log the reason, if the group cannot get another node."""
        if group.name in self.permanently_refused:
            return True
        row = self.world.get(*group.resource)
        zone = group.pattern.labels.get("topology.kubernetes.io/zone")
        place = {"zone": zone} if zone else {}
        for kind, message in FAULTS[row.type].items() if row else ():
            if row and (fault := self.world.take_fault(kind, row.type, row.name, id=row.id, **place)):
                self.world.event(LAUNCH_FAILED, row.type, row.id, fault.message or message, row.cluster)
                self.log(NO_NODE.format(group.name, fault.message or message), "info")
                if fault.times == 0:
                    self.permanently_refused.add(group.name)
                else:
                    self.log(NEXT_TRY, "info")
                return True
        return False
