"""Run the PipelineRuns of notebook pipelines: each step is a process of this computer, on a node of the scheduler."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement, Scheduler
from pulumi_sandbox.providers.kubernetes.tekton.graph import (
    STEP_FAILED,
    SUCCEEDED,
    TASK_CANCELLED,
    Run,
    TaskRun,
    Value,
    substitute,
)
from pulumi_sandbox.providers.kubernetes.workloads.containers import Containers, Pod
from pulumi_sandbox.providers.kubernetes.workloads.pods import pod
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.world.store import Exists, Record, World

API, TRIGGERS = "kubernetes:tekton.dev/v1", "kubernetes:triggers.tekton.dev/v1beta1"
PIPELINE_RUN = f"{API}:PipelineRun"
SCHEDULE_SEC = 0.5
PENDING = "ExceededNodeResources"
# A run has at most 64 notebooks (NotebookPipeline), and waiting for a node takes a thread.
_THREADS = 100


@dataclass(frozen=True)
class Settings:
    """What a cluster has besides its objects."""

    storage: Path
    """The folder of buckets."""
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The values of Secrets by NAMESPACE/NAME. The emulated state has only their digests."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Values that replace those of steps, such as addresses of services that the sandbox emulates."""

    def secret(self, namespace: str, name: str, key: str) -> str:
        return self.secrets.get(f"{namespace}/{name}", {}).get(key, f"sandbox-placeholder-of-{name}-{key}")

    def url(self, value: str) -> str:
        """Return the URL of a folder of this computer instead of that of a bucket."""
        scheme, _, path = value.partition("://")
        return (self.storage / scheme / path).as_uri() if scheme in ("gs", "s3") else value


Changed = Callable[[str, TaskRun, str], None]
"""Called with the name of the run, one of its TaskRuns and its new state."""


