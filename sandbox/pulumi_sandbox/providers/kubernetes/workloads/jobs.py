"""Run Jobs: schedule their pods, and really run the containers that the sandbox can run.

If nothing more would happen for minutes, the sandbox reports the result after these minutes at once.
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
from pulumi_sandbox.providers.kubernetes.workloads.containers import Containers, Ended
from pulumi_sandbox.providers.kubernetes.workloads.job_pods import Attempt, JobPods
from pulumi_sandbox.providers.kubernetes.workloads.pods import BLIND, Workloads
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import now

# The same `up` may create a node group in parallel, a moment after the Job.
PATIENCE_SEC = 3.0
TICK_SEC = 0.2


@dataclass
class JobRun:
    res: Resource
    workloads: Workloads
    containers: Containers
    cancelled: threading.Event
    started: str = field(default_factory=now)
    active: list[Attempt] = field(default_factory=list)
    running: dict[Future[list[Ended]], Attempt] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    given_up: bool = False

    def __post_init__(self) -> None:
        self.spec = inner(self.res.inputs, "spec") or {}
        self.label = await_rules.qualified(inner(self.res.inputs, "metadata") or {})
        self.tally = job_rules.Tally(self.spec)
        self.began = time.monotonic()
        self.limit = await_rules.timeout_sec(self.res)

    @property
    def deadline(self) -> float | None:
        given = self.spec.get("activeDeadlineSeconds")
        return None if given is None else float(given)

    def run(self) -> dict[str, Any]:
        """Return the Job's status once the Job is over or nothing more would happen."""
        parallel = int(1 if self.spec.get("parallelism") is None else self.spec["parallelism"])
        wanted = int(parallel if self.spec.get("completions") is None else self.spec["completions"])
        if self.workloads.scheduler.is_blind():
            self.res.log(BLIND, "info")
        with tempfile.TemporaryDirectory(prefix="pulumi-sandbox-names-") as folder:
            self.pods = JobPods(self.res, self.workloads, self.containers, Path(folder).resolve() / "names")
            with ThreadPoolExecutor(max(1, min(parallel, wanted))) as several:
                try:
                    self._work(several, parallel, wanted)
                finally:
                    self.pods.stopped.set()
        over = self.tally.is_over(wanted)
        if over:
            self._clear()
        elif not self.cancelled.is_set():
            self._wait_out()
        self._progress()
        return job_rules.status(self.tally, self.started, now() if over else "", len(self.active))

    def _work(self, several: ThreadPoolExecutor, parallel: int, wanted: int) -> None:
        indexed = self.spec.get("completionMode") == "Indexed"
        left: list[int | None] = [*range(wanted)] if indexed else [None] * wanted
        until, reported = 0.0, None
        while not (self.cancelled.is_set() or self.spec.get("suspend") or self.given_up or self.tally.is_over(wanted)):
            while left and len(self.active) < parallel:
                self.active.append(Attempt(left.pop(0)))
            if reported != (reported := (len(self.active), self.tally.succeeded, self.tally.failed)):
                self._progress()
                until = time.monotonic() + PATIENCE_SEC
            self._start(several)
            if not self.running and (time.monotonic() > until or self.cancelled.wait(TICK_SEC)):
                break
            if time.monotonic() > until:
                self._report_pending()
            for future in wait(self.running, TICK_SEC, FIRST_COMPLETED).done:
                left += self._ended(self.running.pop(future), future.result())
            if self.tally.ignored > job_rules.IGNORED_MOST:
                break

    def _progress(self) -> None:
        """Log the progress of the Job (job/check.go, jobComplete)."""
        counts = f"Active: {len(self.active)} | Succeeded: {self.tally.succeeded} | Failed: {self.tally.failed}"
        self.res.log(f'Waiting for Job "{self.label}" to succeed ({counts})', "status")

    def _start(self, several: ThreadPoolExecutor) -> None:
        """Start the pods that find a node, in parallel with those that already run."""
        homeless = [one for one in self.active if not one.node and not one.waiting]
        for one in homeless:
            self.pods.start(one)
        self.pods.publish()
        for one in homeless:
            if one.node and not one.waiting:
                self.running[several.submit(self.pods.run, one, self._left())] = one

    def _ended(self, one: Attempt, containers: list[Ended]) -> list[int | None]:
        """Record the end of a pod, and return its index in a list if it needs another attempt."""
        self.active.remove(one)
        if any(container.killed for container in containers):
            self._killed(one)
            return []
        before = self.tally.succeeded
        self.tally.count(f"{self.pods.namespace}/{one.name}", one.index, containers)
        succeeded = self.tally.succeeded > before
        self.pods.finish(one, containers, succeeded=succeeded)
        if not succeeded and inner(self.spec, "template", "spec", "restartPolicy") == "OnFailure":
            self.tally.condition = self.tally.condition or job_rules.BACKOFF
        return [one.index] if not succeeded and one.index not in self.tally.failed_indexes else []

    def _left(self) -> float:
        """Return the seconds until the Job's deadline or the provider's timeout."""
        gone = time.monotonic() - self.began
        return self.limit if self.deadline is None else max(0.0, min(self.limit, self.deadline - gone))

    def _killed(self, one: Attempt) -> None:
        """Delete a pod that the deadline, the timeout or the end of the sandbox stopped, and give up the Job."""
        if self.deadline is not None and time.monotonic() - self.began >= self.deadline:
            self.tally.condition = job_rules.DEADLINE
        self.given_up = True
        self.pods.remove(one)

    def _clear(self) -> None:
        """Delete the pods that still run or wait, as the controller does when a Job is over."""
        for one in self.active:
            self.pods.remove(one)
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

    def _wait_out(self) -> None:
        """Report at once the result that a cluster would report after minutes without events."""
        gone = time.monotonic() - self.began
        self._report_pending()
        if self.given_up:
            return
        if self.deadline is not None and self.deadline - gone <= self.limit:
            self.tally.condition = job_rules.DEADLINE
            self.res.log(f"the sandbox does not wait for the {self.deadline:.0f} s of activeDeadlineSeconds", "info")
        else:
            self.res.log(
                f"the sandbox does not wait for the {self.limit:.0f} s after which the provider gives up", "info"
            )
