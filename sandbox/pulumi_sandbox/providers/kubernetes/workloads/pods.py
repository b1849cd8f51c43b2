"""Create the pods of controllers: the runners of scale sets and the pods of DaemonSets."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.kubernetes.helm.chart_objects import DAEMON_SET, RUNNER_SET
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner
from pulumi_sandbox.providers.kubernetes.scheduling.fit import takes_daemon
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement, Scheduler
from pulumi_sandbox.providers.kubernetes.workloads.images import Images
from pulumi_sandbox.providers.kubernetes.workloads.runners import Runners, runner
from pulumi_sandbox.providers.resource import Log
from pulumi_sandbox.world.store import Record, World

# Characters of random names, without vowels and easily misread ones (k8s.io/apimachinery, pkg/util/rand).
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
BLIND = (
    "the sandbox knows no node of this cluster, so it does not schedule pods; it uses the node groups of EKS and the "
    "nodes in sandbox.yaml: values: {kubernetes: {nodes: [...]}}"
)


def ending() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(5))


def pod(
    owner: str,
    namespace: str,
    name: str,
    spec: Mapping[str, Any],
    placed: Placement,
    labels: Mapping[str, str] | None = None,
) -> Record:
    """Return the record of a pod; `owner` is the name of the object that created the pod."""
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "ownerReferences": [{"name": owner}]}
    if labels:
        meta["labels"] = dict(labels)
    given = {"metadata": meta, "spec": {**spec, **({"nodeName": placed.node} if placed.node else {})}}
    condition = {"type": "PodScheduled", "status": "True" if placed.node else "False"}
    if not placed.node:
        condition |= {"reason": "Unschedulable", "message": placed.message}
    status = {"phase": "Running" if placed.node else "Pending", "conditions": [condition]}
    return Record(POD, f"{namespace}/{name}", name, "", given, {**given, "status": status}, "controller")


def pods_of(world: World, namespace: str, owner: str) -> list[Record]:
    return [
        row
        for row in world.find(POD)
        if inner(row.inputs, "metadata", "namespace") == namespace
        and [one.get("name") for one in inner(row.inputs, "metadata", "ownerReferences") or ()] == [owner]
    ]


@dataclass
class Workloads:
    world: World
    scheduler: Scheduler
    runners: Runners
    images: Images

    def settle(self, row: Record, log: Log) -> None:
        """Place the pods of a new object, log the result, and store the pods that keep running."""
        blind = self.scheduler.is_blind()
        if row.type == RUNNER_SET and blind:
            log(BLIND, "info")
        elif row.type == RUNNER_SET:
            self._runners(row, log)
        elif row.type == DAEMON_SET and not blind:  # without known nodes, a DaemonSet has no pods
            self._daemons(row, log)

    def forget(self, row: Record) -> None:
        if row.type == RUNNER_SET:
            self.runners.dismiss(row)
            return
        for one in pods_of(self.world, str(inner(row.inputs, "metadata", "namespace")), row.name):
            self.world.delete(one.type, one.id, row.name)

    def _runners(self, row: Record, log: Log) -> None:
        spec, space = (
            inner(row.inputs, "spec", "template", "spec") or {},
            str(inner(row.inputs, "metadata", "namespace")),
        )
        for event in filter(None, (self.images.missing_secrets(space, spec), self.images.back_off(space, spec))):
            log(f"a runner for a job would not start: {event}", "warning")
        launches = self.scheduler.launches(log)
        for _ in range(int(inner(row.inputs, "spec", "minRunners") or 0)):
            placed = self.scheduler.place(spec, launches=launches)
            made = pod(row.name, space, f"{row.name}-{ending()}-runner-{ending()}", spec, placed)
            self.world.insert(made)
            self.world.insert(runner(made))
            if not placed.node:
                log(f"the runner {made.name} stays Pending: {placed.message}", "warning")
                return  # the next runners would stay Pending too
        if not inner(row.inputs, "spec", "minRunners"):
            placed = self.scheduler.place(spec)
            if not placed.node:
                log(f"a runner for a job would stay Pending: {placed.message}", "warning")

    def _daemons(self, row: Record, log: Log) -> None:
        spec = inner(row.inputs, "spec", "template", "spec") or {}
        nodes = self.scheduler.nodes()
        taken = [one.name for one in nodes if takes_daemon(spec, one)]
        log(f"{row.name} runs on {len(taken)} of {len(nodes)} nodes", "info")
