"""The rules of one PipelineRun, without input and output: which task starts next, and how the run ends.

Sources: tektoncd/pipeline v1.15.1, pkg/reconciler/pipelinerun: pipelinerun.go, resources/pipelinerunresolution.go and
resources/pipelinerunstate.go. The functions here keep the names that these rules have there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Value = str | list[str]

# apis/pipeline/v1/pipelinerun_types.go, SkippingReason.
STOPPING = "PipelineRun was stopping"
GRACEFULLY_CANCELLED = "PipelineRun was gracefully cancelled"
PARENT_SKIPPED = "Parent Tasks were skipped"
MISSING_RESULTS = "Results were missing"
PIPELINE_TIMED_OUT = "PipelineRun timeout has been reached"
TASKS_TIMED_OUT = "PipelineRun Tasks timeout has been reached"
FINALLY_TIMED_OUT = "PipelineRun Finally timeout has been reached"
EMPTY_MATRIX = "Matrix Parameters have an empty array"

# The same file, and taskrun_types.go: reasons of conditions.
SUCCEEDED, FAILED, COMPLETED, CANCELLED, RUNNING = "Succeeded", "Failed", "Completed", "Cancelled", "Running"
RUN_TIMEOUT, INVALID = "PipelineRunTimeout", "PipelineValidationFailed"
STEP_FAILED, TASK_CANCELLED, TASK_TIMEOUT = "StepFailed", "TaskRunCancelled", "TaskRunTimeout"
TASK_INVALID, NO_POD = "TaskRunValidationFailed", "PodCreationFailed"
NONE = "None"
# pkg/apis/config/default.go, DefaultTimeoutMinutes.
DEFAULT_TIMEOUT_SEC = 3600.0
REFERENCE = re.compile(r"\$\(([^()]+)\)")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class MissingResult(Exception):  # noqa: N818 - an answer, not a failure
    """A task did not write the result that another task reads."""


@dataclass
class TaskRun:
    """One TaskRun: one task, or one combination of a matrix, with all its attempts."""

    name: str
    task: str
    """The name of the task in the pipeline."""
    params: dict[str, Value]
    retries: int
    timeout_sec: float
    number: int | None = None
    attempts: int = 0
    """The attempts that failed and were repeated."""
    started: float | None = None
    """The start of this attempt. While a quota keeps its pod away, there is none, and no timeout counts."""
    is_running: bool = False
    is_done: bool = False
    reason: str = ""
    results: dict[str, Value] = field(default_factory=dict)
    stop_reason: str = ""
    """The reason of the end if the run stops the attempt."""
    by_timeout: bool = False
    """True if a timeout of the run cancelled it."""

    @property
    def succeeded(self) -> bool:
        return self.is_done and self.reason == SUCCEEDED


@dataclass
class Work:
    """What happens now: attempts that start, and attempts that are stopped."""

    start: list[TaskRun] = field(default_factory=list)
    stop: list[TaskRun] = field(default_factory=list)


def seconds(duration: Any) -> float | None:
    """Return a duration of Go in seconds; None without a limit, which is written as 0."""
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(str(duration or ""))) or None


def references(value: Any) -> Iterator[str]:
    """Yield the references `$(…)` in a value, without the characters around them."""
    if isinstance(value, str):
        yield from REFERENCE.findall(value)
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from references(each)


def substitute(value: Any, scope: Mapping[str, Value]) -> Any:
    """Replace the references of a value. An element `$(x[*])` of a list becomes the elements of the array."""
    if isinstance(value, list):
        found: list[Any] = []
        for each in value:
            whole = REFERENCE.fullmatch(each) if isinstance(each, str) else None
            array = scope.get(whole[1].removesuffix("[*]")) if whole and whole[1].endswith("[*]") else None
            found += array if isinstance(array, list) else [substitute(each, scope)]
        return found
    if isinstance(value, Mapping):
        return {key: substitute(each, scope) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    whole = REFERENCE.fullmatch(value)
    array = scope.get(whole[1].removesuffix("[*]")) if whole else None
    if isinstance(array, list):
        return list(array)
    return REFERENCE.sub(lambda at: str(scope.get(at[1], at[0])), value)


def parents(task: Mapping[str, Any]) -> set[str]:
    """Return the tasks before a task: those of runAfter, and those whose results it reads."""
    read = {each.split(".")[1] for each in references(task) if each.startswith("tasks.") and ".results." in each}
    return read | {str(each) for each in task.get("runAfter") or ()}


def params_of(entries: Any) -> dict[str, Any]:
    return {str(each["name"]): each["value"] for each in entries or ()}


class Run:
    """One PipelineRun. The caller starts and stops attempts, and reports their ends.

    Args:
        pipeline: The spec of the Pipeline.
        run: The PipelineRun.
        now: The time in seconds. All times of a run are of the same clock.
    """

    def __init__(self, pipeline: Mapping[str, Any], run: Mapping[str, Any], now: float) -> None:
        spec = run["spec"]
        self.name = str(run["metadata"]["name"])
        self.tasks = {str(each["name"]): each for each in pipeline.get("tasks") or ()}
        self.finals = {str(each["name"]): each for each in pipeline.get("finally") or ()}
        self.parents = {name: parents(each) for name, each in self.tasks.items()}
        self.result_values = {str(each["name"]): each["value"] for each in pipeline.get("results") or ()}
        defaults = {str(each["name"]): each["default"] for each in pipeline.get("params") or () if "default" in each}
        given = defaults | params_of(spec.get("params"))
        self.scope: dict[str, Value] = {
            "context.pipelineRun.name": self.name,
            **{f"params.{key}": each for key, each in given.items()},
        }
        self.started, self.now = now, now
        self.finally_started: float | None = None
        self.is_cancelled = False
        self.task_runs: dict[str, list[TaskRun]] = {}
        self.end: tuple[str, str, str] | None = None
        """The status, reason and message of the condition of the ended run."""
        self.skipped_at_end: list[dict[str, str]] = []
        timeouts = spec.get("timeouts") or {}
        whole, tasks, last = (seconds(timeouts.get(each)) for each in ("pipeline", "tasks", "finally"))
        self.timeout = whole if "pipeline" in timeouts else DEFAULT_TIMEOUT_SEC
        self.tasks_timeout = tasks or (whole - last if whole and last else None)
        self.finally_timeout = last or (whole - tasks if whole and tasks else None)
        self._skips: dict[str, str] = {}

    # What the caller reports.

    def began(self, task_run: TaskRun, now: float) -> None:
        """Record the start of an attempt, from which its timeout counts."""
        task_run.started = now

    def ended(self, task_run: TaskRun, reason: str, results: Mapping[str, Value] | None = None) -> None:
        """Record the end of an attempt. A failed attempt is repeated, unless it was cancelled."""
        reason = task_run.stop_reason or reason
        task_run.is_running, task_run.stop_reason = False, ""
        if reason not in (SUCCEEDED, TASK_CANCELLED) and task_run.attempts < task_run.retries and self.end is None:
            task_run.attempts, task_run.started = task_run.attempts + 1, None
            return
        task_run.is_done, task_run.reason = True, reason
        task_run.results = dict(results or {})

    def cancel(self) -> None:
        """Cancel the run as `spec.status: CancelledRunFinally` does: `finally` still runs."""
        self.is_cancelled = True

    # The rules.

    def advance(self, now: float) -> Work:
        """Return what to start and to stop now. Call it again after each report, and when time has passed."""
        self.now, self._skips = now, {}
        work = Work()
        if self.end is not None:
            return work
        in_finally = self.finally_started is not None
        timed_out = self._passed(self.finally_started, self.finally_timeout) if in_finally else self._tasks_timed_out()
        for name in self.finals if in_finally else self.tasks:
            for each in self.task_runs.get(name, ()):
                if timed_out or (self.is_cancelled and not in_finally):
                    self._stop(each, TASK_CANCELLED, work, by_timeout=timed_out)
                elif each.started is not None and self._passed(each.started, each.timeout_sec):
                    self._stop(each, TASK_TIMEOUT, work)
        for name in self._next_tasks():
            self._skips = {}
            try:
                self.task_runs[name] = self._create(name)
            except MissingResult as error:
                # With a task of `finally`, Tekton 1.15 would wait for the timeout of the run.
                counts = f"Tasks Completed: {len(self.task_runs)} (Failed: 0, Cancelled 0), Skipped: 0"
                text = f'{counts}, Failed Validation: 1 ({error}, which is referenced by task "{name}")'
                self._finish("False", INVALID, text, work)
                return work
        self._skips = {}
        for task_run in self.all():
            if not (task_run.is_running or task_run.is_done):
                task_run.is_running = True
                work.start.append(task_run)
        if self._passed(self.started, self.timeout):
            text = f'PipelineRun "{self.name}" failed to finish within "{_go(self.timeout)}"'
            self._finish("False", RUN_TIMEOUT, text, work)
            work.start.clear()
        elif (condition := self.condition())[0] != "Unknown":
            self._finish(*condition, work)
        return work

    def _finish(self, status: str, reason: str, message: str, work: Work) -> None:
        self.skipped_at_end = self.skipped()
        self.end = status, reason, message
        for each in self.all():
            self._stop(each, TASK_CANCELLED, work, by_timeout=reason == RUN_TIMEOUT)

    def _stop(self, task_run: TaskRun, reason: str, work: Work, *, by_timeout: bool = False) -> None:
        if task_run.is_done or task_run.stop_reason:
            return
        if not task_run.is_running:  # a repeated attempt that has not started
            task_run.is_done, task_run.reason = True, reason
        else:
            task_run.stop_reason = reason
            work.stop.append(task_run)
        task_run.by_timeout = by_timeout

    def _next_tasks(self) -> list[str]:
        """Return the tasks to create (DAGExecutionQueue and GetFinalTasks)."""
        if self.is_done_dag():
            if self.finally_started is None:
                self.finally_started = self.now
            return [each for each in self.finals if each not in self.task_runs and not self._finally_skip(each)]
        if self.is_cancelled or self._is_stopping():
            return []
        ready = (name for name in self.tasks if name not in self.task_runs and self._parents_done(name))
        return [name for name in ready if not self._skip(name)]

    def _create(self, name: str) -> list[TaskRun]:
        task = self.tasks.get(name) or self.finals[name]
        scope = self._scope_of(task)
        params = substitute(params_of(task.get("params")), scope)
        retries, limit = int(task.get("retries") or 0), seconds(task.get("timeout")) or DEFAULT_TIMEOUT_SEC
        matrix = params_of((task.get("matrix") or {}).get("params"))
        if not matrix:
            return [TaskRun(f"{self.name}-{name}", name, params, retries, limit)]
        [(key, values)] = substitute(matrix, scope).items()
        names = [f"{self.name}-{name}{f'-{at}' if len(values) > 1 else ''}" for at in range(len(values))]
        return [
            TaskRun(names[at], name, {**params, key: each}, retries, limit, number=at) for at, each in enumerate(values)
        ]

    def _scope_of(self, value: Any) -> dict[str, Value]:
        """Return the scope of a value, with the results and states that it reads."""
        scope = dict(self.scope)
        for each in references(value):
            kind, _, rest = each.partition(".")
            if kind == "tasks":
                scope[each.removesuffix("[*]")] = self._of_tasks(rest)
        return scope

    def _of_tasks(self, reference: str) -> Value:
        """Return the value of a reference after `tasks.`."""
        if reference == "status":
            return self.aggregate()
        name, what, *rest = reference.split(".", 2)
        if what == "status":
            return self.state(name)
        if what == "reason":
            return self.reason(name)
        key = rest[0].removesuffix("[*]")
        # In the order of their names, in which the tenth is before the second.
        runs = sorted(self.task_runs.get(name, ()), key=lambda each: each.name)
        found = [each.results[key] for each in runs if key in each.results]
        if not found:
            raise MissingResult(f'task "{name}" completed successfully but did not emit the result "{key}"')
        return found[0] if runs[0].number is None else [str(each) for each in found]

    def _has_results(self, name: str) -> bool:
        try:
            self._scope_of(self.tasks.get(name) or self.finals[name])
        except MissingResult:
            return False
        return True

    def _skip(self, name: str) -> str:
        """Return the reason why a task of the graph is skipped; empty if it is not (skip)."""
        if name not in self._skips:
            self._skips[name] = self._find_skip(name)
        return self._skips[name]

    def _find_skip(self, name: str) -> str:
        if name in self.task_runs:
            return ""
        if self._is_stopping():
            return STOPPING
        if self.is_cancelled:
            return GRACEFULLY_CANCELLED
        if any(self._skip(each) for each in self.parents[name]):
            return PARENT_SKIPPED
        if not self._parents_done(name):
            return ""
        if self._passed(self.started, self.timeout):
            return PIPELINE_TIMED_OUT
        if self._tasks_timed_out():
            return TASKS_TIMED_OUT
        return EMPTY_MATRIX if self._is_empty_matrix(self.tasks[name]) else ""

    def _finally_skip(self, name: str) -> str:
        """Return the reason why a task of `finally` is skipped; empty if it is not (IsFinallySkipped)."""
        if name in self.task_runs or not self.is_done_dag():
            return ""
        if not self._has_results(name):
            return MISSING_RESULTS
        if self._passed(self.started, self.timeout):
            return PIPELINE_TIMED_OUT
        return FINALLY_TIMED_OUT if self._passed(self.finally_started, self.finally_timeout) else ""

    def _is_empty_matrix(self, task: Mapping[str, Any]) -> bool:
        matrix = params_of((task.get("matrix") or {}).get("params"))
        try:
            return any(each == [] for each in substitute(matrix, self._scope_of(matrix)).values())
        except MissingResult:
            return False  # _create reports it

    def _passed(self, since: float | None, limit: float | None) -> bool:
        return since is not None and limit is not None and self.now - since > limit

    def _tasks_timed_out(self) -> bool:
        return self._passed(self.started, self.tasks_timeout)

    def all(self) -> Iterator[TaskRun]:
        """Yield all TaskRuns, in the order of their creation."""
        for each in self.task_runs.values():
            yield from each

    def _is_successful(self, name: str) -> bool:
        runs = self.task_runs.get(name)
        return bool(runs) and all(each.succeeded for each in runs or ())

    def _is_failure(self, name: str) -> bool:
        runs = self.task_runs.get(name, [])
        return any(each.is_done and not each.succeeded for each in runs) and all(each.is_done for each in runs)

    def _is_cancelled(self, name: str) -> bool:
        return self._is_failure(name) and any(each.reason == TASK_CANCELLED for each in self.task_runs[name])

    def _is_stopping(self) -> bool:
        return any(map(self._is_failure, self.tasks))

    def _is_done(self, name: str) -> bool:
        return self._is_successful(name) or self._is_failure(name) or bool(self._skip(name))

    def _parents_done(self, name: str) -> bool:
        return all(map(self._is_done, self.parents[name]))

    def is_done_dag(self) -> bool:
        return all(map(self._is_done, self.tasks))

    # What a user sees.

    def state(self, name: str) -> str:
        """Return `$(tasks.NAME.status)`."""
        if self._is_successful(name):
            return SUCCEEDED
        return FAILED if any(each.is_done and not each.succeeded for each in self.task_runs.get(name, ())) else NONE

    def reason(self, name: str) -> str:
        """Return `$(tasks.NAME.reason)`: that of the first TaskRun without success."""
        runs = self.task_runs.get(name, [])
        return next((each.reason for each in runs if not each.succeeded), runs[0].reason if runs else "")

    def aggregate(self) -> str:
        """Return `$(tasks.status)`."""
        states = list(map(self.state, self.tasks))
        if not self.is_done_dag():
            return NONE
        return FAILED if FAILED in states else COMPLETED if any(map(self._skip, self.tasks)) else SUCCEEDED

    def skipped(self) -> list[dict[str, str]]:
        """Return the field `skippedTasks` of the status."""
        if self.end is not None:
            return self.skipped_at_end
        found = [(name, self._skip(name)) for name in self.tasks]
        found += [(name, self._finally_skip(name)) for name in self.finals]
        return [{"name": name, "reason": reason} for name, reason in found if reason]

    def condition(self) -> tuple[str, str, str]:
        """Return the status, reason and message of the condition Succeeded (GetPipelineConditionStatus)."""
        if self.end is not None:
            return self.end
        names = [*self.tasks, *self.finals]
        skipped = {each["name"]: each["reason"] for each in self.skipped()}
        late = (PIPELINE_TIMED_OUT, TASKS_TIMED_OUT, FINALLY_TIMED_OUT)
        good = sum(map(self._is_successful, names))
        ended = [each for each in names if self._is_failure(each)]
        cancelled = sum(self._is_cancelled(each) and not self._by_timeout(each) for each in ended)
        failed = len(ended) - cancelled
        finals_done = all(
            each in skipped or self._is_successful(each) or self._is_failure(each) for each in self.finals
        )
        if self._tasks_timed_out() and finals_done:
            text = f'PipelineRun "{self.name}" failed due to tasks failed to finish within "{_go(self.tasks_timeout)}"'
            return "False", RUN_TIMEOUT, text
        counts = f"Tasks Completed: {good + len(ended)} (Failed: {failed}, Cancelled {cancelled})"
        if incomplete := len(names) - good - len(ended) - len(skipped):
            reason = RUNNING
            if self._tasks_timed_out() and self.finals:
                reason = "PipelineRunTimeoutRunningFinally"
            elif self.is_cancelled:
                reason = "CancelledRunningFinally"
            elif cancelled or (failed and finals_done):
                reason = "PipelineRunStopping"
            return "Unknown", reason, f"{counts}, Incomplete: {incomplete}, Skipped: {len(skipped)}"
        message = f"{counts}, Skipped: {len(skipped)}"
        if failed or any(each in late for each in skipped.values()):
            return "False", FAILED, message
        if self.is_cancelled:
            return "False", CANCELLED, f'PipelineRun "{self.name}" was cancelled'
        if cancelled:
            return "False", CANCELLED, message
        return "True", COMPLETED if skipped else SUCCEEDED, message

    def _by_timeout(self, name: str) -> bool:
        return any(each.by_timeout and each.reason == TASK_CANCELLED for each in self.task_runs[name])

    def results(self) -> list[dict[str, Value]]:
        """Return the results of the ended run. Those that no task wrote are missing."""
        found: list[dict[str, Value]] = []
        for name, value in self.result_values.items():
            try:
                found.append({"name": name, "value": substitute(value, self._scope_of(value))})
            except MissingResult:
                continue
        return found


def _go(duration: float | None) -> str:
    """Return seconds in the form of a duration of Go, such as 1h30m0s."""
    minutes, rest = divmod(duration or 0.0, 60)
    hours, minutes = divmod(int(minutes), 60)
    return "".join((f"{hours}h" if hours else "", f"{minutes}m" if hours or minutes else "", f"{rest:g}s"))
