"""Emulate the runners of scale sets, and the deletion of a set while its runners have jobs.

Sources: actions/actions-runner-controller@9bb16ae, apis/actions.github.com/v1alpha1/ephemeralrunner_types.go (HasJob,
IsDone) and controllers/actions.github.com.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.kubernetes.helm.charts import RUNNER_SET
from pulumi_sandbox.providers.kubernetes.objects import inner
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD
from pulumi_sandbox.providers.lifecycle import CANCELLED
from pulumi_sandbox.providers.resource import Log, Refused
from pulumi_sandbox.world.store import Record, World, now

RUNNER = "kubernetes:actions.github.com/v1alpha1:EphemeralRunner"
DONE = ("Succeeded", "Failed", "Outdated")
# Helm polls every two seconds (helm/helm v3.20.2, pkg/kube/wait.go, waitForDeletedResources).
POLL_SEC = 0.2
# The same, pkg/action/uninstall.go, Run. Helm deletes its record of the release in any case.
TIMED_OUT = (
    "uninstallation completed with 1 error(s): context deadline exceeded\n"
    "  got: {0} after {1} s\n"
    "  hint: the controller deletes the set once its jobs have ended; then run pulumi refresh, and pulumi up again"
)


def has_job(row: Record) -> bool:
    status = inner(row.outputs, "status")
    return bool(inner(status, "jobId")) and inner(status, "phase") not in DONE


def is_ending(row: Record) -> bool:
    return bool(inner(row.outputs, "metadata", "deletionTimestamp"))


@dataclass
class Runners:
    """The runners of runner scale sets, each with its pod."""

    world: World
    cancelled: threading.Event

    def set_of(self, runner: Record) -> Record | None:
        """Return the scale set of a runner or of its pod."""
        [owner] = inner(runner.inputs, "metadata", "ownerReferences") or [{}]
        return self.world.get(RUNNER_SET, f"{runner.id.partition('/')[0]}/{owner.get('name')}")

    def of(self, runner_set: Record) -> list[Record]:
        sets = [(row, self.set_of(row)) for row in self.world.find(RUNNER)]
        return [row for row, each in sets if each is not None and each.id == runner_set.id]

    def with_jobs(self, runner_set: Record) -> list[Record]:
        return [row for row in self.of(runner_set) if has_job(row)]

    def delete_idle(self, runner_set: Record) -> None:
        """Delete the runners without a job, and their pods.

        GitHub refuses to remove a runner with a job, so that runner stays (ephemeralrunnerset_controller.go,
        deleteEphemeralRunnerWithActionsClient).
        """
        for row in self.of(runner_set):
            if not has_job(row):
                self.world.delete(row.type, row.id, runner_set.name)
                self.world.delete(POD, row.id, runner_set.name)

    def end(self, runner_set: Record, why: str) -> bool:
        """Start to delete a set, and return True if it is deleted.

        Its finalizer keeps the set while a runner has a job (autoscalingrunnerset_controller.go and
        ephemeralrunnerset_controller.go, cleanUpEphemeralRunners).
        """
        self.delete_idle(runner_set)
        if not self.of(runner_set):
            self.world.delete(runner_set.type, runner_set.id, why)
            return True
        if not is_ending(runner_set):
            meta = {**inner(runner_set.outputs, "metadata"), "deletionTimestamp": now()[:19] + "Z"}
            outputs = {**runner_set.outputs, "metadata": meta}
            self.world.update(runner_set.type, runner_set.id, outputs=outputs, note=f"{why}: waits for running jobs")
        return False

    def drain(self, runner_set: Record, why: str, timeout: float, log: Log) -> None:
        """Wait until the set is deleted, as Helm does.

        Raises:
            Refused: Jobs still run after `timeout` seconds, or the operation was cancelled.
        """
        deadline = time.monotonic() + timeout
        while not self._is_deleted(runner_set, why):
            jobs = [(row.name, inner(row.outputs, "status", "jobId")) for row in self.with_jobs(runner_set)]
            busy = ", ".join(f"{name} has job {job}" for name, job in jobs)
            log(f"{runner_set.id} is deleted once its jobs have ended: {busy}", "status")
            if time.monotonic() >= deadline:
                raise Refused(TIMED_OUT.format(busy, f"{timeout:g}"))
            if self.cancelled.wait(POLL_SEC):
                raise Refused(CANCELLED)

    def _is_deleted(self, runner_set: Record, why: str) -> bool:
        with self.world.transaction():
            row = self.world.get(runner_set.type, runner_set.id)
            return row is None or self.end(row, why)


def runner(pod: Record) -> Record:
    """Return the EphemeralRunner of a runner's pod, which has the same name."""
    metadata: Mapping[str, Any] = {"metadata": pod.inputs["metadata"]}
    status = {"phase": inner(pod.outputs, "status", "phase")}
    return Record(RUNNER, pod.id, pod.name, "", dict(metadata), {**metadata, "status": status}, "controller")
