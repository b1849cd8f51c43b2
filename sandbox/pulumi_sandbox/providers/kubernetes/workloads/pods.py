"""Create the pods of controllers: the runners of scale sets and the pods of DaemonSets."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.kubernetes import kueue
from pulumi_sandbox.providers.kubernetes.helm.chart_objects import DAEMON_SET, RUNNER_SET
from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling.fit import runs_daemon
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement, Scheduler
from pulumi_sandbox.providers.kubernetes.workloads.runners import Runners, runner
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
WAITS = "the runner {} waits for quota: {}"


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
    if spec.get("schedulingGates"):
        # pkg/registry/core/pod/strategy.go, applySchedulingGatedCondition, at k8s.io/kubernetes v1.36.0.
        condition |= {"reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}
    elif not placement.node:
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
    runners: Runners

    def place_pods(self, row: Record, log: Log) -> None:
        """Place the pods of a new object, log the result, and store the pods that keep running."""
        no_known_nodes = self.scheduler.knows_no_node()
        if row.type == RUNNER_SET and no_known_nodes:
            log(NO_KNOWN_NODES, "info")
        elif row.type == RUNNER_SET:
            self._runners(row, log)
        elif row.type == DAEMON_SET and not no_known_nodes:  # without known nodes, a DaemonSet has no pods
            self._daemons(row, log)

    def missing_secrets(self, namespace: str, spec: Mapping[str, Any]) -> str:
        """Return the event about missing pull secrets; empty if all exist."""
        existing = self.scheduler.values().get("secrets") or ()
        names = [str(one.get("name")) for _, one in items(spec.get("imagePullSecrets"))]
        identities = {name: f"{namespace}/{name}" for name in names}
        missing = [
            name for name, each in identities.items() if each not in existing and not self.world.get(SECRET, each)
        ]
        return NO_SECRETS.format(", ".join(missing)) if missing else ""

    def forget(self, row: Record) -> None:
        if row.type == RUNNER_SET:
            self.runners.delete_idle(row)
            return
        for one in pods_of(self.world, str(inner(row.inputs, "metadata", "namespace")), row.name):
            self.world.delete(one.type, one.id, row.name)

    def _runners(self, row: Record, log: Log) -> None:
        spec, namespace = (
            inner(row.inputs, "spec", "template", "spec") or {},
            str(inner(row.inputs, "metadata", "namespace")),
        )
        if event := self.missing_secrets(namespace, spec):
            log(f"a runner for a job: {event}", "warning")
        meta = inner(row.inputs, "spec", "template", "metadata") or {}
        labels = meta.get("labels") or {}
        launches = self.scheduler.launches(log)
        waiting = ""
        for _ in range(int(inner(row.inputs, "spec", "minRunners") or 0)):
            name = f"{row.name}-{random_suffix()}-runner-{random_suffix()}"
            if reason := kueue.waits(self.world, namespace, labels, spec):
                gated = {**spec, "schedulingGates": [kueue.GATE]}
                pod_row = pod(row.name, namespace, name, gated, Placement(), labels, meta.get("annotations"))
                self.world.insert(pod_row)
                self.world.insert(runner(pod_row))
                if not waiting:
                    log(WAITS.format(name, reason), "info")
                waiting = reason
                continue
            placement = self.scheduler.place(spec, {"namespace": namespace}, launches)
            pod_row = pod(row.name, namespace, name, spec, placement, labels, meta.get("annotations"))
            self.world.insert(pod_row)
            self.world.insert(runner(pod_row))
            if not placement.node:
                log(f"the runner {pod_row.name} stays Pending: {placement.message}", "warning")
                return  # the next runners would stay Pending too
        if waiting:
            return
        if not inner(row.inputs, "spec", "minRunners"):
            placement = self.scheduler.place(spec, {"namespace": namespace})
            if not placement.node:
                log(f"a runner for a job would stay Pending: {placement.message}", "warning")

    def admit_waiting(self, log: Log) -> None:
        """Start the pods that wait for quota and now have it, the oldest first, as Kueue does after each change."""
        for row in self.world.find(POD):
            if not kueue.is_gated(row):
                continue
            meta, spec = row.inputs["metadata"], dict(row.inputs["spec"])
            spec.pop("schedulingGates")
            if kueue.waits(self.world, meta["namespace"], meta.get("labels") or {}, spec):
                continue
            placement = self.scheduler.place(spec, {"namespace": meta["namespace"]}, self.scheduler.launches(log))
            [owner] = [each["name"] for each in meta["ownerReferences"]]
            started = pod(
                owner, meta["namespace"], row.name, spec, placement, meta.get("labels"), meta.get("annotations")
            )
            self.world.update(POD, row.id, inputs=started.inputs, outputs=started.outputs, note="has quota")
            set_runner = runner(started)
            self.world.update(set_runner.type, row.id, outputs=set_runner.outputs)
            log(f"the runner {row.name} has quota now, and starts", "info")

    def _daemons(self, row: Record, log: Log) -> None:
        spec = inner(row.inputs, "spec", "template", "spec") or {}
        nodes = self.scheduler.nodes()
        node_names = [one.name for one in nodes if runs_daemon(spec, one)]
        log(f"{row.name} runs on {len(node_names)} of {len(nodes)} nodes", "info")
        namespace = str(inner(row.inputs, "metadata", "namespace"))
        if event := self.missing_secrets(namespace, spec):
            log(f"a pod of {row.name}: {event}", "warning")
