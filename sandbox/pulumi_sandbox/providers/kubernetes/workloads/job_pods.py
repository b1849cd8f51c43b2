"""Create, place, run and delete the pods of one Job."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling import quota
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement
from pulumi_sandbox.providers.kubernetes.workloads import dns_names, job_rules
from pulumi_sandbox.providers.kubernetes.workloads.containers import ContainerResult, Containers, Pod
from pulumi_sandbox.providers.kubernetes.workloads.pods import Workloads, pod, pods_of, random_suffix
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.secret_digests import hash_secrets
from pulumi_sandbox.world.store import Record

UNKNOWN_NODE = "a-node-the-sandbox-does-not-know"
NOT_RUN = "the sandbox assumes that the container {} succeeds: it runs only programs in a zip of a ConfigMap"


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
    """The pods of one Job."""

    res: Resource
    workloads: Workloads
    containers: Containers
    names: Path
    """The file with the DNS names of the pods."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set once the Job is over, to stop containers that still run."""
    refused: str = ""
    """The reason why the controller could not create a pod."""

    def __post_init__(self) -> None:
        self.world = self.workloads.world
        meta = inner(self.res.inputs, "metadata") or {}
        self.job, self.namespace = str(meta.get("name")), str(meta.get("namespace"))
        self.spec: Mapping[str, Any] = inner(self.res.inputs, "spec") or {}
        self.pod: Mapping[str, Any] = inner(self.spec, "template", "spec") or {}
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
        return {**(inner(self.spec, "template", "metadata", "labels") or {}), **job, **index}

    def start(self, attempt: Attempt) -> None:
        """Create the pod unless a quota refuses it, and place it on a node if one fits."""
        index = "" if attempt.index is None else f"{attempt.index}-"
        name = attempt.name or f"{self.job}-{index}{random_suffix()}"
        if not attempt.name:
            self.refused = next(quota.refusals(self.world, self.namespace, name, self.pod), "")
            if self.refused:
                return
        scheduler, labels = self.workloads.scheduler, self.labels(attempt)
        placed = Placement(UNKNOWN_NODE)
        if not scheduler.knows_no_node():
            placed = scheduler.place(self.pod, {"namespace": self.namespace, "labels": labels}, self.launches)
        if attempt.name and not placed.node and placed.message == attempt.last_message:
            return
        # pkg/controller/job/job_controller.go, manageJob.
        host = {} if attempt.index is None else {"hostname": f"{self.job}-{attempt.index}"}
        annotations = inner(self.spec, "template", "metadata", "annotations")
        row = pod(self.job, self.namespace, name, {**self.stored_spec, **host}, placed, labels, annotations)
        self.world.delete(POD, row.id, self.job)
        self.world.insert(row)
        attempt.name, attempt.node, attempt.last_message = name, placed.node, placed.message
        if placed.started:
            self.res.log(f"the cluster autoscaler starts {placed.node} in the group {placed.started}", "info")
        if problem := self.workloads.dns_problem(self.namespace, labels, placed.node):
            self.res.log(f"{name}: {problem}", "warning")
        fault = self.world.take_fault("image", self.res.token, self.res.name, id=self.res.id) if placed.node else None
        images = self.workloads.images
        if placed.node and (event := images.missing_secrets(self.namespace, self.pod)):
            self.res.log(f"{name}: {event}", "info")
        if fault:
            image = next((str(container.get("image")) for _, container in items(self.pod.get("containers"))), "")
            # pkg/kubelet/images/image_manager.go.
            attempt.waiting = f'Back-off pulling image "{image}"' + (f": {fault.message}" if fault.message else "")
        elif placed.node:
            attempt.waiting = images.back_off(self.namespace, self.pod)
        if attempt.waiting:
            state = {"waiting": {"reason": "ImagePullBackOff", "message": attempt.waiting}}
            if attempt.index is not None:  # log now: the error comes after the Job's other pods, which may run for long
                self.res.log(f"{name}: {attempt.waiting}", "info")
            self._set_status(row, "Pending", [{"name": self._first(), "state": state}])

    def publish(self) -> None:
        """Write the DNS names of the running pods."""
        dns_names.write(self.names, self.world, self.namespace)

    def _first(self) -> str:
        return next((str(one.get("name")) for _, one in items(self.pod.get("containers"))), "")

    def run(self, attempt: Attempt, left_sec: float) -> list[ContainerResult]:
        """Run the init containers one after another, then the other containers in parallel."""
        fault = self.world.take_fault("guest", self.res.token, self.res.name, id=self.res.id)
        settings = self.containers.settings()
        index = {} if attempt.index is None else {"JOB_COMPLETION_INDEX": str(attempt.index)}
        environment = {**index, **settings.environment, **(fault.settings if fault else {})}
        gpus = partial(self.workloads.scheduler.gpus, attempt.node)
        node = self.workloads.scheduler.node(attempt.node)
        pod_facts = Pod(
            attempt.name,
            self.namespace,
            attempt.node,
            self.pod,
            environment,
            gpus,
            self.labels(attempt),
            node.library_path if node else "",
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
        """Run one container. With restartPolicy OnFailure, repeat up to the backoff limit."""
        if self.containers.settings().assumed is not None or not self.containers.programs(
            self.namespace, self.pod, container
        ):
            self.res.log(NOT_RUN.format(container.get("name")), "info")
            return ContainerResult(str(container.get("name")))
        limit = self.spec.get("backoffLimit")
        tries = max(1, job_rules.DEFAULT_BACKOFF_LIMIT if limit is None else int(limit))
        if self.pod.get("restartPolicy") != "OnFailure":
            tries = 1
        for _ in range(tries):
            result = self.containers.run(
                pod_facts, container, left_sec, lambda line: self.res.log(line, "status"), self.stopped.is_set
            )
            if result.killed or not result.exit_code:
                break
        return result

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
        """Yield the scheduler's events of pods that wait for a node."""
        for row in self.rows():
            for _, one in items(inner(row.outputs, "status", "conditions")):
                if one.get("reason") == "Unschedulable":
                    yield f"{row.name}: FailedScheduling: {one['message']}"
