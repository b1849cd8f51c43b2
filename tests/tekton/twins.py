"""Runs the same pipeline on Tekton and on the executor of the sandbox, and returns what a user sees of each run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import Scheduler
from pulumi_sandbox.providers.kubernetes.tekton.graph import TaskRun, parents
from pulumi_sandbox.providers.kubernetes.tekton.runs import PIPELINE_RUN, Runs, Settings
from pulumi_sandbox.providers.kubernetes.workloads.containers import Containers
from pulumi_sandbox.providers.machines.settings import GuestSettings
from pulumi_sandbox.world.store import Record, World

from tests.control_plane.api import Api
from tests.tekton.kubelet import Kubelet

PATIENCE_SEC = 240
TEKTON = "tekton.dev/v1"


@dataclass
class Seen:
    """What a user sees of an ended run."""

    end: tuple[str, str, str]
    """The status, reason and message of its condition."""
    tasks: dict[str, tuple[str, int, Mapping[str, Any]]]
    """The reason, the repeated attempts and the params of each TaskRun."""
    skipped: dict[str, str]
    results: dict[str, Any]
    early: list[tuple[str, str]] = field(default_factory=list)
    """Tasks that began before a task ended for which they wait."""


def seen(
    pipeline: Mapping[str, Any], status: Mapping[str, Any], tasks: Mapping[str, tuple[str, int, Mapping[str, Any]]],
    times: Iterable[tuple[str, float, float]],
) -> Seen:  # fmt: skip
    """Return what is seen of a run.

    Args:
        pipeline: The spec of its Pipeline.
        status: The status of the PipelineRun.
        tasks: The reason, the repeated attempts and the params of each TaskRun.
        times: The task, the start and the end of each TaskRun.
    """
    before = {each["name"]: parents(each) for each in pipeline["tasks"]}
    before |= {each["name"]: set(before) for each in pipeline.get("finally", ())}
    of = list(times)
    early = [
        (first, task)
        for task, start, _ in of
        for first, _, end in of
        if first in before[task] and start < end
    ]  # fmt: skip
    [condition] = status["conditions"]
    skipped = {each["name"]: each["reason"] for each in status.get("skippedTasks") or ()}
    results = {each["name"]: each["value"] for each in status.get("results") or ()}
    end = condition["status"], condition["reason"], condition["message"]
    return Seen(end, dict(tasks), skipped, results, early)


def wait_until_running(side: Real | Executor, namespace: str, name: str, task: str) -> None:
    """Wait until a step of a task runs."""
    last = time.monotonic() + PATIENCE_SEC
    while task not in side.running(namespace, name):
        assert time.monotonic() < last, f"{name}: {task} does not run"
        time.sleep(0.2)


@dataclass
class Real:
    """Tekton, whose pods the kubelet of this folder runs."""

    api: Api
    kubelet: Kubelet

    def add(self, kind: str, given: Mapping[str, Any]) -> None:
        self.api.apply(given)

    def create(self, run: Mapping[str, Any]) -> None:
        self.api.apply(run)

    def cancel(self, namespace: str, name: str) -> None:
        self.patch(namespace, name, {"spec": {"status": "CancelledRunFinally"}})

    def patch(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        kind = self.api.client.resources.get(api_version=TEKTON, kind="PipelineRun")
        kind.patch(name=name, namespace=namespace, body=body, content_type="application/merge-patch+json")

    def task_runs(self, namespace: str, name: str) -> list[Any]:
        listed = self.api.get(TEKTON, "TaskRun", namespace)
        return [each for each in listed if each["metadata"]["labels"]["tekton.dev/pipelineRun"] == name]

    def running(self, namespace: str, name: str) -> set[str]:
        steps = ((_task(each), step) for each in self.task_runs(namespace, name) for step in _steps(each))
        return {task for task, step in steps if step.get("running")}

    def ended(self, namespace: str, name: str, pipeline: Mapping[str, Any]) -> Seen:
        last = time.monotonic() + PATIENCE_SEC
        while True:
            found = self.api.get(TEKTON, "PipelineRun", namespace, name)
            status = found[0].get("status", {}) if found else {}
            runs = self.task_runs(namespace, name)
            if status.get("completionTime") and all(each["status"].get("completionTime") for each in runs):
                break
            assert time.monotonic() < last, f"{namespace}/{name} does not end: {status}"
            time.sleep(0.3)
        tasks, times = {}, []
        for each in runs:
            state = each["status"]
            params = {one["name"]: one["value"] for one in each["spec"].get("params") or ()}
            retries = len(state.get("retriesStatus") or ())
            tasks[each["metadata"]["name"]] = state["conditions"][0]["reason"], retries, params
            if state.get("startTime"):
                start, end = (datetime.fromisoformat(state[key]).timestamp() for key in ("startTime", "completionTime"))
                times.append((_task(each), start, end))
        return seen(pipeline, status, tasks, times)


def _task(task_run: Mapping[str, Any]) -> str:
    return str(task_run["metadata"]["labels"]["tekton.dev/pipelineTask"])


def _steps(task_run: Mapping[str, Any]) -> list[Any]:
    return list(task_run.get("status", {}).get("steps") or ())


class Executor:
    """The sandbox with the same nodes and objects."""

    def __init__(
        self, folder: Path, nodes: list[dict[str, Any]], programs: Path, environment: Mapping[str, str]
    ) -> None:
        self.world = World(folder / "world.db")
        self.storage, self.secrets = folder / "storage", dict[str, dict[str, str]]()
        scheduler = Scheduler(self.world, lambda: {"nodes": nodes}, lambda: "c")
        guest = GuestSettings(path=(str(programs),))
        containers = Containers(self.world, lambda: guest, threading.Event())
        # A folder stands for the claim of the pipelines.
        self.storage.mkdir()
        settings = Settings(self.storage, self.secrets, {**environment, "STORE": self.storage.as_uri()})
        self.runs = Runs(self.world, containers, scheduler, settings, self._changed)
        self._seen: dict[str, dict[str, tuple[TaskRun, list[float]]]] = {}
        self._running: dict[str, set[str]] = {}

    def close(self) -> None:
        self.runs.close()
        self.world.close()

    def _changed(self, run: str, task_run: TaskRun, state: str) -> None:
        of = self._seen.setdefault(run, {})
        _, times = of.setdefault(task_run.name, (task_run, []))
        times.append(time.monotonic())
        if state == "Running":
            self._running.setdefault(run, set()).add(task_run.task)

    def add(self, kind: str, given: Mapping[str, Any]) -> None:
        meta = given["metadata"]
        name = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        if given["kind"] == "Secret":
            self.secrets[name] = dict(given["stringData"])
        else:
            self.world.insert(Record(kind, name, meta["name"], "", dict(given), dict(given), "api"))

    def create(self, run: Mapping[str, Any]) -> None:
        assert self.runs.create(run)

    def cancel(self, namespace: str, name: str) -> None:
        self.runs.cancel(f"{namespace}/{name}")

    def running(self, namespace: str, name: str) -> set[str]:
        return self._running.get(name, set())

    def ended(self, namespace: str, name: str, pipeline: Mapping[str, Any]) -> Seen:
        state, thread = self.runs._runs[f"{namespace}/{name}"]
        thread.join(PATIENCE_SEC)
        row = self.world.get(PIPELINE_RUN, f"{namespace}/{name}")
        assert row is not None
        assert not thread.is_alive(), f"{namespace}/{name} does not end: {row.outputs['status']}"
        all_runs = [each for runs in state.task_runs.values() for each in runs]
        tasks = {each.name: (each.reason, each.attempts, each.params) for each in all_runs}
        times = [(each.task, times[0], times[-1]) for each, times in self._seen.get(name, {}).values()]
        return seen(pipeline, row.outputs["status"], tasks, times)
