"""Run Jobs: place their pods, and really run the containers that the sandbox can run.

A cluster would wait minutes for a pod that cannot run. The sandbox does not wait, and reports the same result at once.
The pods of a Job run one after another. The programs of a Job with several pods at a time are not run, because they may
wait for each other. The sandbox emulates neither podFailurePolicy, successPolicy nor restarts in the same pod.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement
from pulumi_sandbox.providers.kubernetes.workloads import await_rules
from pulumi_sandbox.providers.kubernetes.workloads.containers import ContainerResult, Containers, Pod
from pulumi_sandbox.providers.kubernetes.workloads.pods import (
    NO_KNOWN_NODES,
    Workloads,
    pod,
    pods_of,
    random_suffix,
    unschedulable,
)
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.secret_digests import hash_secrets
from pulumi_sandbox.world.store import Record, now

# The time in which a new node may appear: the same `up` may create a node group a moment after the Job.
NEW_NODE_SEC = 3.0
POLL_SEC = 0.2
UNKNOWN_NODE = "a-node-the-sandbox-does-not-know"
NOT_RUN = "the sandbox assumes that the container {} succeeds: it runs only programs in a zip of a ConfigMap"
# k8s.io/kubernetes v1.36.0, pkg/controller/job and pkg/apis/batch/v1/defaults.go.
BACKOFF = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
DEFAULT_BACKOFF_LIMIT = 6


@dataclass
class Attempt:
    """One pod of a Job, from its creation to its end."""

    name: str
    node: str = ""
    waiting: bool = False
    """True if the image cannot be pulled."""
    last_message: str | None = None
    """The reason why no node fits the pod."""


@dataclass
class JobRun:
    """One run of a Job, from its first pod to its result."""

    res: Resource
    workloads: Workloads
    containers: Containers
    cancelled: threading.Event
    started: str = field(default_factory=now)
    active: Attempt | None = None
    succeeded: int = 0
    failed: int = 0
    condition: tuple[str, str] | None = None
    """The reason and the message of a failed Job."""
    given_up: bool = False
    watched: list[dict[str, Any]] = field(default_factory=list)
    """The pods before the end of the Job deletes some. The provider reports the warnings of them all."""

    def __post_init__(self) -> None:
        self.world = self.workloads.world
        meta = inner(self.res.inputs, "metadata") or {}
        self.job, self.namespace = str(meta.get("name")), str(meta.get("namespace"))
        self.label = await_rules.qualified(meta)
        self.spec = inner(self.res.inputs, "spec") or {}
        self.template: Mapping[str, Any] = self.spec.get("template") or {}
        self.pod: Mapping[str, Any] = self.template.get("spec") or {}
        # The emulated state stores the pods with hashed secrets.
        hashed = hash_secrets(self.res.inputs, self.res.secrets, self.world.key)
        self.stored_spec: Mapping[str, Any] = inner(hashed, "spec", "template", "spec") or {}
        # The labels of the controller (pkg/controller/job, k8s.io/kubernetes v1.36.0).
        job = {f"{prefix}job-name": self.job for prefix in ("", "batch.kubernetes.io/")}
        self.labels = {**(inner(self.template, "metadata", "labels") or {}), **job}
        self.launches = self.workloads.scheduler.launches(self.res.log)
        self.began = time.monotonic()
        self.limit = await_rules.timeout_sec(self.res)
        seconds = self.spec.get("activeDeadlineSeconds")
        self.deadline = None if seconds is None else float(seconds)
        self.completions = self._number("completions", self._number("parallelism", 1))

    def _number(self, name: str, default: int) -> int:
        return default if self.spec.get(name) is None else int(self.spec[name])

    @property
    def is_over(self) -> bool:
        return self.condition is not None or self.succeeded >= self.completions

    def run(self) -> dict[str, Any]:
        """Return the Job's status once the Job is over or nothing more would happen."""
        if self.workloads.scheduler.knows_no_node():
            self.res.log(NO_KNOWN_NODES, "info")
        while not (self.is_over or self.given_up or self.cancelled.is_set() or self.spec.get("suspend")):
            self._run_pod()
        self.watched = [row.outputs for row in pods_of(self.world, self.namespace, self.job)]
        if self.is_over and self.active:
            self._remove()  # the controller deletes the pods that still run or wait
        self._progress()
        return self._status()

    def _progress(self) -> None:
        """Log the progress of the Job (job/check.go, jobComplete)."""
        counts = f"Active: {int(self.active is not None)} | Succeeded: {self.succeeded} | Failed: {self.failed}"
        self.res.log(f'Waiting for Job "{self.label}" to succeed ({counts})', "status")

    def _run_pod(self) -> None:
        """Run one pod, or give up if it gets no node."""
        self.active = attempt = Attempt(f"{self.job}-{random_suffix()}")
        self._progress()
        until = time.monotonic() + NEW_NODE_SEC
        self._start(attempt)
        while not attempt.node and time.monotonic() < until and not self.cancelled.wait(POLL_SEC):
            self._start(attempt)
        if attempt.node and not attempt.waiting:
            self._record_end(attempt, self._run_containers(attempt))
        elif not self.cancelled.is_set():
            self._report_timeout()

    def _start(self, attempt: Attempt) -> None:
        """Create the pod, and place it on a node if one fits."""
        scheduler = self.workloads.scheduler
        placed = Placement(UNKNOWN_NODE)
        if not scheduler.knows_no_node():
            placed = scheduler.place(self.pod, self.launches)
        if not placed.node and placed.message == attempt.last_message:
            return
        annotations = inner(self.template, "metadata", "annotations")
        row = pod(self.job, self.namespace, attempt.name, self.stored_spec, placed, self.labels, annotations)
        self.world.delete(POD, row.id, self.job)
        self.world.insert(row)
        attempt.node, attempt.last_message = placed.node, placed.message
        if placed.started:
            self.res.log(f"the cluster autoscaler starts {placed.node} in the group {placed.started}", "info")
        if placed.node:
            self._pull(attempt, row)

    def _pull(self, attempt: Attempt, row: Record) -> None:
        """Pull the images of a pod that has a node. A planted fault makes the pull of the first container fail."""
        if event := self.workloads.missing_secrets(self.namespace, self.pod):
            self.res.log(f"{row.name}: {event}", "info")
        fault = self.world.take_fault("image", self.res.token, self.res.name, id=self.res.id)
        if fault is None:
            return
        attempt.waiting = True
        container = next((one for _, one in items(self.pod.get("containers"))), {})
        # pkg/kubelet/images/image_manager.go.
        message = ": ".join(filter(None, (f'Back-off pulling image "{container.get("image")}"', fault.message)))
        state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
        self._set_status(row, "Pending", [{"name": str(container.get("name")), "state": state}])

    def _run_containers(self, attempt: Attempt) -> list[ContainerResult]:
        """Run the init containers one after another, then the other containers in parallel."""
        elapsed = time.monotonic() - self.began
        left_sec = self.limit if self.deadline is None else max(0.0, min(self.limit, self.deadline - elapsed))
        fault = self.world.take_fault("guest", self.res.token, self.res.name, id=self.res.id)
        variables = {**self.containers.settings().environment, **(fault.settings if fault else {})}
        facts = Pod(attempt.name, self.namespace, attempt.node, self.pod, variables, self.labels)
        results: list[ContainerResult] = []
        for kind in ("initContainers", "containers"):
            containers = [container for _, container in items(self.pod.get(kind))]
            with ThreadPoolExecutor(1 if kind == "initContainers" else len(containers) or 1) as pool:
                results += pool.map(lambda container: self._container(facts, container, left_sec), containers)
            if any(ended.exit_code for ended in results):
                break
        return results

    def _container(self, facts: Pod, container: Mapping[str, Any], left_sec: float) -> ContainerResult:
        is_assumed = self.containers.settings().assumed is not None or self._number("parallelism", 1) > 1
        if is_assumed or not self.containers.programs(self.namespace, self.pod, container):
            self.res.log(NOT_RUN.format(container.get("name")), "info")
            return ContainerResult(str(container.get("name")))
        return self.containers.run(
            facts, container, left_sec, lambda line: self.res.log(line, "status"), self.cancelled.is_set
        )

    def _record_end(self, attempt: Attempt, containers: list[ContainerResult]) -> None:
        if any(container.killed for container in containers):
            # The deadline, the timeout or the end of the sandbox stopped the pod.
            if self.deadline is not None and time.monotonic() - self.began >= self.deadline:
                self.condition = DEADLINE
            self.given_up = True
            self._remove()
            return
        self.active = None
        succeeded = not any(container.exit_code for container in containers)
        self._finish(attempt, containers, succeeded=succeeded)
        self.succeeded += succeeded
        self.failed += not succeeded
        if self.failed > self._number("backoffLimit", DEFAULT_BACKOFF_LIMIT):
            self.condition = BACKOFF

    def _remove(self) -> None:
        if self.active:
            self.world.delete(POD, f"{self.namespace}/{self.active.name}", self.job)
        self.active = None

    def _finish(self, attempt: Attempt, containers: list[ContainerResult], *, succeeded: bool) -> None:
        """Store the exit codes and termination messages of a pod."""
        row = self.world.get(POD, f"{self.namespace}/{attempt.name}")
        if row is not None:
            states = [
                {"name": ended.name, "state": {"terminated": {
                    "exitCode": ended.exit_code, "reason": "Error" if ended.exit_code else "Completed",
                    **({"message": ended.message} if ended.message else {}),
                }}}
                for ended in containers
            ]  # fmt: skip
            self._set_status(row, "Succeeded" if succeeded else "Failed", states)

    def _set_status(self, row: Record, phase: str, states: list[dict[str, Any]]) -> None:
        """Update the status of a pod. Init containers have their own list, which Pulumi does not read."""
        init_names = {str(state.get("name")) for _, state in items(self.pod.get("initContainers"))}
        lists = {
            "initContainerStatuses": [state for state in states if state["name"] in init_names],
            "containerStatuses": [state for state in states if state["name"] not in init_names],
        }
        nonempty = {key: states_of_kind for key, states_of_kind in lists.items() if states_of_kind}
        status = {**(inner(row.outputs, "status") or {}), "phase": phase, **nonempty}
        self.world.update(row.type, row.id, outputs={**row.outputs, "status": status})

    def _report_timeout(self) -> None:
        """Report at once the result that a cluster would report after minutes without events."""
        for row in pods_of(self.world, self.namespace, self.job):
            if message := unschedulable(row):
                self.res.log(f"{row.name}: FailedScheduling: {message}", "info")
        self.given_up = True
        if self.deadline is not None and self.deadline - (time.monotonic() - self.began) <= self.limit:
            self.condition = DEADLINE
            self.res.log(f"the sandbox does not wait for the {self.deadline:.0f} s of activeDeadlineSeconds", "info")
        else:
            text = f"the sandbox does not wait for the {self.limit:.0f} s after which the provider gives up"
            self.res.log(text, "info")

    def _status(self) -> dict[str, Any]:
        counts = {"succeeded": self.succeeded, "failed": self.failed, "active": int(self.active is not None)}
        fields: dict[str, Any] = {"startTime": self.started, **{name: one for name, one in counts.items() if one}}
        if self.condition:
            reason, message = self.condition
            fields["conditions"] = [{"type": "Failed", "status": "True", "reason": reason, "message": message}]
        elif self.is_over:
            fields |= {"completionTime": now(), "conditions": [{"type": "Complete", "status": "True"}]}
        return fields
