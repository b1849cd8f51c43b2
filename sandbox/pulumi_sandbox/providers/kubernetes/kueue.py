"""Emulate Kueue: its objects, and the pods that wait for quota.

fixtures/kueue_definitions.json has three definitions of the chart: those with which programs set quotas. It has only
their newest version, without descriptions and without the conversion of older versions. To update the file, run
`helm template` for the chart, and shorten the three definitions in the same way.

Kueue's integration of pods adds a scheduling gate to each pod with the name of a LocalQueue, and removes the gate when
the ClusterQueue has quota for the pod. The sandbox emulates ClusterQueues with one ResourceFlavor. It emulates neither
preemption, nor trees of cohorts, nor priorities, nor selectors of namespaces.

Sources: kubernetes-sigs/kueue@8eab687, pkg/controller/jobs/pod/pod_webhook.go; pkg/cache/scheduler/resource_node.go,
available; pkg/scheduler/flavorassigner/flavorassigner.go, fitsResourceQuota.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from pulumi_sandbox.providers.kubernetes.fields import format_quantity, quantity
from pulumi_sandbox.providers.kubernetes.helm.charts import KUEUE, chart_of
from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling.fit import requests
from pulumi_sandbox.providers.kubernetes.schema import validation
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.world.store import Record, World

GROUP = "kueue.x-k8s.io"
CLUSTER_QUEUE, LOCAL_QUEUE, FLAVOR = (
    f"kubernetes:{GROUP}/v1beta2:{kind}" for kind in ("ClusterQueue", "LocalQueue", "ResourceFlavor")
)
RELEASE = "kubernetes:helm.sh/v3:Release"
# k8s.io/apimachinery, pkg/api/meta/errors.go, NoKindMatchError. Pulumi tries again for ten minutes, because definitions
# may be created in the same deployment (pulumi-kubernetes at 94977969, provider/pkg/await/await.go, Creation).
NO_KIND = (
    'no matches for kind "{}" in version "{}"\n'
    "  hint: the chart of Kueue has the definition of this kind; create the release first, with dependsOn"
)
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GATE = {"name": "kueue.x-k8s.io/admission"}
POD = "kubernetes:core/v1:Pod"
ENDED = ("Succeeded", "Failed")


@cache
def _definitions() -> dict[str, dict[str, Any]]:
    text = files("pulumi_sandbox").joinpath("fixtures", "kueue_definitions.json").read_text(encoding="utf-8")
    return {each["spec"]["names"]["kind"]: each["spec"] for each in json.loads(text)["definitions"]}


def is_cluster_wide(kind: str) -> bool | None:
    """Return True for a kind without namespaces, and None for a kind that the sandbox does not know."""
    spec = _definitions().get(kind)
    return None if spec is None else bool(spec["scope"] == "Cluster")


def check(api_version: str, kind: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of an object. A kind or a version that the sandbox does not know has none."""
    for version in _definitions().get(kind, {}).get("versions", ()):
        if api_version == f"{GROUP}/{version['name']}":
            schema = version["schema"]["openAPIV3Schema"]
            problems = list(validation.check_schema(schema, inputs))
            yield from problems or (_cluster_queue(inputs) if kind == "ClusterQueue" else ())


def refusals(world: World, token: str) -> Iterator[str]:
    """Yield an error if no release of Kueue has created the definitions."""
    if release(world) is None:
        _, version, kind = token.split(":")
        yield NO_KIND.format(kind, version)


def release(world: World) -> Record | None:
    """Return the release of Kueue, or None if it is not installed."""
    charts = ((chart_of(row.inputs), row) for row in world.find(RELEASE))
    return next((row for chart, row in charts if chart is not None and chart.name == KUEUE), None)


def delete_all(world: World, why: str) -> None:
    """Delete the objects of Kueue, because the API server deletes the objects of a definition with the definition.

    The definitions are templates of the chart, so Helm deletes them with the release.
    """
    for token in (LOCAL_QUEUE, CLUSTER_QUEUE, FLAVOR):
        for row in world.find(token):
            world.delete(token, row.id, why)


def _cluster_queue(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Evaluate the rule of the definition that concerns quotas (x-kubernetes-validations)."""
    quotas = [each for _, _, each in _quotas_of(inputs)]
    if any(each.get("borrowingLimit") is not None for each in quotas) and not inner(inputs, "spec", "cohortName"):
        yield Problem("spec", "Invalid value: borrowingLimit must be nil when cohort is empty")


def _quotas_of(cluster_queue: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the name of the flavor, the name of the resource and the quota of each resource."""
    for _, group in items(inner(cluster_queue, "spec", "resourceGroups")):
        for _, flavor in items(group.get("flavors")):
            for _, each in items(flavor.get("resources")):
                yield str(flavor.get("name")), str(each.get("name")), each


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
    """Return the reason why a new pod waits for quota. Return an empty text for a pod that starts at once."""
    queue, kueue = labels.get(QUEUE_LABEL), release(world)
    if not queue or kueue is None:
        return ""
    local_queue = world.get(LOCAL_QUEUE, f"{namespace}/{queue}")
    if local_queue is None:
        return f"LocalQueue {queue} doesn't exist"
    name = str(inner(local_queue.inputs, "spec", "clusterQueue"))
    cluster_queue = world.get(CLUSTER_QUEUE, name)
    if cluster_queue is None:
        return f"ClusterQueue {name} doesn't exist"
    text = inner(kueue.inputs, "values", "managerConfig", "controllerManagerConfigYaml")
    configuration = yaml.safe_load(text) if isinstance(text, str) else {}
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


def _quota(cluster_queue: Record, resource: str) -> Quota | None:
    cohort = str(inner(cluster_queue.inputs, "spec", "cohortName") or "")
    for flavor, name, each in _quotas_of(cluster_queue.inputs):
        if name == resource:
            borrowing, lending = (quantity(each.get(limit)) for limit in ("borrowingLimit", "lendingLimit"))
            return Quota(flavor, quantity(each.get("nominalQuota")) or Fraction(0), borrowing, lending, cohort)
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
    """Return the quota that the admitted pods of a ClusterQueue use, also those that wait for a node."""
    total = Fraction(0)
    for row in world.find(POD):
        if inner(row.outputs, "status", "phase") in ENDED or is_gated(row):
            continue
        namespace = inner(row.inputs, "metadata", "namespace")
        local_queue = world.get(LOCAL_QUEUE, f"{namespace}/{inner(row.inputs, 'metadata', 'labels', QUEUE_LABEL)}")
        if local_queue is not None and inner(local_queue.inputs, "spec", "clusterQueue") == cluster_queue:
            total += requests(inner(row.inputs, "spec") or {}).get(resource, Fraction(0))
    return total
