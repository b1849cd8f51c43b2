"""Place pods on the nodes of a cluster, and start nodes for pods that do not fit.

Source of the checks and their messages: k8s.io/kubernetes v1.36.0, pkg/scheduler/framework: types.go (FitError) and
plugins/{tainttoleration,nodeaffinity,noderesources}. The first failed check gives the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from pulumi_sandbox.providers.aws.eks.api import ACTIVITY as LAUNCH_FAILED
from pulumi_sandbox.providers.kubernetes.helm.charts import DAEMON_SET
from pulumi_sandbox.providers.kubernetes.objects import inner, items, pairs
from pulumi_sandbox.providers.kubernetes.quantities import amounts
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import (
    GPU,
    NODE_GROUP,
    NODE_POOL,
    ZONE,
    Group,
    Node,
    Taint,
    groups,
    listed_nodes,
)
from pulumi_sandbox.providers.resource import Log
from pulumi_sandbox.world.store import Record, World

POD = "kubernetes:core/v1:Pod"
DEVICE_PLUGIN = "device-plugin"
ENDED = ("Succeeded", "Failed")
UNTOLERATED = "node(s) had untolerated taint(s)"
NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
NO_NODES = "no nodes available to schedule pods"
BLOCKING = ("NoSchedule", "NoExecute")
# Taints that a program of the cluster removes from new nodes (kubernetes/autoscaler, cluster-autoscaler/FAQ.md).
STARTUP = "startup-taint.cluster-autoscaler.kubernetes.io/"
Spec = Mapping[str, Any]
"""The spec of a pod."""


def requests(spec: Spec) -> dict[str, Fraction]:
    """Return the requests of a pod: for each resource, the sum of its containers or its largest init container."""
    total: dict[str, Fraction] = {}
    for _, one in items(spec.get("containers")):
        for name, amount in _container_requests(one).items():
            total[name] = total.get(name, Fraction(0)) + amount
    for _, one in items(spec.get("initContainers")):
        for name, amount in _container_requests(one).items():
            total[name] = max(total.get(name, Fraction(0)), amount)
    return total


def _container_requests(container: Mapping[str, Any]) -> dict[str, Fraction]:
    resources = inner(container, "resources") or {}
    # The default of a request is the limit (pkg/apis/core/v1/defaults.go, SetDefaults_Pod).
    return amounts({**(inner(resources, "limits") or {}), **(inner(resources, "requests") or {})})


def _tolerates(spec: Spec, taint: Taint, node: Node) -> bool:
    """Return True if a toleration matches the taint (k8s.io/api v0.36.0, core/v1/toleration.go, ToleratesTaint).

    Source of the added tolerations: plugin/pkg/admission/extendedresourcetoleration/admission.go.
    """
    if node.adds_tolerations and taint.effect == "NoSchedule" and "/" in taint.key and taint.key in requests(spec):
        return True
    return any(
        one.get("effect") in (None, "", taint.effect)
        and one.get("key") in (None, "", taint.key)
        and (one.get("operator") == "Exists" or (one.get("value") or "") == taint.value)
        for _, one in items(spec.get("tolerations"))
    )


def _meets(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return True if the labels meet one requirement of a node affinity. Gt and Lt are not compared."""
    key, values = str(requirement.get("key")), [str(one) for one in requirement.get("values") or ()]
    among = labels.get(key) in values
    results = {"In": among, "NotIn": not among, "Exists": key in labels, "DoesNotExist": key not in labels}
    return results.get(str(requirement.get("operator")), True)