@dataclass
class Runs:
    """The PipelineRuns of one cluster. They end with this object."""

    world: World
    containers: Containers
    scheduler: Scheduler
    settings: Settings
    changed: Changed = lambda *_: None
    log: Callable[[str, str], None] = lambda *_: None
    """Called with the name of a TaskRun and a line of its output."""
    _runs: dict[str, tuple[Run, threading.Thread]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def create(self, given: Mapping[str, Any]) -> bool:
        """Store a PipelineRun and start it. Return False if its name exists.

        Raises:
            Refused: The Pipeline or one of its Tasks is missing.
        """
        meta, spec = given["metadata"], given["spec"]
        namespace, name = str(meta["namespace"]), str(meta["name"])
        run = Run(self.spec(f"{API}:Pipeline", namespace, spec["pipelineRef"]["name"]), given)
        refs = {key: each["taskRef"]["name"] for key, each in (run.tasks | run.finals).items()}
        tasks = {key: self.spec(f"{API}:Task", namespace, ref) for key, ref in refs.items()}
        try:
            row = self.world.insert(
                Record(PIPELINE_RUN, f"{namespace}/{name}", name, "", dict(given), dict(given), "controller")
            )
        except Exists:
            return False
        execution = _Execution(self, run, row, tasks)
        thread = threading.Thread(target=execution.run, name=name)
        self._runs[row.id] = run, thread
        thread.start()
        return True

    def spec(self, token: str, namespace: str, name: str) -> Mapping[str, Any]:
        """Return the spec of an object.

        Raises:
            Refused: The object is missing.
        """
        row = self.world.get(token, f"{namespace}/{name}")
        if row is None:
            kind = token.rpartition(":")[2]
            raise Refused(f"no such {kind}\n  got: {namespace}/{name}\n  hint: create it, or correct the name")
        spec: Mapping[str, Any] = row.inputs["spec"]
        return spec

    def cancel(self, run_id: str) -> None:
        """Cancel a run as `tkn pipelinerun cancel --grace CancelledRunFinally` does."""
        self._runs[run_id][0].is_cancelled = True

    def wait(self) -> None:
        """Wait until every run has ended."""
        for _, thread in list(self._runs.values()):
            thread.join()

    def close(self) -> None:
        """Stop all steps, and wait until no process is left."""
        self.containers.cancelled.set()
        self.wait()


@dataclass
class _Execution:
    """The execution of one PipelineRun."""

    runs: Runs
    run_state: Run
    row: Record
    tasks: Mapping[str, Mapping[str, Any]]
    """The specs of the Tasks, by the names that they have in the pipeline."""

    def __post_init__(self) -> None:
        self.namespace = self.row.id.partition("/")[0]

    def run(self) -> None:
        running: set[Future[None]] = set()
        with ThreadPoolExecutor(_THREADS) as pool:
            while not self.runs.containers.cancelled.is_set():
                with self.runs._lock:
                    running |= {pool.submit(self._run_task, each) for each in self.run_state.start()}
                if not running:
                    break
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    each.result()
        outputs = {**self.row.outputs, "status": self.run_state.ends()}
        self.runs.world.update(PIPELINE_RUN, self.row.id, outputs=outputs, quiet=True)

    def _is_stopped(self, task_run: TaskRun) -> bool:
        return self.run_state.stops(task_run) or self.runs.containers.cancelled.is_set()

    def _run_task(self, task_run: TaskRun) -> None:
        """Run all attempts of a TaskRun."""
        while not task_run.is_done:
            reason, results = self._attempt(task_run)
            with self.runs._lock:
                self.run_state.ended(task_run, reason, results)
            self.runs.changed(self.run_state.name, task_run, task_run.reason or "ToBeRetried")

    def _attempt(self, task_run: TaskRun) -> tuple[str, Mapping[str, Value]]:
        """Run one attempt, and return its reason and the results that its step wrote, also if the step failed."""
        task, runs = self.tasks[task_run.task], self.runs
        with tempfile.TemporaryDirectory(prefix="pulumi-sandbox-tekton-") as folder:
            paths = {
                str(each["name"]): Path(folder).resolve() / str(each["name"]) for _, each in items(task.get("results"))
            }
            container, environment = self._container(task, task_run, paths)
            volumes = {"volumes": task.get("volumes") or [], "containers": [container]}
            spec = {**self._pod_template(task_run.task), **volumes}
            name = f"{task_run.name}-pod{f'-retry{task_run.attempts}' if task_run.attempts else ''}"
            node = self._place(name, spec, task_run)
            if node is None:
                return TASK_CANCELLED, {}
            runs.changed(self.run_state.name, task_run, "Running")
            facts = Pod(name, self.namespace, node, spec, environment)
            log, is_stopped = partial(runs.log, task_run.name), partial(self._is_stopped, task_run)
            ended = runs.containers.run(facts, container, None, log, is_stopped)
            runs.world.delete(POD, f"{self.namespace}/{name}", self.run_state.name)
            reason = TASK_CANCELLED if ended.killed else STEP_FAILED if ended.exit_code else SUCCEEDED
            return reason, _results(task, paths)

    def _pod_template(self, task: str) -> dict[str, Any]:
        spec = self.row.inputs["spec"]
        own = [each for _, each in items(spec.get("taskRunSpecs")) if each.get("pipelineTaskName") == task]
        return {
            **(inner(spec, "taskRunTemplate", "podTemplate") or {}),
            **{key: each for one in own for key, each in (one.get("podTemplate") or {}).items()},
        }

    def _container(
        self, task: Mapping[str, Any], task_run: TaskRun, paths: Mapping[str, Path]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the container of the only step, and its variables with values of this computer."""
        scope: dict[str, Value] = {f"params.{key}": each for key, each in task_run.params.items()}
        scope |= {f"results.{key}.path": str(each) for key, each in paths.items()}
        [step] = task["steps"]
        settings = self.runs.settings
        environment: dict[str, str] = {}
        written = {f"$(results.{key}.path)" for key in paths}
        for _, each in items(step.get("env")):
            key, value = str(each["name"]), str(each.get("value", ""))
            if ref := inner(each, "valueFrom", "secretKeyRef"):
                environment[key] = settings.secret(self.namespace, str(ref["name"]), str(ref["key"]))
            elif value in written or "://" in value:
                environment[key] = settings.url(str(substitute(value, scope)))
            if key in settings.environment:
                environment[key] = settings.environment[key]
        folder = str(step.get("workingDir") or "")
        command = [*step["command"], *(step.get("args") or ())]
        container = {
            "name": step["name"],
            # A process has no working folder of its own.
            "command": [*(["sh", "-c", 'cd "$0" && exec "$@"', folder] if folder else []), *substitute(command, scope)],
            "env": [substitute(each, scope) for _, each in items(step.get("env")) if "value" in each],
            "resources": step.get("computeResources") or {},
            "volumeMounts": step.get("volumeMounts") or [],
        }  # fmt: skip
        return container, environment

    def _place(self, name: str, spec: dict[str, Any], task_run: TaskRun) -> str | None:
        """Wait for a node, and return its name; None if the attempt is stopped first. Unknown nodes fit every pod."""
        runs, waits = self.runs, False
        launches = runs.scheduler.launches(lambda *_: None)
        while not self._is_stopped(task_run):
            with runs._lock, runs.world.transaction():
                placed = Placement("node")
                if not runs.scheduler.knows_no_node():
                    placed = runs.scheduler.place(spec, launches)
                if placed.node:
                    runs.world.insert(pod(self.run_state.name, self.namespace, name, spec, placed))
                    return placed.node
            if not waits:
                waits = True
                runs.changed(self.run_state.name, task_run, f"{PENDING}: {placed.message}")
            runs.containers.cancelled.wait(SCHEDULE_SEC)
        return None


def _results(task: Mapping[str, Any], paths: Mapping[str, Path]) -> dict[str, Value]:
    """Return the results that a step wrote."""
    types = {str(each["name"]): each.get("type") for _, each in items(task.get("results"))}
    texts = {key: path.read_text(encoding="utf-8", errors="replace") for key, path in paths.items() if path.is_file()}
    return {key: json.loads(text) if types[key] == "array" else text for key, text in texts.items()}
