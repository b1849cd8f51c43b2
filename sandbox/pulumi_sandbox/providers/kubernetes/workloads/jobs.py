"""Run Jobs at their creation, and wait for them as the kubernetes provider does.

This is how a stack fails if the smoke check of a pool, which is a Job, fails. A cluster would wait minutes for a pod
that cannot run. The sandbox does not wait, and reports the same result at once. A Job has one pod here, and fails with
it. The program of a Job with several pods at a time is not run, because it may wait for the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement
from pulumi_sandbox.providers.kubernetes.workloads import await_rules
from pulumi_sandbox.providers.kubernetes.workloads.containers import ContainerResult, Containers, Pod
from pulumi_sandbox.providers.kubernetes.workloads.pods import NO_KNOWN_NODES, Workloads, pod, pods_of, random_suffix
from pulumi_sandbox.providers.machines import settings as guest_settings
from pulumi_sandbox.providers.machines.settings import GuestSettings
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.sandbox_file import SettingsError
from pulumi_sandbox.providers.secret_digests import hash_secrets
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World, now

JOB = "kubernetes:batch/v1:Job"
# The time in which a new node may appear: the same `up` may create a node group a moment after the Job.
NEW_NODE_SEC = 3.0
POLL_SEC = 0.2
UNKNOWN_NODE = "a-node-the-sandbox-does-not-know"
NOT_RUN = "the sandbox assumes that the container {} succeeds: it runs only programs in a zip of a ConfigMap"
NOT_ALLOWED = (
    "the sandbox runs the program of the container {} on this computer as your user, and sandbox.yaml does not allow "
    "that\n  {}"
)
NO_FOLDER = (
    "sandbox.yaml: guest.path: folder does not exist\n  got: {}\n  expected: a folder with the programs of the "
    "container's image\n  hint: create the folder or remove the entry; a comment in sandbox.yaml may say how"
)
# k8s.io/kubernetes v1.36.0, pkg/controller/job.
BACKOFF = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")


@dataclass
class Jobs:
    """The Jobs of one provider, for which a stack waits."""

    world: World
    workspace: Workspace
    workloads: Workloads
    cancelled: threading.Event

    def __post_init__(self) -> None:
        self.containers = Containers(self.world, self.settings, self.cancelled)

    def settings(self) -> GuestSettings:
        try:
            return guest_settings.guest(self.workspace.settings_file, self.workspace.project)
        except SettingsError as error:
            raise Refused(str(error)) from None

    def refusals(self, res: Resource) -> Iterator[str]:
        """Yield an error if sandbox.yaml does not allow the Job's programs or lists a missing folder."""
        spec = inner(res.inputs, "spec", "template", "spec") or {}
        namespace = str(inner(res.inputs, "metadata", "namespace"))
        for _, container in items(spec.get("containers")):
            if self.containers.programs(namespace, spec, container):
                settings = self.settings()
                if not settings.runs:
                    yield NOT_ALLOWED.format(container.get("name"), guest_settings.HINT)
                yield from (NO_FOLDER.format(path) for path in settings.path if not Path(path).is_dir())

    def await_ready(self, res: Resource) -> dict[str, Any]:
        """Return the Job's status.

        Raises:
            NotReady: The Job did not succeed.
        """
        if res.old_inputs is None:
            status, pods = _JobRun(res, self.workloads, self.containers, self.cancelled).run()
        else:
            status, pods = inner(res.outputs, "status") or {}, self._pods(res.inputs)
        if await_rules.is_complete(status):
            return {"status": status}
        unready = await_rules.unready(res, status, [row.outputs for row in pods], cancelled=self.cancelled.is_set())
        if await_rules.annotation(res.inputs, await_rules.SKIP) == "true":
            res.log(unready.reasons[-1], "info")
            return {"status": status}
        raise unready

    def not_ready(self, record: Record) -> NotReady | None:
        """Return the error of a Job that has not succeeded (job.go, Read)."""
        status = record.outputs.get("status")
        skipped = await_rules.annotation(record.inputs, await_rules.SKIP) == "true"
        # The sandbox did not create a Job without a status, and does not know its state.
        if skipped or not status or await_rules.is_complete(status):
            return None
        pods = [row.outputs for row in self._pods(record.inputs)]
        failed = await_rules.FAILED.format(inner(record.inputs, "metadata", "name"))
        return NotReady(failed, await_rules.reasons(status, pods))

    def is_replaced(self, res: Resource) -> bool:
        """Return True if pulumi.com/replaceUnready replaces the Job (provider.go, Diff)."""
        if await_rules.annotation(res.inputs, await_rules.REPLACE) != "true":
            return False
        record = self.world.get(res.token, res.id)
        return record is not None and not await_rules.is_complete(record.outputs.get("status"))

    def forget(self, res: Resource) -> None:
        for one in self._pods(res.inputs):
            self.world.delete(one.type, one.id, res.name)

    def _pods(self, inputs: dict[str, Any]) -> list[Record]:
        meta = inner(inputs, "metadata")
        return pods_of(self.world, str(inner(meta, "namespace")), str(inner(meta, "name")))


