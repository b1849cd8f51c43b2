"""The pods of Jobs, and how many nodes run the pod of a DaemonSet or have room for a runner."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.kubernetes.helm.charts import DAEMON_SET, RUNNER_SET
from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement, Scheduler
from pulumi_sandbox.providers.resource import Log
from pulumi_sandbox.world.store import Record, World

# Characters of random names, without vowels and easily misread ones (k8s.io/apimachinery, pkg/util/rand).
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
NO_KNOWN_NODES = (
    "the sandbox knows no node of this cluster, so it does not schedule pods; it uses the node groups of EKS and the "
    "nodes in sandbox.yaml: values: {kubernetes: {nodes: [...]}}"
)
SECRET = "kubernetes:core/v1:Secret"  # noqa: S105
# k8s.io/kubernetes v1.36.0, pkg/kubelet/events/event.go, FailedToRetrieveImagePullSecret.
NO_SECRETS = (
    "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets ({}); attempting to pull the image "
    "may not succeed."
)


def random_suffix() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(5))


def pod(
    owner: str,
    namespace: str,
    name: str,
    spec: Mapping[str, Any],
    placement: Placement,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Record:
    """Return the record of a pod; `owner` is the name of the object that created the pod."""
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "ownerReferences": [{"name": owner}]}
    if labels:
        meta["labels"] = dict(labels)
    if annotations:
        meta["annotations"] = dict(annotations)
    fields = {"metadata": meta, "spec": {**spec, **({"nodeName": placement.node} if placement.node else {})}}
    condition = {"type": "PodScheduled", "status": "True" if placement.node else "False"}
    if not placement.node:
        condition |= {"reason": "Unschedulable", "message": placement.message}
    status = {"phase": "Running" if placement.node else "Pending", "conditions": [condition]}
    return Record(POD, f"{namespace}/{name}", name, "", fields, {**fields, "status": status}, "controller")


def pods_of(world: World, namespace: str, owner: str) -> list[Record]:
    return [
        row
        for row in world.find(POD)
        if inner(row.inputs, "metadata", "namespace") == namespace
        and [one.get("name") for one in inner(row.inputs, "metadata", "ownerReferences") or ()] == [owner]
    ]


@dataclass
class Workloads:
    """The pods of the emulated clusters: where they run and what their status is."""

    world: World
    scheduler: Scheduler

    def report_pods(self, row: Record, log: Log) -> None:
        """Log if the pods of a new scale set or DaemonSet fit the nodes. These pods are not stored."""
        if row.type not in (RUNNER_SET, DAEMON_SET):
            return
        no_known_nodes = self.scheduler.knows_no_node()
        spec, namespace = inner(row.inputs, "spec", "template", "spec") or {}, row.id.partition("/")[0]
        if event := self.missing_secrets(namespace, spec):
            log(f"a pod of {row.name}: {event}", "warning")
        if row.type == RUNNER_SET and no_known_nodes:
            log(NO_KNOWN_NODES, "info")
        elif row.type == RUNNER_SET:
            placed = self.scheduler.place(spec)
            if not placed.node:
                log(f"a runner for a job would stay Pending: {placed.message}", "warning")

    def has_secret(self, namespace: str, name: str) -> bool:
        identity = f"{namespace}/{name}"
        listed = self.scheduler.values().get("secrets") or ()
        return identity in listed or self.world.get(SECRET, identity) is not None

    def missing_secrets(self, namespace: str, spec: Mapping[str, Any]) -> str:
        """Return the event about missing pull secrets; empty if all exist."""
        names = [str(one.get("name")) for _, one in items(spec.get("imagePullSecrets"))]
        missing = ", ".join(name for name in names if not self.has_secret(namespace, name))
        return NO_SECRETS.format(missing) if missing else ""
