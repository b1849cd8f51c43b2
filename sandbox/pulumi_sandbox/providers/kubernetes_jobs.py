"""Runs the Jobs of the world: its pods are scheduled, and containers that can be run really run.

Where nothing more would happen for minutes, the sandbox says at once what would come after them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pulumi_sandbox.providers import kubernetes_await as awaiting
from pulumi_sandbox.providers import kubernetes_job_rules as rules
from pulumi_sandbox.providers import kubernetes_quota as quota
from pulumi_sandbox.providers.kubernetes_containers import Containers, Ended, Pod
from pulumi_sandbox.providers.kubernetes_pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes_scheduler import POD, Placement
from pulumi_sandbox.providers.kubernetes_workloads import BLIND, Workloads, ending, pod, pods_of
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.sealing import seal
from pulumi_sandbox.world import Record, now

# A node group that the same `up` makes beside the Job may come a moment later.
PATIENCE_SEC = 3.0
UNKNOWN_NODE = "a-node-the-sandbox-does-not-know"
NOT_RUN = "the container {} is taken to succeed: the sandbox runs only programs that a ConfigMap brings as a zip"


@dataclass
class Attempt:
    """A pod of a Job, from its creation to its end."""

    index: int | None
    name: str = ""
    node: str = ""
    waiting: str = ""


@dataclass
class JobRun:
    res: Resource
    workloads: Workloads
    containers: Containers
    cancelled: threading.Event
    started: str = field(default_factory=now)
    active: list[Attempt] = field(default_factory=list)
    refused: str = ""
    """Why the controller could not make a pod."""
    given_up: bool = False

    def __post_init__(self) -> None:
        self.world = self.workloads.world
        self.spec: Mapping[str, Any] = inner(self.res.inputs, "spec") or {}
        self.pod: Mapping[str, Any] = inner(self.spec, "template", "spec") or {}
        meta = inner(self.res.inputs, "metadata") or {}
        self.name, self.namespace = str(meta.get("name")), str(meta.get("namespace"))
        self.label = awaiting.qualified(meta)
        self.tally = rules.Tally(self.spec)
        # What the world may keep of the pods.
        kept = seal(self.res.inputs, self.res.secrets, self.world.key)
        self.kept: Mapping[str, Any] = inner(kept, "spec", "template", "spec") or {}
        self.began = time.monotonic()
        self.limit = awaiting.timeout_sec(self.res)

    @property
    def deadline(self) -> float | None:
        given = self.spec.get("activeDeadlineSeconds")
        return None if given is None else float(given)

    def run(self) -> dict[str, Any]:
        """The Job's status once it is over, or once nothing more would happen."""
        parallel = int(1 if self.spec.get("parallelism") is None else self.spec["parallelism"])
        wanted = int(parallel if self.spec.get("completions") is None else self.spec["completions"])
        indexed = self.spec.get("completionMode") == "Indexed"
        left: list[int | None] = [*range(wanted)] if indexed else [None] * wanted
        if self.workloads.scheduler.is_blind():
            self.res.log(BLIND, "info")
        while not self.cancelled.is_set() and not self.spec.get("suspend") and not self.tally.is_over(wanted):
            while left and len(self.active) < parallel:
                self.active.append(Attempt(left.pop(0)))
            self._progress()
            placed = self._placed()
            if not placed:
                break
            left += self._ended(placed)
            if self.tally.ignored > rules.IGNORED_MOST:
                break
        over = self.tally.is_over(wanted)
        if not over and not self.cancelled.is_set():
            self._wait_out()
        self._progress()
        return rules.status(self.tally, self.started, now() if over else "", len(self.active))

    def _progress(self) -> None:
        """job/check.go, jobComplete."""
        counts = f"Active: {len(self.active)} | Succeeded: {self.tally.succeeded} | Failed: {self.tally.failed}"
        self.res.log(f'Waiting for Job "{self.label}" to succeed ({counts})', "status")

    def _placed(self) -> list[Attempt]:
        """The pods that can start now, after a moment if need be."""
        until = time.monotonic() + PATIENCE_SEC
        while True:
            for one in self.active:
                if not one.node and not one.waiting:
                    self._start(one)
            placed = [one for one in self.active if one.node and not one.waiting]
            if placed or time.monotonic() > until or self.cancelled.wait(0.2):
                return placed

    def _start(self, one: Attempt) -> None:
        index = "" if one.index is None else f"{one.index}-"
        name = one.name or f"{self.name}-{index}{ending()}"
        if not one.name:
            self.refused = next(quota.refusals(self.world, self.namespace, name, self.pod), "")
            if self.refused:
                return
        blind = self.workloads.scheduler.is_blind()
        placed = Placement(UNKNOWN_NODE) if blind else self.workloads.scheduler.place(self.pod)
        row = pod(self.name, self.namespace, name, self.kept, placed)
        self.world.delete(POD, row.id, self.name)
        self.world.insert(row)
        one.name, one.node = name, placed.node
        if placed.started:
            self.res.log(f"the cluster autoscaler starts {placed.node} in the group {placed.started}", "info")
        fault = self.world.take("image", self.res.token, self.res.name, id=self.res.id) if placed.node else None
        if fault:
            image = next((str(container.get("image")) for _, container in items(self.pod.get("containers"))), "")
            # pkg/kubelet/images/image_manager.go.
            one.waiting = f'Back-off pulling image "{image}"' + (f": {fault.message}" if fault.message else "")
            state = {"waiting": {"reason": "ImagePullBackOff", "message": one.waiting}}
            self._amend(row, "Pending", [{"name": self._first(), "state": state}])

    def _first(self) -> str:
        return next((str(one.get("name")) for _, one in items(self.pod.get("containers"))), "")

    def _ended(self, placed: list[Attempt]) -> list[int | None]:
        """Runs the pods beside each other; answers the indexes that are to be tried again."""
        with ThreadPoolExecutor(len(placed)) as several:
            results = list(several.map(self._run, placed))
        again = []
        for one, containers in zip(placed, results, strict=True):
            self.active.remove(one)
            if any(container.killed for container in containers):
                self._killed(one)
                continue
            before = self.tally.succeeded
            self.tally.count(f"{self.namespace}/{one.name}", one.index, containers)
            succeeded = self.tally.succeeded > before
            self._finish(one, containers, succeeded=succeeded)
            if not succeeded and self.pod.get("restartPolicy") == "OnFailure":
                self.tally.condition = self.tally.condition or rules.BACKOFF
            if not succeeded and one.index not in self.tally.failed_indexes:
                again.append(one.index)
        return again

    def _run(self, one: Attempt) -> list[Ended]:
        """Init containers one after the other, then the rest beside each other; here all of them in turn."""
        fault = self.world.take("guest", self.res.token, self.res.name, id=self.res.id)
        settings = self.containers.settings()
        index = {} if one.index is None else {"JOB_COMPLETION_INDEX": str(one.index)}
        environment = {**index, **settings.environment, **(fault.settings if fault else {})}
        about = Pod(one.name, self.namespace, one.node, self.pod, environment)
        found: list[Ended] = []
        for kind in ("initContainers", "containers"):
            for _, container in items(self.pod.get(kind)):
                if self.containers.programs(self.namespace, self.pod, container):
                    found.append(self._container(about, container))
                else:
                    self.res.log(NOT_RUN.format(container.get("name")), "info")
                    found.append(Ended(str(container.get("name"))))
            if any(ended.exit_code for ended in found):
                break
        return found

    def _container(self, about: Pod, container: Mapping[str, Any]) -> Ended:
        """With restartPolicy OnFailure it is started again in its pod, as often as the backoff limit lets it."""
        limit = self.spec.get("backoffLimit")
        tries = max(1, rules.DEFAULT_BACKOFF_LIMIT if limit is None else int(limit))
        if self.pod.get("restartPolicy") != "OnFailure":
            tries = 1
        for _ in range(tries):
            ended = self.containers.run(about, container, self._left(), lambda line: self.res.log(line, "status"))
            if ended.killed or not ended.exit_code:
                break
        return ended

    def _left(self) -> float:
        """Until the Job's deadline, or until the provider has waited long enough for a sign of life."""
        gone = time.monotonic() - self.began
        return self.limit if self.deadline is None else max(0.0, min(self.limit, self.deadline - gone))

    def _killed(self, one: Attempt) -> None:
        """A Job that is over deletes the pods it still had; one nobody waits for any more ends with the sandbox."""
        if self.deadline is not None and time.monotonic() - self.began >= self.deadline:
            self.tally.condition = rules.DEADLINE
        self.given_up = True
        self.world.delete(POD, f"{self.namespace}/{one.name}", self.name)

    def _finish(self, one: Attempt, containers: list[Ended], *, succeeded: bool) -> None:
        row = self.world.get(POD, f"{self.namespace}/{one.name}")
        if row is not None:
            states = [
                {"name": ended.name, "state": {"terminated": {
                    "exitCode": ended.exit_code, "reason": "Error" if ended.exit_code else "Completed",
                    **({"message": ended.message} if ended.message else {}),
                }}}
                for ended in containers
            ]  # fmt: skip
            self._amend(row, "Succeeded" if succeeded else "Failed", states)

    def _amend(self, row: Record, phase: str, states: list[dict[str, Any]]) -> None:
        status = {**(inner(row.outputs, "status") or {}), "phase": phase, "containerStatuses": states}
        self.world.update(row.type, row.id, outputs={**row.outputs, "status": status})

    def _wait_out(self) -> None:
        """Nothing more happens. What a cluster would say after minutes of silence is said now."""
        gone = time.monotonic() - self.began
        for row in pods_of(self.world, self.namespace, self.name):
            for _, one in items(inner(row.outputs, "status", "conditions")):
                if one.get("reason") == "Unschedulable":
                    self.res.log(f"{row.name}: FailedScheduling: {one['message']}", "info")
        if self.refused:
            self.res.log(f"{self.name}: FailedCreate: Error creating: {self.refused}", "info")
        if self.given_up:
            return
        if self.deadline is not None and self.deadline - gone <= self.limit:
            self.tally.condition = rules.DEADLINE
            self.res.log(f"the sandbox does not wait for the {self.deadline:.0f} s of activeDeadlineSeconds", "info")
        else:
            self.res.log(
                f"the sandbox does not wait for the {self.limit:.0f} s after which the provider gives up", "info"
            )
