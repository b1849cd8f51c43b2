"""Run Jobs: schedule their pods, and really run the containers that the sandbox can run.

A cluster would wait minutes for a pod that cannot run. The sandbox does not wait, and reports the same result at once.
"""

from __future__ import annotations

import tempfile
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner
from pulumi_sandbox.providers.kubernetes.workloads import await_rules, job_rules
from pulumi_sandbox.providers.kubernetes.workloads.containers import ContainerResult, Containers
from pulumi_sandbox.providers.kubernetes.workloads.job_pods import Attempt, JobPods
from pulumi_sandbox.providers.kubernetes.workloads.pods import NO_KNOWN_NODES, Workloads
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import now

# The time in which a new node may appear: the same `up` may create a node group a moment after the Job.
NEW_NODE_SEC = 3.0
POLL_SEC = 0.2


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
    given_up: bool = False
    watched: list[dict[str, Any]] = field(default_factory=list)
    """The pods before the end of the Job deletes some. The provider reports the warnings of them all."""

    def __post_init__(self) -> None:
        self.spec = inner(self.res.inputs, "spec") or {}
        self.label = await_rules.qualified(inner(self.res.inputs, "metadata") or {})
        self.tally = job_rules.Tally(self.spec)
        self.began = time.monotonic()
        self.limit = await_rules.timeout_sec(self.res)

    @property
    def deadline(self) -> float | None:
        seconds = self.spec.get("activeDeadlineSeconds")
        return None if seconds is None else float(seconds)

    def run(self) -> dict[str, Any]:
        """Return the Job's status once the Job is over or nothing more would happen."""
        parallel = int(1 if self.spec.get("parallelism") is None else self.spec["parallelism"])
        completions = int(parallel if self.spec.get("completions") is None else self.spec["completions"])
        if self.workloads.scheduler.knows_no_node():
            self.res.log(NO_KNOWN_NODES, "info")
        with tempfile.TemporaryDirectory(prefix="pulumi-sandbox-names-") as folder:
            self.pods = JobPods(self.res, self.workloads, self.containers, Path(folder).resolve() / "names")
            with ThreadPoolExecutor(max(1, min(parallel, completions))) as pool:
                try:
                    self._run_pods(pool, parallel, completions)
                finally:
                    self.pods.stopped.set()
        if not self.tally.is_over(completions) and not self.cancelled.is_set():
            self._report_timeout()
        self.watched = [row.outputs for row in self.pods.rows()]
        # A Job that has reached its deadline is over, too.
        is_over = self.tally.is_over(completions)
        if is_over:
            self._delete_active_pods()
        self._progress()
        return job_rules.status(self.tally, self.started, now() if is_over else "", len(self.active))

    def _run_pods(self, pool: ThreadPoolExecutor, parallel: int, completions: int) -> None:
        indexed = self.spec.get("completionMode") == "Indexed"
        indexes: list[int | None] = [*range(completions)] if indexed else [None] * completions
        deadline, counts = 0.0, None
        while not (
            self.cancelled.is_set() or self.spec.get("suspend") or self.given_up or self.tally.is_over(completions)
        ):
            while indexes and len(self.active) < parallel:
                self.active.append(Attempt(indexes.pop(0)))
            if counts != (counts := (len(self.active), self.tally.succeeded, self.tally.failed)):
                self._progress()
                deadline = time.monotonic() + NEW_NODE_SEC
            self._start_pods(pool)
            if not self.running and (time.monotonic() > deadline or self.cancelled.wait(POLL_SEC)):
                break
            if time.monotonic() > deadline:
                self._report_pending()
            for future in wait(self.running, POLL_SEC, FIRST_COMPLETED).done:
                indexes += self._record_end(self.running.pop(future), future.result())
            if self.tally.ignored > job_rules.MAX_IGNORED_PODS:
                break

    def _progress(self) -> None:
        """Log the progress of the Job (job/check.go, jobComplete)."""
        counts = f"Active: {len(self.active)} | Succeeded: {self.tally.succeeded} | Failed: {self.tally.failed}"
        self.res.log(f'Waiting for Job "{self.label}" to succeed ({counts})', "status")

    def _start_pods(self, pool: ThreadPoolExecutor) -> None:
        """Start the pods that find a node, in parallel with those that already run."""
        unplaced = [attempt for attempt in self.active if not attempt.node and not attempt.waiting]
        for attempt in unplaced:
            self.pods.start(attempt)
        self.pods.publish()
        for attempt in unplaced:
            if attempt.node and not attempt.waiting:
                self.running[pool.submit(self.pods.run, attempt, self._remaining_sec())] = attempt

    def _record_end(self, attempt: Attempt, containers: list[ContainerResult]) -> list[int | None]:
        """Record the end of a pod, and return its index in a list if it needs another attempt."""
        self.active.remove(attempt)
        if any(container.killed for container in containers):
            self._give_up(attempt)
            return []
        before = self.tally.succeeded
        self.tally.count(f"{self.pods.namespace}/{attempt.name}", attempt.index, containers)
        succeeded = self.tally.succeeded > before
        self.pods.finish(attempt, containers, succeeded=succeeded)
        if not succeeded and inner(self.spec, "template", "spec", "restartPolicy") == "OnFailure":
            self.tally.condition = self.tally.condition or job_rules.BACKOFF
        return [attempt.index] if not succeeded and attempt.index not in self.tally.failed_indexes else []

    def _remaining_sec(self) -> float:
        """Return the seconds until the Job's deadline or the provider's timeout."""
        elapsed = time.monotonic() - self.began
        return self.limit if self.deadline is None else max(0.0, min(self.limit, self.deadline - elapsed))

    def _give_up(self, attempt: Attempt) -> None:
        """Delete a pod that the deadline, the timeout or the end of the sandbox stopped, and give up the Job."""
        if self.deadline is not None and time.monotonic() - self.began >= self.deadline:
            self.tally.condition = job_rules.DEADLINE
        self.given_up = True
        self.pods.remove(attempt)

    def _delete_active_pods(self) -> None:
        """Delete the pods that still run or wait, as the controller does when a Job is over."""
        for attempt in self.active:
            self.pods.remove(attempt)
        self.active.clear()

    def _report_pending(self) -> None:
        """Log each new event of pending and refused pods once."""
        messages = [*self.pods.pending()]
        if self.pods.refused:
            messages.append(f"{self.pods.job}: FailedCreate: Error creating: {self.pods.refused}")
        for text in messages:
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
            self.tally.condition = job_rules.DEADLINE
            self.res.log(f"the sandbox does not wait for the {self.deadline:.0f} s of activeDeadlineSeconds", "info")
        else:
            self.res.log(
                f"the sandbox does not wait for the {self.limit:.0f} s after which the provider gives up", "info"
            )
