"""Run Jobs: place their pods, and really run the containers that the sandbox can run.

A cluster would wait minutes for a pod that cannot run. The sandbox does not wait, and reports the same result at once.
The sandbox emulates neither podFailurePolicy, successPolicy, backoffLimitPerIndex nor restarts in the same pod.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement
from pulumi_sandbox.providers.kubernetes.workloads import await_rules, containers
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

    index: int | None
    name: str = ""
    node: str = ""
    waiting: str = ""
    last_message: str = ""
    """The reason why no node fits the pod."""


@dataclass
class JobPods:
    """The pods of one Job: their creation, their place, their containers and their end."""

    res: Resource
    workloads: Workloads
    containers: Containers
    names: Path
    """The file with the DNS names of the pods."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set once the Job is over, to stop containers that still run."""

    def __post_init__(self) -> None:
        self.world = self.workloads.world
        meta = inner(self.res.inputs, "metadata") or {}
        self.job, self.namespace = str(meta.get("name")), str(meta.get("namespace"))
        self.template: Mapping[str, Any] = inner(self.res.inputs, "spec", "template") or {}
        self.pod: Mapping[str, Any] = inner(self.template, "spec") or {}
        # The emulated state stores the pods with hashed secrets.
        hashed = hash_secrets(self.res.inputs, self.res.secrets, self.world.key)
        self.stored_spec: Mapping[str, Any] = inner(hashed, "spec", "template", "spec") or {}
        self.launches = self.workloads.scheduler.launches(self.res.log)

    def rows(self) -> list[Record]:
        return pods_of(self.world, self.namespace, self.job)

    def labels(self, attempt: Attempt) -> dict[str, str]:
        """Return the labels of the template and of the controller (pkg/controller/job, k8s.io/kubernetes v1.36.0)."""
        job = {f"{prefix}job-name": self.job for prefix in ("", "batch.kubernetes.io/")}
        index = {} if attempt.index is None else {"batch.kubernetes.io/job-completion-index": str(attempt.index)}
        return {**(inner(self.template, "metadata", "labels") or {}), **job, **index}

    def start(self, attempt: Attempt) -> None:
        """Create the pod, and place it on a node if one fits."""
        index = "" if attempt.index is None else f"{attempt.index}-"
        name = attempt.name or f"{self.job}-{index}{random_suffix()}"
        scheduler, labels = self.workloads.scheduler, self.labels(attempt)
        placed = Placement(UNKNOWN_NODE)
        if not scheduler.knows_no_node():
            placed = scheduler.place(self.pod, {"namespace": self.namespace, "labels": labels}, self.launches)
        if attempt.name and not placed.node and placed.message == attempt.last_message:
            return
        # pkg/controller/job/job_controller.go, manageJob.
        host = {} if attempt.index is None else {"hostname": f"{self.job}-{attempt.index}"}
        annotations = inner(self.template, "metadata", "annotations")
        row = pod(self.job, self.namespace, name, {**self.stored_spec, **host}, placed, labels, annotations)
        self.world.delete(POD, row.id, self.job)
        self.world.insert(row)
        attempt.name, attempt.node, attempt.last_message = name, placed.node, placed.message
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
        container = next((one for _, one in items(self.pod.get("containers"))), {})
        # pkg/kubelet/images/image_manager.go.
        attempt.waiting = ": ".join(filter(None, (f'Back-off pulling image "{container.get("image")}"', fault.message)))
        if attempt.index is not None:  # log now: the error comes after the Job's other pods, which may run for long
            self.res.log(f"{row.name}: {attempt.waiting}", "info")
        state = {"waiting": {"reason": "ImagePullBackOff", "message": attempt.waiting}}
        self._set_status(row, "Pending", [{"name": str(container.get("name")), "state": state}])

    def run(self, attempt: Attempt, left_sec: float) -> list[ContainerResult]:
        """Run the init containers one after another, then the other containers in parallel."""
        fault = self.world.take_fault("guest", self.res.token, self.res.name, id=self.res.id)
        settings = self.containers.settings()
        index = {} if attempt.index is None else {"JOB_COMPLETION_INDEX": str(attempt.index)}
        pod_facts = Pod(
            attempt.name,
            self.namespace,
            attempt.node,
            self.pod,
            {**index, **settings.environment, **(fault.settings if fault else {})},
            partial(self.workloads.scheduler.gpus, attempt.node),
            self.labels(attempt),
            self.names,
        )
        results: list[ContainerResult] = []
        for kind in ("initContainers", "containers"):
            containers = [container for _, container in items(self.pod.get(kind))]
            with ThreadPoolExecutor(1 if kind == "initContainers" else len(containers) or 1) as pool:
                results += pool.map(lambda container: self._container(pod_facts, container, left_sec), containers)
            if any(ended.exit_code for ended in results):
                break
        return results

    def _container(self, pod_facts: Pod, container: Mapping[str, Any], left_sec: float) -> ContainerResult:
        is_assumed = self.containers.settings().assumed is not None
        if is_assumed or not self.containers.programs(self.namespace, self.pod, container):
            self.res.log(NOT_RUN.format(container.get("name")), "info")
            return ContainerResult(str(container.get("name")))
        return self.containers.run(
            pod_facts, container, left_sec, lambda line: self.res.log(line, "status"), self.stopped.is_set
        )

    def remove(self, attempt: Attempt) -> None:
        self.world.delete(POD, f"{self.namespace}/{attempt.name}", self.job)

    def finish(self, attempt: Attempt, containers: list[ContainerResult], *, succeeded: bool) -> None:
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

    def pending(self) -> Iterator[str]:
        """Yield the events of pods that wait for a node."""
        for row in self.rows():
            if message := unschedulable(row):
                yield f"{row.name}: FailedScheduling: {message}"