@dataclass
class _JobRun:
    """One run of a Job, whose first pod gives the result of all."""

    res: Resource
    workloads: Workloads
    containers: Containers
    cancelled: threading.Event
    started: str = field(default_factory=now)
    counts: dict[str, int] = field(default_factory=lambda: {"active": 0, "succeeded": 0, "failed": 0})
    condition: tuple[str, str] | None = None
    """The reason and the message of a failed Job."""

    def __post_init__(self) -> None:
        self.world = self.workloads.world
        meta = inner(self.res.inputs, "metadata") or {}
        self.job, self.namespace = str(meta.get("name")), str(meta.get("namespace"))
        self.label = await_rules.qualified(meta)
        self.name = f"{self.job}-{random_suffix()}"
        self.spec = inner(self.res.inputs, "spec") or {}
        self.template: Mapping[str, Any] = self.spec.get("template") or {}
        self.pod: Mapping[str, Any] = self.template.get("spec") or {}
        # The labels of the controller (pkg/controller/job, k8s.io/kubernetes v1.36.0).
        job = {f"{prefix}job-name": self.job for prefix in ("", "batch.kubernetes.io/")}
        self.labels = {**(inner(self.template, "metadata", "labels") or {}), **job}
        self.began = time.monotonic()
        self.limit = await_rules.timeout_sec(self.res)
        seconds = self.spec.get("activeDeadlineSeconds")
        self.deadline = None if seconds is None else float(seconds)
        self.pods_at_once = int(self.spec.get("parallelism") or 1)

    def run(self) -> tuple[dict[str, Any], list[Record]]:
        """Return the status of the Job once the Job is over or nothing more would happen, and its pods.

        The provider also reports the warnings of pods that the end of the Job deletes.
        """
        if self.workloads.scheduler.knows_no_node():
            self.res.log(NO_KNOWN_NODES, "info")
        if not (self.cancelled.is_set() or self.spec.get("suspend")):
            self._run_pod()
        watched = pods_of(self.world, self.namespace, self.job)
        if self.condition == DEADLINE:  # the controller deletes the pods that still run or wait
            self._remove()
        self._log_progress()
        return self._status(), watched

    def _log_progress(self) -> None:
        """Log the progress of the Job (job/check.go, jobComplete)."""
        counts = " | ".join(f"{name.capitalize()}: {count}" for name, count in self.counts.items())
        self.res.log(f'Waiting for Job "{self.label}" to succeed ({counts})', "status")

    def _run_pod(self) -> None:
        self.counts["active"] = 1
        self._log_progress()
        placed = self._place()
        # The emulated state stores the pods with hashed secrets.
        hashed = hash_secrets(self.res.inputs, self.res.secrets, self.world.key)
        annotations = inner(self.template, "metadata", "annotations")
        stored = inner(hashed, "spec", "template", "spec") or {}
        row = self.world.insert(pod(self.job, self.namespace, self.name, stored, placed, self.labels, annotations))
        if placed.started:
            self.res.log(f"the cluster autoscaler starts {placed.node} in the group {placed.started}", "info")
        if not placed.node or self._cannot_pull(row):
            if placed.message:
                self.res.log(f"{row.name}: FailedScheduling: {placed.message}", "info")
            if not self.cancelled.is_set():
                self._give_up()
            return
        results = self._run_containers(placed.node)
        if not any(container.killed for container in results):
            self._finish(row, results)
            return
        # The deadline, the timeout or the end of the sandbox stopped the pod.
        if self.deadline is not None and time.monotonic() - self.began >= self.deadline:
            self.condition = DEADLINE
        self._remove()

    def _place(self) -> Placement:
        """Return a node for the pod. Wait a moment for one that the same `up` creates."""
        scheduler = self.workloads.scheduler
        if scheduler.knows_no_node():
            return Placement(UNKNOWN_NODE)
        launches, until = scheduler.launches(self.res.log), time.monotonic() + NEW_NODE_SEC
        placed = scheduler.place(self.pod, launches)
        while not placed.node and time.monotonic() < until and not self.cancelled.wait(POLL_SEC):
            placed = scheduler.place(self.pod, launches)
        return placed

    def _cannot_pull(self, row: Record) -> bool:
        """Return True if a planted fault makes the pull of the first container's image fail."""
        if event := self.workloads.missing_secrets(self.namespace, self.pod):
            self.res.log(f"{row.name}: {event}", "info")
        fault = self.world.take_fault("image", self.res.token, self.res.name, id=self.res.id)
        if fault is None:
            return False
        container = next((one for _, one in items(self.pod.get("containers"))), {})
        # pkg/kubelet/images/image_manager.go.
        message = ": ".join(filter(None, (f'Back-off pulling image "{container.get("image")}"', fault.message)))
        state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
        self._set_status(row, "Pending", [{"name": str(container.get("name")), "state": state}])
        return True

    def _run_containers(self, node: str) -> list[ContainerResult]:
        """Run the containers in parallel. The sandbox assumes that init containers succeed."""
        elapsed = time.monotonic() - self.began
        left_sec = self.limit if self.deadline is None else max(0.0, min(self.limit, self.deadline - elapsed))
        fault = self.world.take_fault("guest", self.res.token, self.res.name, id=self.res.id)
        variables = {**self.containers.settings().environment, **(fault.settings if fault else {})}
        facts = Pod(self.name, self.namespace, node, self.pod, variables)
        containers = [container for _, container in items(self.pod.get("containers"))]
        with ThreadPoolExecutor(len(containers) or 1) as pool:
            return [*pool.map(lambda container: self._run_container(facts, container, left_sec), containers)]

    def _run_container(self, facts: Pod, container: Mapping[str, Any], left_sec: float) -> ContainerResult:
        is_assumed = self.containers.settings().assumed is not None or self.pods_at_once > 1
        if is_assumed or not self.containers.programs(self.namespace, self.pod, container):
            self.res.log(NOT_RUN.format(container.get("name")), "info")
            return ContainerResult(str(container.get("name")))
        return self.containers.run(
            facts, container, left_sec, lambda line: self.res.log(line, "status"), self.cancelled.is_set
        )

    def _finish(self, row: Record, results: list[ContainerResult]) -> None:
        """Count an ended pod, and store its exit codes and termination messages."""
        succeeded = not any(container.exit_code for container in results)
        states = [
            {"name": ended.name, "state": {"terminated": {
                "exitCode": ended.exit_code, "reason": "Error" if ended.exit_code else "Completed",
                **({"message": ended.message} if ended.message else {}),
            }}}
            for ended in results
        ]  # fmt: skip
        self._set_status(row, "Succeeded" if succeeded else "Failed", states)
        pods = int(self.spec.get("completions") or self.pods_at_once) if succeeded else 1
        self.counts |= {"active": 0, "succeeded" if succeeded else "failed": pods}
        if not succeeded:
            self.condition = BACKOFF

    def _remove(self) -> None:
        self.world.delete(POD, f"{self.namespace}/{self.name}", self.job)
        self.counts["active"] = 0

    def _set_status(self, row: Record, phase: str, states: list[dict[str, Any]]) -> None:
        """Update the status of a pod."""
        status = {**(inner(row.outputs, "status") or {}), "phase": phase, "containerStatuses": states}
        self.world.update(row.type, row.id, outputs={**row.outputs, "status": status})

    def _give_up(self) -> None:
        """Report at once the result that a cluster would report after minutes without events."""
        if self.deadline is not None and self.deadline - (time.monotonic() - self.began) <= self.limit:
            self.condition = DEADLINE
            text = f"the sandbox does not wait for the {self.deadline:.0f} s of activeDeadlineSeconds"
        else:
            text = f"the sandbox does not wait for the {self.limit:.0f} s after which the provider gives up"
        self.res.log(text, "info")

    def _status(self) -> dict[str, Any]:
        counts = {name: count for name, count in self.counts.items() if count}
        fields: dict[str, Any] = {"startTime": self.started, **counts}
        if self.condition:
            reason, message = self.condition
            fields["conditions"] = [{"type": "Failed", "status": "True", "reason": reason, "message": message}]
        elif self.counts["succeeded"]:
            fields |= {"completionTime": now(), "conditions": [{"type": "Complete", "status": "True"}]}
        return fields
