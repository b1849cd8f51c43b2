"""The order of a PipelineRun: retries, cancellation, skipped tasks and results, as Tekton has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pulumi_sandbox.providers.kubernetes.tekton.graph import (
    STEP_FAILED,
    SUCCEEDED,
    TASK_CANCELLED,
    Run,
    TaskRun,
    substitute,
)

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


Outcome = tuple[int, str, Mapping[str, Any]]
"""After how many ends of other attempts an attempt ends, its reason and its results."""


def outcomes(**changes: Outcome) -> Callable[[TaskRun], Outcome]:
    """Return the end of each attempt: of a task, of one TaskRun of a matrix, or of a first attempt."""
    good: dict[str, Outcome] = {
        "prepare": (1, SUCCEEDED, {"notebooks": ["a", "b"]}),
        "execute": (2, SUCCEEDED, {"status": "passed"}),
        "test": (1, SUCCEEDED, {"passed": "2", "failed": "0"}),
    }

    def of(task_run: TaskRun) -> Outcome:
        name = task_run.name.removeprefix("r-").replace("-", "_")
        first = None if task_run.attempts else changes.get(f"{name}_try0")
        found = first or changes.get(name) or changes.get(task_run.task)
        return found or good.get(task_run.task) or (1, SUCCEEDED, {})

    return of


def run(
    spec: dict[str, Any], end: Callable[[TaskRun], Outcome], cancel_at: int = -1
) -> tuple[Run, list[tuple[str, str]]]:
    """Run a pipeline with steps of one unit of time. Return what happened, in this order."""
    found = Run(spec, {"metadata": {"name": "r"}, "spec": {}})
    running: dict[str, tuple[TaskRun, int, Outcome]] = {}
    log: list[tuple[str, str]] = []

    def begin(task_run: TaskRun, now: int) -> None:
        outcome = end(task_run)
        running[task_run.name] = task_run, now + outcome[0], outcome
        log.append(("start", task_run.name))

    for now in range(1000):
        found.is_cancelled |= now == cancel_at
        for task_run, ends, (_, reason, results) in list(running.values()):
            if found.stops(task_run):
                reason, ends = TASK_CANCELLED, now
            if ends <= now:
                del running[task_run.name]
                found.ended(task_run, reason, results)
                log.append(("end", task_run.name))
                if not task_run.is_done:
                    begin(task_run, now)
        for each in found.start():
            begin(each, now)
        if not running:
            return found, log
    raise AssertionError("the run does not end")


def started(log: list[tuple[str, str]]) -> list[str]:
    return [name.removeprefix("r-") for what, name in log if what == "start"]


def condition(found: Run) -> tuple[str, str, str]:
    [only] = found.ends()["conditions"]
    return only["status"], only["reason"], only["message"]


STOPPED = "PipelineRun was stopping"
FAILS = (1, STEP_FAILED, {})
HANGS = (9999, SUCCEEDED, {})
ALL = ["prepare", "execute-0", "execute-1", "fetch-tests", "convert", "test", "verdict", "publish"]
UNTIL_EXECUTE = [*ALL[:4], "publish"]
GOOD = ["Succeeded", "Succeeded", "Succeeded"]

# The measured behaviour of the real controller, and its source (resources/pipelinerunstate.go).
CASES: dict[str, tuple[dict[str, Any], Callable[[TaskRun], Outcome], Any]] = {
    "good": ({}, outcomes(), (ALL, "Succeeded", [], GOOD)),
    "verdict fails": ({}, outcomes(verdict=FAILS), (ALL, "Failed", [], ["Failed", "Succeeded", "Succeeded"])),
    "a task of a matrix fails, and the others finish": (
        {}, outcomes(execute_0=FAILS),
        (UNTIL_EXECUTE, "Failed", ["convert", "test", "verdict"], ["Failed", "Failed", "StepFailed"]),
    ),
    "a retry succeeds": (
        {"retries": 1}, outcomes(execute_0_try0=FAILS), ([*ALL[:4], "execute-0", *ALL[4:]], "Succeeded", [], GOOD),
    ),
    "retries end": (
        {"retries": 1}, outcomes(execute_0=FAILS),
        ([*ALL[:4], "execute-0", "publish"], "Failed", ["convert", "test", "verdict"],
         ["Failed", "Failed", "StepFailed"]),
    ),
    "one notebook": (
        {}, outcomes(prepare=(1, SUCCEEDED, {"notebooks": ["a"]})),
        (["prepare", "execute", *ALL[3:]], "Succeeded", [], GOOD),
    ),
    "prepare fails": (
        {}, outcomes(prepare=FAILS),
        (["prepare", "publish"], "Failed", ["execute", "fetch-tests", "convert", "test", "verdict"],
         ["Failed", "None", ""]),
    ),
    "a failed task wrote its results": (
        {}, outcomes(test=(1, STEP_FAILED, {"passed": "1"})),
        ([*ALL[:6], "publish"], "Failed", ["verdict"], ["Failed", "Succeeded", "Succeeded"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_that_of_the_controller(case: str) -> None:
    fields, end, (order, reason, left_out, states) = CASES[case]
    found, log = run(pipeline(**fields), end)
    assert (started(log), condition(found)[1]) == (order, reason)
    assert found.ends()["skippedTasks"] == [{"name": name, "reason": STOPPED} for name in left_out]
    assert list(found.task_runs["publish"][0].params.values()) == states


@pytest.mark.parametrize(("at", "reason"), [(3, STOPPED), (0, "PipelineRun was gracefully cancelled")])
def test_a_cancelled_run_starts_nothing_but_finally(at: int, reason: str) -> None:
    found, log = run(pipeline(retries=3), outcomes(execute=HANGS), cancel_at=at)
    assert started(log)[-1] == "publish"
    assert condition(found) == ("False", "Cancelled", 'PipelineRun "r" was cancelled')
    assert {each["reason"] for each in found.ends()["skippedTasks"]} == {reason}
    assert all(not each.attempts for runs in found.task_runs.values() for each in runs)


def test_messages_and_results_are_those_of_tekton() -> None:
    found, _ = run(pipeline(), outcomes(verdict=FAILS))
    assert condition(found) == ("False", "Failed", "Tasks Completed: 7 (Failed: 1, Cancelled 0), Skipped: 0")
    assert found.ends()["results"] == [{"name": "passed", "value": "2"}, {"name": "failed", "value": "0"}]
    assert found.task_runs["verdict"][0].params == {"statuses": ["passed", "passed"]}
    failed, _ = run(pipeline(), outcomes(test=(1, STEP_FAILED, {"passed": "1"})))
    assert failed.ends()["results"] == [{"name": "passed", "value": "1"}]
    names = [f"{number:x}" for number in range(11)]
    large, _ = run(pipeline(), outcomes(prepare=(1, SUCCEEDED, {"notebooks": names}),
                                        execute_10=(1, SUCCEEDED, {"status": "failed"})))  # fmt: skip
    assert large.task_runs["verdict"][0].params["statuses"][:3] == ["passed", "passed", "failed"]


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
    ends = st.tuples(st.integers(0, 5), st.sampled_from([SUCCEEDED, SUCCEEDED, STEP_FAILED]), st.just({}))
    found, log = run(spec, lambda _: data.draw(ends), data.draw(st.integers(-1, 12)))
    for each in spec["tasks"]:
        first = [at for at, entry in enumerate(log) if entry == ("start", f"r-{each['name']}")]
        for before in each.get("runAfter", ()) if first else ():
            assert ("end", f"r-{before}") in log[: first[0]]
            assert found.status(before) == SUCCEEDED
    assert log[-1][1] == "r-publish"
    all_runs = [each for runs in found.task_runs.values() for each in runs]
    assert all(each.is_done and each.attempts <= each.retries for each in all_runs)
    passed = all(each.reason == SUCCEEDED for each in all_runs) and not found.ends()["skippedTasks"]
    assert (condition(found)[0] == "True") is (passed and not found.is_cancelled)


def test_a_value_is_replaced_once_and_an_array_becomes_elements() -> None:
    scope: dict[str, Any] = {"params.a": "$(params.b)", "params.b": "no", "params.list": ["1", "2"]}
    assert substitute(["$(params.list[*])", "x-$(params.a)"], scope) == ["1", "2", "x-$(params.b)"]
    assert substitute({"v": "$(params.list[*])"}, scope) == {"v": ["1", "2"]}
