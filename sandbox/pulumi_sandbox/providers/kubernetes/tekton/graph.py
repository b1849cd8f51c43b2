"""The order of one PipelineRun, without input and output: which task starts next, and how the run ends.

It follows tektoncd/pipeline v1.15.1, pkg/reconciler/pipelinerun/resources/pipelinerunstate.go, for the fields that a
notebook pipeline has: runAfter, params, results, a matrix of one param, retries and `finally`. Timeouts are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Value = str | list[str]

# apis/pipeline/v1/pipelinerun_types.go, SkippingReason.
STOPPING, GRACEFULLY_CANCELLED = "PipelineRun was stopping", "PipelineRun was gracefully cancelled"
# The same file, and taskrun_types.go: reasons of conditions.
SUCCEEDED, FAILED, COMPLETED, CANCELLED, NONE = "Succeeded", "Failed", "Completed", "Cancelled", "None"
STEP_FAILED, TASK_CANCELLED = "StepFailed", "TaskRunCancelled"
REFERENCE = re.compile(r"\$\(([^()]+)\)")


def references(value: Any) -> Iterator[str]:
    """Yield the references `$(…)` in a value, without the characters around them."""
    if isinstance(value, str):
        yield from REFERENCE.findall(value)
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from references(each)


def substitute(value: Any, scope: Mapping[str, Value]) -> Any:
    """Replace the references of a value. An element `$(x[*])` of a list becomes the elements of the array."""
    if isinstance(value, Mapping):
        return {key: substitute(each, scope) for key, each in value.items()}
    if isinstance(value, list):
        found: list[Any] = []
        for each in value:
            new = substitute(each, scope)
            found += new if isinstance(new, list) else [new]
        return found
    if not isinstance(value, str):
        return value
    whole = REFERENCE.fullmatch(value)
    if whole and isinstance(array := scope.get(whole[1].removesuffix("[*]")), list):
        return list(array)
    return REFERENCE.sub(lambda at: str(scope.get(at[1], at[0])), value)


def parents(task: Mapping[str, Any]) -> set[str]:
    """Return the tasks before a task: those of runAfter, and those whose results it reads."""
    read = {each.split(".")[1] for each in references(task) if each.startswith("tasks.") and ".results." in each}
    return read | {str(each) for each in task.get("runAfter") or ()}


def params_of(entries: Any) -> dict[str, Any]:
    return {str(each["name"]): each["value"] for each in entries or ()}


def by_name(entries: Any) -> dict[str, Mapping[str, Any]]:
    return {str(each["name"]): each for each in entries or ()}


@dataclass
class TaskRun:
    """One TaskRun: one task, or one combination of a matrix, with all its attempts."""

    name: str
    task: str
    """The name of the task in the pipeline."""
    params: dict[str, Value]
    retries: int
    attempts: int = 0
    """The attempts that failed and were repeated."""
    reason: str = ""
    """The reason of its end; empty until then."""
    results: dict[str, Value] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.reason != ""


class Run:
    """One PipelineRun. The caller starts its TaskRuns, and reports their ends.

    Args:
        pipeline: The spec of the Pipeline.
        run: The PipelineRun.
    """

    def __init__(self, pipeline: Mapping[str, Any], run: Mapping[str, Any]) -> None:
        self.name = str(run["metadata"]["name"])
        self.tasks, self.finals = by_name(pipeline.get("tasks")), by_name(pipeline.get("finally"))
        self._parents = {name: parents(each) for name, each in self.tasks.items()}
        self.is_cancelled = False
        self.task_runs: dict[str, list[TaskRun]] = {}
        self._results = params_of(pipeline.get("results"))
        self._params = {f"params.{key}": each for key, each in params_of(run["spec"].get("params")).items()}

    def start(self) -> list[TaskRun]:
        """Return the TaskRuns that start now. Call it again after each end; without any, the run is over."""
        stops = self._stop_reason
        names: Iterable[str] = ()
        if all(self._is_done(name) for name in (self.task_runs if stops else self.tasks)):
            names = self.finals
        elif not stops:
            names = [name for name in self.tasks if all(self.status(each) == SUCCEEDED for each in self._parents[name])]
        started = [name for name in names if name not in self.task_runs]
        self.task_runs |= {name: self._create(name) for name in started}
        return [each for name in started for each in self.task_runs[name]]

    def ended(self, task_run: TaskRun, reason: str, results: Mapping[str, Value]) -> None:
        """Record the end of an attempt. A failed attempt is repeated, unless it was cancelled."""
        if reason == STEP_FAILED and task_run.attempts < task_run.retries and not self.is_cancelled:
            task_run.attempts += 1
        else:
            task_run.reason, task_run.results = reason, dict(results)

    def stops(self, task_run: TaskRun) -> bool:
        """Return True if the run is cancelled, and this TaskRun with it. `finally` still runs."""
        return self.is_cancelled and task_run.task in self.tasks

    def _create(self, name: str) -> list[TaskRun]:
        task = self.tasks.get(name) or self.finals[name]
        scope = self._scope()
        params, retries = substitute(params_of(task.get("params")), scope), int(task.get("retries") or 0)
        matrix = params_of((task.get("matrix") or {}).get("params"))
        if not matrix:
            return [TaskRun(f"{self.name}-{name}", name, params, retries)]
        [(key, values)] = substitute(matrix, scope).items()
        names = [f"{self.name}-{name}{f'-{at}' if len(values) > 1 else ''}" for at in range(len(values))]
        return [TaskRun(each, name, {**params, key: value}, retries) for each, value in zip(names, values, strict=True)]

    def _scope(self) -> dict[str, Value]:
        """Return the values of all references, by their names."""
        scope: dict[str, Value] = {"context.pipelineRun.name": self.name, "tasks.status": self._aggregate()}
        scope |= self._params
        for name, task in self.tasks.items():
            runs = self.task_runs.get(name, [])
            scope |= {f"tasks.{name}.status": self.status(name), f"tasks.{name}.reason": self._reason(name)}
            # In the order of their names, in which the tenth is before the second.
            for each in sorted(runs, key=lambda each: each.name):
                for key, value in each.results.items():
                    reference = f"tasks.{name}.results.{key}"
                    scope[reference] = [*scope.get(reference, ()), str(value)] if task.get("matrix") else value
        return scope

    def _is_done(self, name: str) -> bool:
        return name in self.task_runs and all(each.is_done for each in self.task_runs[name])

    def status(self, name: str) -> str:
        """Return `$(tasks.NAME.status)`: of a task that runs, None."""
        if not self._is_done(name):
            return NONE
        return SUCCEEDED if all(each.reason == SUCCEEDED for each in self.task_runs[name]) else FAILED

    def _reason(self, name: str) -> str:
        """Return `$(tasks.NAME.reason)`: that of the first TaskRun without success."""
        reasons = [each.reason for each in self.task_runs.get(name, ())]
        return next((each for each in reasons if each != SUCCEEDED), SUCCEEDED if reasons else "")

    def _aggregate(self) -> str:
        """Return `$(tasks.status)`."""
        states = list(map(self.status, self.tasks))
        return FAILED if FAILED in states else COMPLETED if NONE in states else SUCCEEDED

    @property
    def _stop_reason(self) -> str:
        """The reason why no further task starts; empty while tasks start."""
        if any(self.status(name) == FAILED for name in self.tasks):
            return STOPPING
        return GRACEFULLY_CANCELLED if self.is_cancelled else ""

    def ends(self) -> dict[str, Any]:
        """Return the status of the ended run."""
        names = [*self.tasks, *self.finals]
        skipped = [name for name in names if name not in self.task_runs]
        bad = [name for name in names if self.status(name) == FAILED]
        cancelled = [name for name in bad if any(each.reason == TASK_CANCELLED for each in self.task_runs[name])]
        failed = len(bad) - len(cancelled)
        ended = len(names) - len(skipped)
        message = f"Tasks Completed: {ended} (Failed: {failed}, Cancelled {len(cancelled)}), Skipped: {len(skipped)}"
        status, reason = "True", COMPLETED if skipped else SUCCEEDED
        if failed:
            status, reason = "False", FAILED
        elif self.is_cancelled or cancelled:
            status, reason, message = "False", CANCELLED, f'PipelineRun "{self.name}" was cancelled'
        scope = self._scope()
        written = {
            key: value
            for key, value in self._results.items()
            if all(each.removesuffix("[*]") in scope for each in references(value))
        }
        return {
            "conditions": [{"type": "Succeeded", "status": status, "reason": reason, "message": message}],
            "skippedTasks": [{"name": name, "reason": self._stop_reason} for name in skipped],
            # A result that no task wrote is missing.
            "results": [{"name": key, "value": substitute(value, scope)} for key, value in written.items()],
        }
