"""The rules of a PipelineRun: order, timeouts, retries, cancellation, skipped tasks and results, as Tekton has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pulumi_sandbox.providers.kubernetes.tekton import engine
from pulumi_sandbox.providers.kubernetes.tekton.engine import SUCCEEDED, Run, TaskRun
from pulumi_sandbox.providers.kubernetes.tekton.fields import graph_problems, unsupported

STATES = ["$(tasks.status)", "$(tasks.execute.status)", "$(tasks.execute.reason)"]


def task(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "taskRef": {"name": name}, **({"runAfter": list(after)} if after else {}), **fields}


def pipeline(**fields: Any) -> dict[str, Any]:
    """The graph of a notebook pipeline."""
    statuses = [{"name": "statuses", "value": ["$(tasks.execute.results.status[*])"]}]
    states = [{"name": f"state-{at}", "value": each} for at, each in enumerate(STATES)]
    notebooks = {"params": [{"name": "notebook", "value": ["$(tasks.prepare.results.notebooks[*])"]}]}
    return {
        "tasks": [
            task("prepare"),
            task("execute", "prepare", matrix=notebooks, **fields),
            task("fetch-tests", "prepare"),
            task("convert", "execute"),
            task("test", "convert", "fetch-tests"),
            task("verdict", "test", params=statuses),
        ],
        "finally": [task("publish", params=states)],
        "results": [{"name": each, "value": f"$(tasks.test.results.{each})"} for each in ("passed", "failed")],
    }


Outcome = tuple[float, str, Mapping[str, Any]]
"""How long an attempt runs, and its reason and results at its end."""


def outcomes(**changes: Outcome) -> Callable[[TaskRun], Outcome]:
    """Return the end of each attempt: of a task, of one TaskRun of a matrix, or of one attempt."""
    good: dict[str, Outcome] = {
        "prepare": (1, SUCCEEDED, {"notebooks": ["a", "b"]}),
        "execute": (4, SUCCEEDED, {"status": "passed"}),
        "test": (1, SUCCEEDED, {"passed": "2", "failed": "0"}),
    }

    def of(task_run: TaskRun) -> Outcome:
        name = task_run.task.replace("-", "_")
        numbered = f"{name}_{task_run.number}"
        found = changes.get(f"{name}_try{task_run.attempts}") or changes.get(numbered) or changes.get(name)
        return found or good.get(task_run.task) or (1, SUCCEEDED, {})

    return of


def run(
    spec: dict[str, Any], end: Callable[[TaskRun], Outcome], cancel_at: float = 1e9, **timeouts: str
) -> tuple[Run, list[tuple[float, str, str]]]:
    """Run a pipeline on a clock of its own, with steps of one second. Return what happened, and when."""
    given_run = {"metadata": {"name": "r"}, "spec": {"timeouts": timeouts} if timeouts else {}}
    found = Run(spec, given_run, 0)
    running: dict[str, tuple[TaskRun, float, Outcome]] = {}
    log: list[tuple[float, str, str]] = []
    now = 0.0
    for now in (float(each) for each in range(8000)):
        for task_run, ends, (_, reason, results) in list(running.values()):
            if ends <= now or task_run.stop_reason:
                del running[task_run.name]
                found.ended(task_run, reason, results)
                log.append((now, "end", task_run.name))
        if now >= cancel_at:
            found.cancel()
        work = found.advance(now)
        for task_run in work.start:
            found.began(task_run, now)
            outcome = end(task_run)
            running[task_run.name] = task_run, now + outcome[0], outcome
            log.append((now, "start", task_run.name))
        if found.end is not None:
            break
    assert found.end is not None, found.condition()
    return found, log


def started(log: list[tuple[float, str, str]]) -> list[str]:
    return [name.removeprefix("r-") for _, what, name in log if what == "start"]


STOPPED = "PipelineRun was stopping"
FAILS = (1, "StepFailed", {})
HANGS = (9999, SUCCEEDED, {})
ALL = ["prepare", "execute-0", "execute-1", "fetch-tests", "convert", "test", "verdict", "publish"]
UNTIL_EXECUTE = [*ALL[:4], "publish"]


def skipped(*names: str, reason: str = STOPPED) -> dict[str, str]:
    return dict.fromkeys(names, reason)


# The measured behaviour of the real controller, and its source (resources/pipelinerunstate.go).
CASES: dict[str, tuple[dict[str, Any], Callable[[TaskRun], Outcome], dict[str, Any], Any]] = {
    "good": ({}, outcomes(), {}, (ALL, "Succeeded", {}, ["Succeeded", "Succeeded", "Succeeded"])),
    "verdict fails": (
        {}, outcomes(verdict=FAILS), {}, (ALL, "Failed", {}, ["Failed", "Succeeded", "Succeeded"]),
    ),
    "a task of a matrix fails, and the others finish": (
        {}, outcomes(execute_0=FAILS), {},
        (UNTIL_EXECUTE, "Failed", skipped("convert", "test", "verdict"), ["Failed", "Failed", "StepFailed"]),
    ),
    "a retry succeeds": (
        {"retries": 1}, outcomes(execute_try0=FAILS), {},
        ([*ALL[:4], "execute-0", "execute-1", *ALL[4:]], "Succeeded", {}, ["Succeeded", "Succeeded", "Succeeded"]),
    ),
    "a timeout of a task is retried": (
        {"retries": 1, "timeout": "12s"}, outcomes(execute_0=HANGS), {},
        ([*ALL[:4], "execute-0", "publish"], "Failed", skipped("convert", "test", "verdict"),
         ["Failed", "Failed", "TaskRunTimeout"]),
    ),
    "the timeout of the tasks": (
        {}, outcomes(execute=HANGS), {"tasks": "12s", "pipeline": "60s"},
        (UNTIL_EXECUTE, "PipelineRunTimeout", skipped("convert", "test", "verdict"),
         ["Failed", "Failed", "TaskRunCancelled"]),
    ),
    "the timeout of the pipeline": (
        {}, outcomes(execute=HANGS), {"pipeline": "12s"}, (ALL[:4], "PipelineRunTimeout", {}, None),
    ),
    "no timeout at all is an hour": ({}, outcomes(execute=HANGS), {}, (ALL[:4], "PipelineRunTimeout", {}, None)),
    "the timeout of finally": (
        {}, outcomes(publish=HANGS), {"pipeline": "60s", "tasks": "40s"},
        (ALL, "Failed", {}, ["Succeeded", "Succeeded", "Succeeded"]),
    ),
    "an empty matrix": (
        {}, outcomes(prepare=(1, SUCCEEDED, {"notebooks": []})), {},
        (["prepare", "fetch-tests", "publish"], "Completed",
         {"execute": "Matrix Parameters have an empty array",
          **skipped("convert", "test", "verdict", reason="Parent Tasks were skipped")}, ["Completed", "None", ""]),
    ),
    "one notebook": (
        {}, outcomes(prepare=(1, SUCCEEDED, {"notebooks": ["a"]})), {},
        (["prepare", "execute", *ALL[3:]], "Succeeded", {}, ["Succeeded", "Succeeded", "Succeeded"]),
    ),
    "prepare fails": (
        {}, outcomes(prepare=FAILS), {},
        (["prepare", "publish"], "Failed", skipped("execute", "fetch-tests", "convert", "test", "verdict"),
         ["Failed", "None", ""]),
    ),
    "a failed task wrote its results": (
        {}, outcomes(test=(1, "StepFailed", {"passed": "1"})), {},
        ([*ALL[:6], "publish"], "Failed", skipped("verdict"), ["Failed", "Succeeded", "Succeeded"]),
    ),
    "a result is missing": (
        {}, outcomes(prepare=(1, SUCCEEDED, {})), {}, (["prepare"], "PipelineValidationFailed", {}, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_that_of_the_controller(case: str) -> None:
    fields, end, timeouts, (order, reason, left_out, states) = CASES[case]
    found, log = run(pipeline(**fields), end, **timeouts)
    assert (started(log), found.condition()[1]) == (order, reason)
    assert {each["name"]: each["reason"] for each in found.skipped()} == left_out
    publish = found.task_runs.get("publish")
    assert (list(publish[0].params.values()) if publish else None) == states


@pytest.mark.parametrize(("at", "first_reason"), [(3, STOPPED), (1, "PipelineRun was gracefully cancelled")])
def test_a_cancelled_run_starts_nothing_but_finally(at: int, first_reason: str) -> None:
    found, log = run(pipeline(retries=3), outcomes(execute=HANGS), cancel_at=at)
    assert started(log)[-1] == "publish"
    assert found.condition() == ("False", "Cancelled", 'PipelineRun "r" was cancelled')
    assert {each["reason"] for each in found.skipped()} == {first_reason}
    assert all(not each.attempts for each in found.all())


def test_a_quota_stops_no_clock_but_that_of_the_run() -> None:
    found = Run({"tasks": [task("execute", timeout="5s")]}, {"metadata": {"name": "r"}, "spec": {}}, 0)
    [waiting] = found.advance(0).start
    assert not found.advance(100).stop
    found.began(waiting, 100)
    assert not found.advance(105).stop
    assert found.advance(106).stop == [waiting]


def test_messages_and_results_are_those_of_tekton() -> None:
    found, _ = run(pipeline(), outcomes(verdict=FAILS))
    assert found.condition() == ("False", "Failed", "Tasks Completed: 7 (Failed: 1, Cancelled 0), Skipped: 0")
    assert found.results() == [{"name": "passed", "value": "2"}, {"name": "failed", "value": "0"}]
    assert found.task_runs["verdict"][0].params == {"statuses": ["passed", "passed"]}
    failed, _ = run(pipeline(), outcomes(test=(1, "StepFailed", {"passed": "1"})))
    assert failed.results() == [{"name": "passed", "value": "1"}]
    names = [f"{number:x}" for number in range(11)]
    large, _ = run(pipeline(), outcomes(prepare=(1, SUCCEEDED, {"notebooks": names}),
                                        execute_10=(1, SUCCEEDED, {"status": "failed"})))  # fmt: skip
    assert large.task_runs["verdict"][0].params["statuses"][:3] == ["passed", "passed", "failed"]
    broken, _ = run(pipeline(), outcomes(execute_1=FAILS))
    assert broken.results() == []
    late, _ = run(pipeline(), outcomes(execute=HANGS), pipeline="1h30m", tasks="90s")
    assert late.condition()[2] == 'PipelineRun "r" failed due to tasks failed to finish within "1m30s"'


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    names = [f"t{number}" for number in range(draw(st.integers(1, 7)))]
    tasks = []
    for at, name in enumerate(names):
        after = draw(st.lists(st.sampled_from(names[:at]), unique=True)) if at else []
        tasks.append(task(name, *after, retries=draw(st.integers(0, 2))))
    return {"tasks": tasks, "finally": [task("publish")]}


@given(graphs(), st.data())
@settings(max_examples=150, deadline=None)
def test_every_graph_ends_in_order_and_with_finally(spec: dict[str, Any], data: st.DataObject) -> None:
    ends = st.tuples(st.integers(0, 5), st.sampled_from([SUCCEEDED, SUCCEEDED, "StepFailed"]), st.just({}))
    cancel_at = data.draw(st.one_of(st.just(1e9), st.integers(0, 12)))
    found, log = run(spec, lambda _: data.draw(ends), cancel_at)
    for each in spec["tasks"]:
        first = [at for at, (_, what, name) in enumerate(log) if (what, name) == ("start", f"r-{each['name']}")]
        for before in each.get("runAfter", ()) if first else ():
            assert ("end", f"r-{before}") in [entry[1:] for entry in log[: first[0]]]
            assert found.task_runs[before][0].succeeded
    assert log[-1][2] == "r-publish"
    assert all(each.is_done and each.attempts <= each.retries for each in found.all())
    passed = all(each.succeeded for each in found.all()) and not found.skipped()
    assert (found.condition()[0] == "True") is (passed and not found.is_cancelled)


def test_other_fields_are_refused_by_name() -> None:
    spec = {"tasks": [{**task("a"), "when": [], "onError": "continue"}], "workspaces": []}
    found = list(unsupported("Pipeline", "p", spec))
    paths = [each.partition(": the sandbox")[0] for each in found]
    assert paths == [f"Pipeline p: spec.{each}" for each in ("tasks[0].when", "tasks[0].onError", "workspaces")]
    assert "expected: params, results, tasks, finally, description" in found[2]
    steps = {"steps": [{"name": "s", "script": "echo"}], "sidecars": [], "stepTemplate": {}}
    assert [each.partition(":")[2].partition(":")[0] for each in unsupported("Task", "t", steps)] == [
        " spec.steps[0].script", " spec.sidecars", " spec.stepTemplate",
    ]  # fmt: skip


def test_a_graph_that_cannot_run_is_refused_before_it_starts() -> None:
    step = {"name": "s", "command": ["true"], "env": [{"name": "A", "value": "$(workspaces.w.path)"}]}
    spec = {
        "tasks": [task("a", "b"), task("b", "a"), task("c", "z", params=[{"name": "x", "value": "$(params.n)"}])],
        "finally": [task("d")],
    }
    tasks: dict[str, Any] = {key: {"steps": [step]} for key in ("a", "b", "c")}
    text = "\n".join(graph_problems("p", spec, {**tasks, "c": {"steps": [{**step, "env": []}, step]}}))
    for problem in (
        "tasks[2]: no such task\n  got: z",
        "tasks[2]: unknown reference\n  got: $(params.n)",
        "tasks wait for each other",
        "finally[0].taskRef.name: no such Task\n  got: d",
        "Task a: spec.steps[0].env: unknown reference",
        "Task c: spec.steps: the sandbox runs one step\n  got: 2",
    ):
        assert problem in text


def test_a_value_is_replaced_once_and_an_array_becomes_elements() -> None:
    scope: dict[str, Any] = {"params.a": "$(params.b)", "params.b": "no", "params.list": ["1", "2"]}
    assert engine.substitute(["$(params.list[*])", "x-$(params.a)"], scope) == ["1", "2", "x-$(params.b)"]
    assert engine.substitute({"v": "$(params.list[*])"}, scope) == {"v": ["1", "2"]}