def _matches_affinity(spec: Spec, node: Node) -> bool:
    """Return True if the node matches the nodeSelector and every expression of one required affinity term."""
    if any(node.labels.get(name) != value for name, value in pairs(spec.get("nodeSelector"))):
        return False
    required = inner(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = (items(term.get("matchExpressions")) for _, term in items(inner(required, "nodeSelectorTerms")))
    return required is None or any(all(_meets(one, node.labels) for _, one in term) for term in terms)


def may_run(spec: Spec, node: Node) -> str:
    """Return why the taints or labels of a node keep a pod away; empty if they do not."""
    if any(one.effect in BLOCKING and not _tolerates(spec, one, node) for one in node.taints):
        return UNTOLERATED
    return "" if _matches_affinity(spec, node) else NO_AFFINITY


def misfits(spec: Spec, node: Node, used: Mapping[str, Fraction]) -> list[str]:
    """Return the reasons why a pod does not fit a node; empty if the pod fits."""
    if reason := may_run(spec, node):
        return [reason]
    reasons = []
    for name, requested in requests(spec).items():
        allocatable = node.allocatable.get(name, Fraction(0) if "/" in name else None)
        if allocatable is not None and requested and requested > allocatable - used.get(name, Fraction(0)):
            reasons.append(f"Insufficient {name}")
    return reasons


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
        """Return the running nodes: the listed and desired ones, and those started for pods that still run."""
        cluster, used = self.cluster(), self._used_nodes()
        found = [*listed_nodes(self.values().get("nodes"), cluster)]
        for group in groups(self.world, cluster):
            numbers = range(max(group.desired, group.max_nodes))
            found += [group.node(at) for at in numbers if at < group.desired or f"{group.name}-{at}" in used]
        return [self._advertised(node) for node in found]

    def _used_nodes(self) -> set[str]:
        return {str(inner(row.inputs, "spec", "nodeName")) for row in self._running()}

    def _running(self, node: str = "") -> Iterator[Record]:
        """Yield the pods on a node, or on all nodes without a name."""
        for row in self.world.find(POD):
            place = inner(row.inputs, "spec", "nodeName")
            if place and place == (node or place) and inner(row.outputs, "status", "phase") not in ENDED:
                yield row

    def _advertised(self, node: Node) -> Node:
        """Return the node without its GPUs if no device plugin runs on it.

        A plugin that was edited to have no ready pod does not run.
        """
        for row in self.world.find(DAEMON_SET) if node.needs_plugin else ():
            spec = inner(row.inputs, "spec", "template", "spec") or {}
            is_ready = DEVICE_PLUGIN in row.id and inner(row.outputs, "status", "numberReady") != 0
            if is_ready and not may_run(spec, node):
                return node
        without = {name: amount for name, amount in node.allocatable.items() if name != GPU}
        return replace(node, allocatable=without) if node.needs_plugin else node

    def place(self, spec: Spec, launches: Launches | None = None) -> Placement:
        """Place a pod on a running node, or on a node that the cluster autoscaler starts.

        Args:
            spec: The spec of the pod.
            launches: The launches of new nodes. Without them, no node is started and the result is a prediction, as if
                all startup taints were removed.
        """
        reasons = []
        removed = STARTUP if launches is None else None
        for node in (each.without(removed) for each in self.nodes()):
            reasons.append(misfits(spec, node, self._used(node)))
            if not reasons[-1]:
                return Placement(node.name)
        for group in groups(self.world, self.cluster()):
            used = self._used_nodes()
            free = (at for at in range(group.desired, group.max_nodes) if f"{group.name}-{at}" not in used)
            number = next(free, None)
            if number is None:
                continue
            expected = group.node(number).without(removed)
            node = self._advertised(expected)
            # The autoscaler checks a running node of the group, or predicts the GPUs from the machine type.
            if misfits(spec, node if group.desired else expected, {}):
                continue
            if why := misfits(spec, node, {}):
                reasons.append(why)
            elif launches is None or not launches.is_refused(group):
                return Placement(node.name, started=group.name)
        return Placement(message=_unschedulable(reasons))

    def _used(self, node: Node) -> dict[str, Fraction]:
        """Return the requests of the pods on a node. Those of DaemonSets do not count."""
        total: dict[str, Fraction] = {}
        for row in self._running(node.name):
            for name, amount in requests(inner(row.inputs, "spec") or {}).items():
                total[name] = total.get(name, Fraction(0)) + amount
        return total


def _unschedulable(reasons: Iterable[list[str]]) -> str:
    """Return the scheduler's message for a pod that fits no node, without its part about preemption."""
    nodes = list(reasons)
    counts = Counter(reason for of_node in nodes for reason in of_node)
    texts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{len(nodes)} nodes are available: {texts}." if nodes else NO_NODES


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
        row, zone = group.row, group.pattern.labels.get(ZONE)
        place = {"zone": zone} if zone else {}
        for kind, message in FAULTS[row.type].items():
            if fault := self.world.take_fault(kind, row.type, row.name, id=row.id, **place):
                self.world.event(LAUNCH_FAILED, row.type, row.id, fault.message or message, row.cluster)
                self.log(NO_NODE.format(group.name, fault.message or message), "info")
                if fault.times == 0:
                    self.permanently_refused.add(group.name)
                else:
                    self.log(NEXT_TRY, "info")
                return True
        return False