@dataclass
class JobRun:
    """One run of a Job, from its first pod to its result."""

    res: Resource
    workloads: Workloads
    containers: Containers
    cancelled: threading.Event
    started: str = field(default_factory=now)
    active: list[Attempt] = field(default_factory=list)
    running: dict[Future[list[ContainerResult]], Attempt] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    succeeded: int = 0
    failed: int = 0
    condition: tuple[str, str] | None = None
    """The reason and the message of a failed Job."""
    given_up: bool = False
    watched: list[dict[str, Any]] = field(default_factory=list)
    """The pods before the end of the Job deletes some. The provider reports the warnings of them all."""

    def __post_init__(self) -> None:
        self.spec = inner(self.res.inputs, "spec") or {}
        self.label = await_rules.qualified(inner(self.res.inputs, "metadata") or {})
        self.began = time.monotonic()
        self.limit = await_rules.timeout_sec(self.res)
        seconds = self.spec.get("activeDeadlineSeconds")
        self.deadline = None if seconds is None else float(seconds)
        self.parallel = self._number("parallelism", 1)
        self.completions = self._number("completions", self.parallel)

    def _number(self, name: str, default: int) -> int:
        return default if self.spec.get(name) is None else int(self.spec[name])

    @property
    def is_over(self) -> bool:
        return self.condition is not None or self.succeeded >= self.completions

    def run(self) -> dict[str, Any]:
        """Return the Job's status once the Job is over or nothing more would happen."""
        if self.workloads.scheduler.knows_no_node():
            self.res.log(NO_KNOWN_NODES, "info")
        with tempfile.TemporaryDirectory(prefix="pulumi-sandbox-names-") as folder:
            self.pods = JobPods(self.res, self.workloads, self.containers, Path(folder).resolve() / "names")
            with ThreadPoolExecutor(max(1, min(self.parallel, self.completions))) as pool:
                try:
                    self._run_pods(pool)
                finally:
                    self.pods.stopped.set()
        if not self.is_over and not self.cancelled.is_set():
            self._report_timeout()
        self.watched = [row.outputs for row in self.pods.rows()]
        if self.is_over:
            # The controller deletes the pods that still run or wait.
            for attempt in self.active:
                self.pods.remove(attempt)
            self.active.clear()
        self._progress()
        return self._status()

    def _run_pods(self, pool: ThreadPoolExecutor) -> None:
        indexed = self.spec.get("completionMode") == "Indexed"
        indexes: list[int | None] = [*range(self.completions)] if indexed else [None] * self.completions
        deadline, counts = 0.0, None
        while not (self.cancelled.is_set() or self.spec.get("suspend") or self.given_up or self.is_over):
            while indexes and len(self.active) < self.parallel:
                self.active.append(Attempt(indexes.pop(0)))
            if counts != (counts := (len(self.active), self.succeeded, self.failed)):
                self._progress()
                deadline = time.monotonic() + NEW_NODE_SEC
            self._start_pods(pool)
            if not self.running and (time.monotonic() > deadline or self.cancelled.wait(POLL_SEC)):
                break
            if time.monotonic() > deadline:
                self._report_pending()
            for future in wait(self.running, POLL_SEC, FIRST_COMPLETED).done:
                indexes += self._record_end(self.running.pop(future), future.result())

    def _progress(self) -> None:
        """Log the progress of the Job (job/check.go, jobComplete)."""
        counts = f"Active: {len(self.active)} | Succeeded: {self.succeeded} | Failed: {self.failed}"
        self.res.log(f'Waiting for Job "{self.label}" to succeed ({counts})', "status")

    def _start_pods(self, pool: ThreadPoolExecutor) -> None:
        """Start the pods that find a node, in parallel with those that already run."""
        unplaced = [attempt for attempt in self.active if not attempt.node and not attempt.waiting]
        for attempt in unplaced:
            self.pods.start(attempt)
        containers.write_names(self.pods.names, self.pods.world, self.pods.namespace)
        elapsed = time.monotonic() - self.began
        left_sec = self.limit if self.deadline is None else max(0.0, min(self.limit, self.deadline - elapsed))
        for attempt in unplaced:
            if attempt.node and not attempt.waiting:
                self.running[pool.submit(self.pods.run, attempt, left_sec)] = attempt

    def _record_end(self, attempt: Attempt, containers: list[ContainerResult]) -> list[int | None]:
        """Record the end of a pod, and return its index in a list if it needs another attempt."""
        self.active.remove(attempt)
        if any(container.killed for container in containers):
            # The deadline, the timeout or the end of the sandbox stopped the pod.
            if self.deadline is not None and time.monotonic() - self.began >= self.deadline:
                self.condition = DEADLINE
            self.given_up = True
            self.pods.remove(attempt)
            return []
        succeeded = not any(container.exit_code for container in containers)
        self.pods.finish(attempt, containers, succeeded=succeeded)
        if succeeded:
            self.succeeded += 1
            return []
        self.failed += 1
        if self.failed > self._number("backoffLimit", DEFAULT_BACKOFF_LIMIT):
            self.condition = BACKOFF
        return [attempt.index]

    def _report_pending(self) -> None:
        """Log each new event of pending pods once."""
        for text in self.pods.pending():
            if text not in self.reported:
                self.reported.add(text)
                self.res.log(text, "info")

    def _report_timeout(self) -> None:
        """Report at once the result that a cluster would report after minutes without events."""
        elapsed = time.monotonic() - self.began
        self._report_pending()
        if self.given_up:
            return
        if self.deadline is not None and self.deadline - elapsed <= self.limit:
            self.condition = DEADLINE
            self.res.log(f"the sandbox does not wait for the {self.deadline:.0f} s of activeDeadlineSeconds", "info")
        else:
            text = f"the sandbox does not wait for the {self.limit:.0f} s after which the provider gives up"
            self.res.log(text, "info")

    def _status(self) -> dict[str, Any]:
        counts = {"succeeded": self.succeeded, "failed": self.failed, "active": len(self.active)}
        fields: dict[str, Any] = {"startTime": self.started, **{name: one for name, one in counts.items() if one}}
        if self.condition:
            reason, message = self.condition
            fields["conditions"] = [{"type": "Failed", "status": "True", "reason": reason, "message": message}]
        elif self.is_over:
            fields |= {"completionTime": now(), "conditions": [{"type": "Complete", "status": "True"}]}
        return fields
