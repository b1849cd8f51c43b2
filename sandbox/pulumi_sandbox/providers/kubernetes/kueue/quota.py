"""Decide which pods wait for quota, as Kueue does.

Kueue's integration of pods adds a scheduling gate to each pod with the name of a LocalQueue, and removes the gate when
the ClusterQueue has quota for the pod. The sandbox emulates ClusterQueues with one ResourceFlavor. It emulates neither
preemption, nor trees of cohorts, nor the label with the name of a priority class.

Sources: kubernetes-sigs/kueue@8eab687, pkg/controller/jobs/pod/pod_webhook.go; pkg/cache/scheduler/resource_node.go,
available; pkg/scheduler/flavorassigner/flavorassigner.go, fitsResourceQuota.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import yaml

from pulumi_sandbox.providers.kubernetes.fields import format_quantity, quantity
from pulumi_sandbox.providers.kubernetes.kueue.definitions import CLUSTER_QUEUE, LOCAL_QUEUE, release
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes.rules.selectors import matches
from pulumi_sandbox.providers.kubernetes.scheduling.fit import requests
from pulumi_sandbox.world.store import Record, World

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GATE = {"name": "kueue.x-k8s.io/admission"}
POD, NAMESPACE = "kubernetes:core/v1:Pod", "kubernetes:core/v1:Namespace"
ENDED = ("Succeeded", "Failed")
# The fields of the chart's own configuration that matter here (charts/kueue/values.yaml).
DEFAULT_CONFIGURATION = {"integrations": {"frameworks": ["pod"]}}


@dataclass(frozen=True)
class Quota:
    """The quota of a ClusterQueue for one resource."""

    flavor: str
    nominal: Fraction
    borrowing: Fraction | None
    lending: Fraction | None
    cohort: str

    @property
    def guaranteed(self) -> Fraction:
        """The part of the quota that the queue does not lend."""
        return Fraction(0) if self.lending is None else self.nominal - self.lending


def waits(world: World, namespace: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> str:
    """Return the reason why a new pod waits for quota. Return an empty text for a pod that starts at once.

    Args:
        world: The emulated cloud.
        namespace: The namespace of the pod.
        labels: The labels of the pod.
        spec: The spec of the pod.
    """
    queue = labels.get(QUEUE_LABEL)
    configuration = _configuration(world)
    if not queue or configuration is None or not _is_managed(world, namespace, configuration):
        return ""
    local_queue = world.get(LOCAL_QUEUE, f"{namespace}/{queue}")
    if local_queue is None:
        return f"LocalQueue {queue} doesn't exist"
    name = str(inner(local_queue.inputs, "spec", "clusterQueue"))
    cluster_queue = world.get(CLUSTER_QUEUE, name)
    if cluster_queue is None:
        return f"ClusterQueue {name} doesn't exist"
    without_quota = tuple(inner(configuration, "resources", "excludeResourcePrefixes") or ())
    for resource, amount in requests(spec).items():
        if resource.startswith(without_quota):
            continue
        own = _quota(cluster_queue, resource)
        if own is None:
            return f"couldn't assign flavors to pod set main: resource {resource} unavailable in ClusterQueue"
        short = amount - _available(world, name, own, resource)
        if short > 0:
            return (
                f"couldn't assign flavors to pod set main: insufficient unused quota for {resource} in flavor "
                f"{own.flavor}, {format_quantity(short, binary=False)} more needed"
            )
    return ""


def is_gated(row: Record) -> bool:
    return GATE in (inner(row.inputs, "spec", "schedulingGates") or ())


def _configuration(world: World) -> Mapping[str, Any] | None:
    """Return the configuration of Kueue, or None if it is not installed."""
    row = release(world)
    if row is None:
        return None
    text = inner(row.inputs, "values", "managerConfig", "controllerManagerConfigYaml")
    found = yaml.safe_load(text) if isinstance(text, str) else DEFAULT_CONFIGURATION
    return found if isinstance(found, Mapping) else {}


def _is_managed(world: World, namespace: str, configuration: Mapping[str, Any]) -> bool:
    """Return True if Kueue's webhook sees the pods of the namespace. Without a selector, it sees nearly all."""
    if "pod" not in (inner(configuration, "integrations", "frameworks") or ()):
        return False
    row = world.get(NAMESPACE, namespace)
    labels = {**(inner(row.inputs, "metadata", "labels") or {})} if row else {}
    return matches(configuration.get("managedJobsNamespaceSelector") or {}, labels) is True


def _quota(cluster_queue: Record, resource: str) -> Quota | None:
    for _, group in items(inner(cluster_queue.inputs, "spec", "resourceGroups")):
        for _, flavor in items(group.get("flavors")):
            for _, each in items(flavor.get("resources")):
                if each.get("name") == resource:
                    return Quota(
                        str(flavor.get("name")),
                        quantity(each.get("nominalQuota")) or Fraction(0),
                        quantity(each.get("borrowingLimit")),
                        quantity(each.get("lendingLimit")),
                        str(inner(cluster_queue.inputs, "spec", "cohortName") or ""),
                    )
    return None


def _available(world: World, name: str, own: Quota, resource: str) -> Fraction:
    """Return the unused quota of a ClusterQueue, with the quota that it can borrow."""
    used = _used(world, name, resource)
    if not own.cohort:
        return own.nominal - used
    lent = Fraction(0)
    for row in world.find(CLUSTER_QUEUE):
        quota = _quota(row, resource)
        if quota is not None and (quota.cohort, quota.flavor) == (own.cohort, own.flavor):
            beyond = max(Fraction(0), _used(world, row.id, resource) - quota.guaranteed)
            lent += quota.nominal - quota.guaranteed - beyond
    if own.borrowing is not None:
        from_cohort = max(Fraction(0), used - own.guaranteed)
        lent = min(lent, own.nominal - own.guaranteed - from_cohort + own.borrowing)
    return max(Fraction(0), own.guaranteed - used) + lent


def _used(world: World, cluster_queue: str, resource: str) -> Fraction:
    """Return the quota that the admitted pods of a ClusterQueue use."""
    total = Fraction(0)
    for row in admitted(world):
        namespace = inner(row.inputs, "metadata", "namespace")
        local_queue = world.get(LOCAL_QUEUE, f"{namespace}/{inner(row.inputs, 'metadata', 'labels', QUEUE_LABEL)}")
        if local_queue is not None and inner(local_queue.inputs, "spec", "clusterQueue") == cluster_queue:
            total += requests(inner(row.inputs, "spec") or {}).get(resource, Fraction(0))
    return total


def admitted(world: World) -> Iterator[Record]:
    """Yield the pods of queues that have quota, also those that wait for a node."""
    for row in world.find(POD):
        if inner(row.outputs, "status", "phase") not in ENDED and not is_gated(row):
            yield row
