"""Run PipelineRuns of Tekton: each step is a process of this computer, on a node that the scheduler finds."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.quantities import quantity
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement, Scheduler
from pulumi_sandbox.providers.kubernetes.tekton.engine import (
    NO_POD,
    STEP_FAILED,
    SUCCEEDED,
    TASK_INVALID,
    Run,
    TaskRun,
    Value,
    params_of,
    references,
    substitute,
)
from pulumi_sandbox.providers.kubernetes.tekton.fields import graph_problems, unsupported
from pulumi_sandbox.providers.kubernetes.workloads.containers import MESSAGE_BYTES, Containers, Pod
from pulumi_sandbox.providers.kubernetes.workloads.pods import pod
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.world.store import Exists, Record, World, now

API, TRIGGERS = "kubernetes:tekton.dev/v1", "kubernetes:triggers.tekton.dev/v1beta1"
PIPELINE_RUN = f"{API}:PipelineRun"
QUOTA = "kubernetes:core/v1:ResourceQuota"
POLL_SEC, SCHEDULE_SEC = 0.1, 0.5
# The field startedAt that the entrypoint writes before the results (pkg/entrypoint/entrypointer.go).
_STARTED = {"key": "StartedAt", "value": "2026-01-01T00:00:00.000Z", "type": 3}
PENDING, QUOTA_EXCEEDED = "ExceededNodeResources", "ExceededResourceQuota"


@dataclass(frozen=True)
class Settings:
    """What a cluster has besides its objects."""

    storage: Path
    """The folder of buckets and claims."""
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
    clock: Callable[[], float] = time.monotonic
    _engines: dict[str, tuple[Run, threading.Thread]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def create(self, run: Mapping[str, Any]) -> bool:
        """Store a PipelineRun and start it. Return False if its name exists.

        Raises:
            Refused: An object is missing, or has a field that the sandbox does not run.
        """
        meta = run["metadata"]
        namespace, name = str(meta["namespace"]), str(meta["name"])
        pipeline, tasks = self._objects(namespace, run)
        row = Record(PIPELINE_RUN, f"{namespace}/{name}", name, "", dict(run), dict(run), "controller")
        try:
            self.world.insert(row)
        except Exists:
            return False
        engine = Run(pipeline, run, self.clock())
        execution = _Execution(self, engine, run, pipeline, tasks)
        thread = threading.Thread(target=execution.run, name=name)
        self._engines[row.id] = engine, thread
        thread.start()
        return True

    def cancel(self, run_id: str) -> None:
        """Cancel a run as `tkn pipelinerun cancel --grace CancelledRunFinally` does."""
        with self._lock:
            self._engines[run_id][0].cancel()

    def wait(self) -> None:
        """Wait until every run has ended."""
        for _, thread in list(self._engines.values()):
            thread.join()

    def close(self) -> None:
        """Stop all steps, and wait until no process is left."""
        self.containers.cancelled.set()
        self.wait()

    def _objects(self, namespace: str, run: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the specs of the Pipeline and of its Tasks, which are checked."""
        spec = run["spec"]
        name = str(inner(spec, "pipelineRef", "name"))
        problems = list(unsupported("PipelineRun", str(run["metadata"]["name"]), spec))
        problems += [
            f"PipelineRun {run['metadata']['name']}: spec.params: the value of {key} has a reference\n"
            f"  got: $({each})\n  expected: a value without $(…)\n  hint: a cluster with Tekton fails the run"
            for key, value in params_of(spec.get("params")).items()
            for each in references(value)
        ]
        row = self.world.get(f"{API}:Pipeline", f"{namespace}/{name}")
        if row is None:
            raise Refused(
                f"PipelineRun {run['metadata']['name']}: spec.pipelineRef.name: no such Pipeline\n  got: {name}"
            )
        pipeline = row.inputs["spec"]
        refs = [
            str(inner(each, "taskRef", "name")) for key in ("tasks", "finally") for _, each in items(pipeline.get(key))
        ]
        rows = {each: self.world.get(f"{API}:Task", f"{namespace}/{each}") for each in refs}
        tasks = {each: found.inputs["spec"] for each, found in rows.items() if found}
        problems += unsupported("Pipeline", name, pipeline)
        problems += [text for each, task in tasks.items() for text in unsupported("Task", each, task)]
        problems = problems or list(graph_problems(name, pipeline, tasks))
        if problems:
            raise Refused("\n".join(problems))
        return pipeline, tasks


