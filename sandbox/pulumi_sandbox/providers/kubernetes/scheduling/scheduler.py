"""Place pods on the nodes of a cluster, and start nodes for pods that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.kubernetes.helm.chart_objects import DAEMON_SET, PCI_LABEL, STRATEGY
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling import affinity
from pulumi_sandbox.providers.kubernetes.scheduling.fit import Misfit, misfit, requests, takes_daemon, unschedulable
from pulumi_sandbox.providers.kubernetes.scheduling.launches import Launches
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import Group, Node, groups, listed, numbered
from pulumi_sandbox.providers.kubernetes.scheduling.toolkit import GPU, gpus
from pulumi_sandbox.providers.resource import Log
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World

POD = "kubernetes:core/v1:Pod"
PLUGIN = "k8s-device-plugin"
LABELLER = "node-feature-discovery"
ENDED = ("Succeeded", "Failed")
# The deviceListStrategy of Bottlerocket's plugin (bottlerocket.dev/en/os/1.54.x/api/settings/kubelet-device-plugins).
BROUGHT = "volume-mounts"


@dataclass(frozen=True)
class Placement:
    """The node of a pod, or the reason why the pod stays Pending."""

    node: str = ""
    message: str = ""
    started: str = ""
    """The group in which a node was started for the pod."""


@dataclass
class Scheduler:
    world: World
    values: Callable[[], Mapping[str, Any]]
    """Returns the values of sandbox.yaml and the fixtures for the cluster."""
    cluster: Callable[[], str]
    """Returns the name of the cluster; empty if the provider's configuration has none."""
    workspace: Workspace

    def launches(self, log: Log) -> Launches:
        return Launches(self.world, self.workspace, log)

    def is_blind(self) -> bool:
        """Return True if the sandbox knows no node and therefore cannot place pods."""
        return not any(groups(self.world, self.cluster())) and not self.values().get("nodes")

    def nodes(self) -> list[Node]:
        """Return the running nodes with their advertised GPUs."""
        cluster, used = self.cluster(), {str(inner(row.inputs, "spec", "nodeName")) for row in self.running()}
        found = [*listed(self.values().get("nodes"), cluster)]
        for group in groups(self.world, cluster):
            found.extend(numbered(group, used))
        return [self.advertised(one) for one in found]

    def running(self, node: str = "") -> Iterator[Record]:
        """Yield the pods on a node, or on all nodes without a name."""
        for row in self.world.find(POD):
            place = inner(row.inputs, "spec", "nodeName")
            if place and place == (node or place) and inner(row.outputs, "status", "phase") not in ENDED:
                yield row

    def daemons(self, what: str) -> Iterator[Mapping[str, Any]]:
        """Yield the pod specs of DaemonSets with `what` in their name or image.

        A DaemonSet that was edited to have no ready pod is left out.
        """
        for row in self.world.find(DAEMON_SET):
            if inner(row.outputs, "status", "numberReady") == 0:
                continue
            spec = inner(row.inputs, "spec", "template", "spec") or {}
            images = [str(one.get("image")) for _, one in items(spec.get("containers"))]
            if what in row.id or any(what in image for image in images):
                yield spec

    def advertised(self, node: Node) -> Node:
        """Return the node with its GPUs as allocatable if a device plugin runs on the node."""
        if not node.gpus:
            return node
        if any(takes_daemon(spec, node) for spec in self.daemons(LABELLER)):
            node = replace(node, labels={**node.labels, PCI_LABEL: "true"})
        if node.brings_plugin or any(takes_daemon(spec, node) for spec in self.daemons(PLUGIN)):
            return replace(node, allocatable={**node.allocatable, GPU: Fraction(node.gpus)})
        return node

    def gpus(self, name: str, container: Mapping[str, Any]) -> int:
        """Return the number of GPUs that a container sees on the node; 0 for an unknown node."""
        for node in (one for one in self.nodes() if one.name == name and one.gpus):
            spoken = [BROUGHT] if node.brings_plugin else []
            for spec in self.daemons(PLUGIN):
                spoken += [_strategy(spec)] if takes_daemon(spec, node) else []
            return gpus(container, node.toolkit, ",".join(spoken).split(","), node.gpus)
        return 0

    def place(
        self, spec: Mapping[str, Any], meta: Mapping[str, Any] | None = None, launches: Launches | None = None
    ) -> Placement:
        """Place a pod on a running node, or on a node that the cluster autoscaler starts.

        Args:
            spec: The spec of the pod.
            meta: The namespace and the labels of the pod, for anti-affinity.
            launches: The launches of new nodes. Without them, no node is started and the result is a prediction.
        """
        nodes, meta = self.nodes(), meta or {}
        found = [self._misfit(spec, one) or self._kept_off(spec, meta, one, nodes) for one in nodes]
        for node, wrong in zip(nodes, found, strict=True):
            if wrong is None:
                return Placement(node.name)
        wrongs = [one for one in found if one is not None]
        for group in self._growing(spec):
            node = self.advertised(group.node(self._next(group)))
            wrong = self._misfit(spec, node) or self._kept_off(spec, meta, node, nodes)
            if wrong is not None:
                wrongs.append(wrong)
            elif launches is None or not launches.refused(group):
                return Placement(node.name, started=group.name)
        return Placement(message=unschedulable(wrongs))

    def _misfit(self, spec: Mapping[str, Any], node: Node) -> Misfit | None:
        used: dict[str, Fraction] = {}
        for row in self.running(node.name):
            for name, amount in requests(inner(row.inputs, "spec") or {}).items():
                used[name] = used.get(name, Fraction(0)) + amount
        return misfit(spec, node, used)

    def _kept_off(
        self, spec: Mapping[str, Any], meta: Mapping[str, Any], node: Node, nodes: Iterable[Node]
    ) -> Misfit | None:
        known = {one.name: one for one in nodes}
        others = [
            affinity.Pod(inner(row.inputs, "metadata") or {}, inner(row.inputs, "spec") or {}, known[place])
            for row in self.running()
            if (place := str(inner(row.inputs, "spec", "nodeName"))) in known
        ]
        return affinity.kept_off(affinity.Pod(meta, spec, node), others)

    def _growing(self, spec: Mapping[str, Any]) -> Iterable[Group]:
        """Yield the groups in which the autoscaler would start a node for the pod.

        The autoscaler checks a running node of the group, or predicts the first node from the tags.
        """
        for group in groups(self.world, self.cluster()):
            if self._next(group) >= group.max_nodes:
                continue
            example = self.advertised(group.node(0)) if group.desired else group.imagined()
            if misfit(spec, example, {}) is None:
                yield group

    def _next(self, group: Group) -> int:
        """Return the number of the next node, or the maximum if the group is full."""
        used = {str(inner(row.inputs, "spec", "nodeName")) for row in self.running()}
        free = (number for number in range(group.desired, group.max_nodes) if f"{group.name}-{number}" not in used)
        return next(free, group.max_nodes)


def _strategy(spec: Mapping[str, Any]) -> str:
    """Return the device list strategy of a plugin's pod."""
    variables = [one for _, container in items(spec.get("containers")) for _, one in items(container.get("env"))]
    return next((str(one.get("value")) for one in variables if one.get("name") == STRATEGY), "")
