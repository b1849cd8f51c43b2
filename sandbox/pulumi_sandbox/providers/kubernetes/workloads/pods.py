"""The pods that controllers keep: runners of scale sets, and the daemons of DaemonSets, as far as they take room."""

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

# k8s.io/apimachinery, pkg/util/rand: without vowels and what is easily misread.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
BLIND = (
    "no node is known in the sandbox, so nothing is said of where pods go; node groups of EKS are seen, others are "
    "told in sandbox.yaml: values: {kubernetes: {nodes: [...]}}"
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
    """A row for a pod; `owner` is the id of what made it."""
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
        """Says where the pods of an object that just came go, and keeps the room of those that stay."""
        blind = self.scheduler.is_blind()
        if row.type == RUNNER_SET and blind:
            log(BLIND, "info")
        elif row.type == RUNNER_SET:
            self._runners(row, log)
        elif row.type == DAEMON_SET and not blind:  # whose pods come with the nodes
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
                return  # so does the next one
        if not inner(row.inputs, "spec", "minRunners"):
            placed = self.scheduler.place(spec)
            if not placed.node:
                log(f"a runner for a job would stay Pending: {placed.message}", "warning")

    def _daemons(self, row: Record, log: Log) -> None:
        spec = inner(row.inputs, "spec", "template", "spec") or {}
        nodes = self.scheduler.nodes()
        taken = [one.name for one in nodes if takes_daemon(spec, one)]
        log(f"{row.name} runs on {len(taken)} of {len(nodes)} nodes", "info")