@dataclass
class _Execution:
    """The execution of one PipelineRun."""

    runs: Runs
    engine: Run
    run_object: Mapping[str, Any]
    pipeline: Mapping[str, Any]
    tasks: Mapping[str, Any]
    stopped: dict[str, threading.Event] = field(default_factory=dict)
    stored: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.namespace = str(self.run_object["metadata"]["namespace"])
        self.started = now()
        listed = [each for key in ("tasks", "finally") for _, each in items(self.pipeline.get(key))]
        self.refs = {str(each["name"]): str(inner(each, "taskRef", "name")) for each in listed}

    def run(self) -> None:
        threads: list[threading.Thread] = []
        closed = self.runs.containers.cancelled
        while not closed.is_set():
            with self.runs._lock:
                work = self.engine.advance(self.runs.clock())
                for each in work.stop:
                    self.stopped[each.name].set()
                for each in work.start:
                    self.stopped[each.name] = threading.Event()
                    threads.append(threading.Thread(target=self._attempt, args=(each,), name=each.name))
                    threads[-1].start()
                self._store()
            if self.engine.end is not None:
                break
            closed.wait(POLL_SEC)
        for thread in threads:
            thread.join()

    def _store(self) -> None:
        status, reason, message = self.engine.condition()
        children = [
            {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": each.name, "pipelineTaskName": each.task}
            for each in self.engine.all()
        ]
        found = {
            "conditions": [{"type": "Succeeded", "status": status, "reason": reason, "message": message}],
            "startTime": self.started,
            "childReferences": children,
            "skippedTasks": self.engine.skipped(),
            "results": self.engine.results() if self.engine.end else [],
        }
        if found != self.stored:
            self.stored = found
            end = {"completionTime": now()} if self.engine.end else {}
            outputs = {**self.run_object, "status": {**found, **end}}
            self.runs.world.update(PIPELINE_RUN, f"{self.namespace}/{self.engine.name}", outputs=outputs, quiet=True)

    def _attempt(self, task_run: TaskRun) -> None:
        """Run one attempt of a TaskRun, from its pod to its end."""
        reason: str
        results: Mapping[str, Value]
        task = self.tasks[self.refs[task_run.task]]
        with tempfile.TemporaryDirectory(prefix="pulumi-sandbox-tekton-") as folder:
            paths = {
                str(each["name"]): Path(folder).resolve() / str(each["name"]) for _, each in items(task.get("results"))
            }
            container, environment = self._container(task, task_run, paths)
            if any(each.startswith("params.") for each in references(container)):  # the value of a param has one
                reason, results = NO_POD, {}
            else:
                exit_code = self._run_pod(task, task_run, container, environment)
                reason, results = _results(task, paths, exit_code) if exit_code is not None else (STEP_FAILED, {})
        with self.runs._lock:
            self.engine.ended(task_run, reason, results)
        self.runs.changed(self.engine.name, task_run, task_run.reason if task_run.is_done else "ToBeRetried")

    def _run_pod(
        self, task: Mapping[str, Any], task_run: TaskRun, container: dict[str, Any], environment: dict[str, str]
    ) -> int | None:
        """Run the pod of an attempt, and return the exit code; None if the attempt is stopped before its end."""
        stopped = self.stopped[task_run.name]
        spec = {
            **self._pod_template(task_run.task),
            "volumes": task.get("volumes") or [],
            "containers": [container],
        }
        name = f"{task_run.name}-pod{f'-retry{task_run.attempts}' if task_run.attempts else ''}"
        node = self._place(name, spec, task_run, stopped)
        if node is None:
            return None
        self.runs.changed(self.engine.name, task_run, "Running")
        facts = Pod(name, self.namespace, node, spec, environment)
        ended = self.runs.containers.run(facts, container, None, partial(self.runs.log, task_run.name), stopped.is_set)
        self.runs.world.delete(POD, f"{self.namespace}/{name}", self.engine.name)
        return None if ended.killed else ended.exit_code

    def _pod_template(self, task: str) -> dict[str, Any]:
        spec = self.run_object["spec"]
        own = [each for _, each in items(spec.get("taskRunSpecs")) if each.get("pipelineTaskName") == task]
        return {
            **(inner(spec, "taskRunTemplate", "podTemplate") or {}),
            **{key: each for one in own for key, each in (one.get("podTemplate") or {}).items()},
        }

    def _container(
        self, task: Mapping[str, Any], task_run: TaskRun, paths: Mapping[str, Path]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the container of the step, and its variables with values of this computer."""
        scope: dict[str, Value] = {
            f"params.{each['name']}": each["default"] for _, each in items(task.get("params")) if "default" in each
        }
        scope |= {f"params.{key}": each for key, each in task_run.params.items()}
        scope |= {f"results.{key}.path": str(each) for key, each in paths.items()}
        [step] = task["steps"]
        settings, claims = self.runs.settings, self._claims(task, step)
        environment: dict[str, str] = {}
        written = {f"$(results.{key}.path)" for key in paths}
        for _, each in items(step.get("env")):
            key, value = str(each["name"]), str(each.get("value", ""))
            if ref := inner(each, "valueFrom", "secretKeyRef"):
                environment[key] = settings.secret(self.namespace, str(ref["name"]), str(ref["key"]))
            elif value in written or "://" in value:
                environment[key] = claims.get(value) or settings.url(str(substitute(value, scope)))
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

    def _claims(self, task: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, str]:
        """Return the URLs of this computer by the URLs of the folders at which claims are mounted."""
        claims = {
            each["name"]: inner(each, "persistentVolumeClaim", "claimName") for _, each in items(task.get("volumes"))
        }
        found = {}
        for _, each in items(step.get("volumeMounts")):
            if claim := claims.get(each["name"]):
                folder = self.runs.settings.storage / "claims" / str(claim)
                folder.mkdir(parents=True, exist_ok=True)
                found[f"file://{each['mountPath']}"] = folder.as_uri()
        return found

    def _place(self, name: str, spec: dict[str, Any], task_run: TaskRun, stopped: threading.Event) -> str | None:
        """Wait for a node, and return its name; None if the attempt is stopped first. Unknown nodes fit every pod."""
        runs, waiting = self.runs, ""
        launches = runs.scheduler.launches(lambda *_: None)
        while not (stopped.is_set() or runs.containers.cancelled.is_set()):
            with runs._lock, runs.world.transaction():
                reason = QUOTA_EXCEEDED if self._over_quota(spec) else ""
                placed = Placement("node")
                if not reason:
                    if task_run.started is None:
                        self.engine.began(task_run, runs.clock())
                    if not runs.scheduler.knows_no_node():
                        placed = runs.scheduler.place(spec, launches)
                    reason = "" if placed.node else PENDING
                if not reason:
                    runs.world.insert(pod(self.engine.name, self.namespace, name, spec, placed))
                    return placed.node
            if reason != waiting:
                waiting = reason
                runs.changed(self.engine.name, task_run, f"{reason}: {placed.message}" if placed.message else reason)
            stopped.wait(SCHEDULE_SEC)
        return None

    def _over_quota(self, spec: Mapping[str, Any]) -> bool:
        """Return True if a quota of the namespace on requests of extended resources leaves too little for the pod."""
        for row in self.runs.world.find(QUOTA):
            hard = inner(row.inputs, "spec", "hard") or {}
            for key, most in hard.items() if inner(row.inputs, "metadata", "namespace") == self.namespace else ():
                resource = str(key).removeprefix("requests.")
                pods = [each for each in self.runs.scheduler.running() if each.id.startswith(f"{self.namespace}/")]
                used = sum(_request(inner(each.inputs, "spec"), resource) for each in pods)
                if "/" in resource and _request(spec, resource) and used + _request(spec, resource) > quantity(most):
                    return True
        return False


def _request(spec: Any, resource: str) -> Any:
    containers = items(inner(spec, "containers"))
    return sum(quantity(inner(each, "resources", "requests", resource)) or 0 for _, each in containers)


def _results(task: Mapping[str, Any], paths: Mapping[str, Path], exit_code: int) -> tuple[str, Mapping[str, Value]]:
    """Return the reason of a TaskRun, and the results that its step wrote, also if the step failed."""
    texts = {key: path.read_text(encoding="utf-8", errors="replace") for key, path in paths.items() if path.is_file()}
    message = [_STARTED, *({"key": key, "value": text, "type": 1} for key, text in texts.items())]
    if len(json.dumps(message, separators=(",", ":")).encode()) > MESSAGE_BYTES:  # in a message at the end of the step
        return STEP_FAILED, {}
    found: dict[str, Value] = dict(texts)
    for _, each in items(task.get("results")):
        if each.get("type") == "array" and each["name"] in found:
            try:
                found[each["name"]] = [str(one) for one in json.loads(texts[each["name"]])]
            except (ValueError, TypeError):
                return TASK_INVALID, {}
    return STEP_FAILED if exit_code else SUCCEEDED, found
