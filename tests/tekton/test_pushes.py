"""A signed push runs the component's own programs on Tekton, with the end and the report that it has in the sandbox."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.tekton.listener import Listener

from tests.control_plane.api import until
from tests.tekton.conftest import WEBHOOK_KEY, Tier
from tests.tekton.processes import CONTROLLER
from tests.tekton.twins import TEKTON, Executor, Real, Seen, wait_until_running
from tools.notebook import EXAMPLES, NAME, OWNER, REPOSITORY, Example, commits, delivery

# The status, the reason, the verdict of the report, and the states of the notebooks. Two runs pass, so one is not here.
ENDS = {
    "failing": ("False", "Failed", "failed", ["failed", "passed"]),
    "hanging": ("False", "Failed", "failed", ["timeout", "passed"]),
    "bad-tests": ("False", "Failed", "failed", ["passed", "passed"]),
    "cancelled": ("False", "Cancelled", "stopped", ["missing", "missing"]),
    "two-runs": ("True", "Succeeded", "passed", ["passed", "passed"]),
}
_MEASURED = ("time", "seconds", "waited", "peakMemoryMib", "peakGpuMemoryMib")
MARK = (
    "import os, pathlib, time; pathlib.Path(os.environ['STORE'].removeprefix('file://'), os.environ['RUN']).touch(); "
    "time.sleep(300)"
)
"""A cell that shows that it runs, and then hangs."""


class Pushes:
    """Pushes to the repository, delivered to both listeners."""

    def __init__(self, tier: Tier, real: Real, executor: Executor, listener: Listener, folder: Path) -> None:
        self.tier, self.real, self.executor, self.listener = tier, real, executor, listener
        self.folder = folder
        [self.spec] = [each["spec"] for _, each in tier.made if each["kind"] == "Pipeline"]

    def commits(self, example: Example) -> dict[str, str]:
        """Push commits, and return them by the names of the runs that they start."""
        git = self.tier.github.folder / "git"
        made = commits(self.folder / f"{time.monotonic_ns()}", git, example)
        return {f"run-{REPOSITORY}-{sha[:12]}": sha for sha in made}

    def deliver(self, sha: str) -> None:
        """Deliver a push to Tekton, which must start a run."""
        assert self.tier.deliver(delivery(self.tier.github.repository, sha, WEBHOOK_KEY)) == 202
        name = f"run-{REPOSITORY}-{sha[:12]}"
        until(lambda: self.tier.api.get(TEKTON, "PipelineRun", NAME, name), f"{name} exists")

    def ended(self, side: Real | Executor, name: str) -> Seen:
        return side.ended(NAME, name, self.spec)

    def reports(self, name: str) -> list[dict[str, Any]]:
        """Return the report of each side, without measured values, and with the list of its files."""
        return [_report(each / NAME / OWNER / REPOSITORY / name) for each in self.storages()]

    def storages(self) -> tuple[Path, Path]:
        return self.tier.kubelet.claim(NAME, f"{NAME}-storage"), self.executor.storage


def _report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    for each in (found, *found["notebooks"], *(found["tests"] or {}).get("failures", ())):
        for key in (*_MEASURED, *(("message",) if "classname" in each else ())):
            each.pop(key, None)
    found["files"] = sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())
    return found


def _of_the_run(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report without what depends on the moment of a cancel: the notebook that has the GPU, and its page."""
    return {key: each for key, each in report.items() if key not in ("files", "notebooks")}


@pytest.fixture(scope="module")
def pushes(
    pipeline: Tier, real: Real, executor: Executor, listener: Listener, tmp_path_factory: pytest.TempPathFactory
) -> Pushes:
    return Pushes(pipeline, real, executor, listener, tmp_path_factory.mktemp("pushes"))


def test_every_example_is_here() -> None:
    assert ENDS.keys() | {"passing"} == EXAMPLES.keys()


@pytest.mark.parametrize("name", ENDS)
def test_a_push_ends_on_tekton_as_in_the_sandbox(pushes: Pushes, name: str) -> None:
    example, github = EXAMPLES[name], pushes.tier.github
    if example.cancels:
        example = replace(example, changes=dict.fromkeys(("steps = 200", "numbers = set(range(2, limit))"), MARK))
    pushed = pushes.commits(example)
    for sha in pushed.values():
        pushes.deliver(sha)
        assert pushes.listener.receive(delivery(github.repository, sha, WEBHOOK_KEY)).runs
    sides: tuple[Real | Executor, ...] = pushes.real, pushes.executor
    for side, storage in zip(sides, pushes.storages(), strict=True) if example.cancels else ():
        for run in pushed:
            until(lambda marker=storage / run: marker.exists(), "a notebook runs")
            side.cancel(NAME, run)
    for run, sha in pushed.items():
        of_tekton, of_executor = (pushes.ended(side, run) for side in sides)
        assert of_executor == of_tekton
        assert of_tekton.early == []
        report, other = pushes.reports(run)
        assert (_of_the_run(other) if example.cancels else other) == (
            _of_the_run(report) if example.cancels else report
        )
        ends = *of_tekton.end[:2], report["verdict"], [each["status"] for each in report["notebooks"]]
        assert ends == ENDS[name]
        statuses = Counter((each["state"], each["description"]) for each in github.statuses.of(github.repository, sha))
        assert set(statuses.values()) == {2}
        assert len(statuses) == 2
        told = Counter(each["message"] for each in github.received if sha in each["message"])
        assert list(told.values()) == [2]
    if len(pushed) > 1:  # the notebooks used the GPU one after the other
        times = sorted(each for run in pushed for each in _times(pushes, run))
        assert all(first[1] <= second[0] for first, second in pairwise(times))


def _times(pushes: Pushes, run: str) -> list[tuple[str, str]]:
    """Return the start and the end of the step of each notebook."""
    steps = [
        each["status"]["steps"][0]["terminated"]
        for each in pushes.real.task_runs(NAME, run)
        if each["metadata"]["labels"]["tekton.dev/pipelineTask"] == "execute"
    ]
    return [(each["startedAt"], each["finishedAt"]) for each in steps]


def start(pushes: Pushes) -> str:
    """Push a good commit, deliver it to Tekton alone, and return the name of the run when a notebook runs."""
    [(run, sha)] = pushes.commits(Example("", {"steps = 200": f"steps = 200  # {time.time_ns()}"})).items()
    pushes.deliver(sha)
    wait_until_running(pushes.real, NAME, run, "execute")
    return run


def attempts(pushes: Pushes, run: str) -> dict[str, int]:
    """Return how often each task began."""
    _, tasks = run, pushes.ended(pushes.real, run).tasks
    return {name.removeprefix(f"{run}-"): 1 + retries for name, (_, retries, _) in tasks.items()}


ONCE = dict.fromkeys(("prepare", "execute-0", "execute-1", "convert", "test", "verdict", "publish"), 1)


def test_a_run_survives_its_controller_and_its_listener(pushes: Pushes) -> None:
    run = start(pushes)
    pods = {each.name for each in pushes.tier.kubelet.pods.values() if each.name.startswith(run)}
    pushes.tier.tekton.kill(CONTROLLER)
    pushes.tier.kubelet.named(f"el-{NAME}").kill("event-listener")
    [sha] = pushes.commits(Example("", {"< 0.01": "< 0.02"})).values()
    pushes.deliver(sha)  # to the listener that the kubelet starts again
    pushes.tier.api.delete(TEKTON, "PipelineRun", f"run-{REPOSITORY}-{sha[:12]}", NAME)
    pushes.tier.tekton.run(CONTROLLER)
    assert attempts(pushes, run) == ONCE
    assert pushes.ended(pushes.real, run).end[1] == "Succeeded"
    began = [each.name for each in pushes.tier.kubelet.pods.values() if each.name.startswith(run)]
    assert len(began) == len(ONCE)
    assert pods < set(began)


def test_a_lost_pod_is_repeated(pushes: Pushes) -> None:
    """Tekton repeats an evicted pod as a retry, and makes a deleted pod again within the same attempt."""
    run, kubelet = start(pushes), pushes.tier.kubelet
    kubelet.named(f"{run}-execute").evict()
    name = until(lambda: _second(pushes, run), "the pod of the other notebook runs")
    pushes.tier.api.delete("v1", "Pod", name, NAME)
    found = attempts(pushes, run)
    assert sorted((found.pop("execute-0"), found.pop("execute-1"))) == [1, 2]
    assert found == {key: each for key, each in ONCE.items() if "execute" not in key}
    assert pushes.ended(pushes.real, run).end[1] == "Succeeded"


def _second(pushes: Pushes, run: str) -> str:
    running = [each for each in pushes.tier.kubelet.pods.values() if each.name.startswith(f"{run}-execute")]
    return next(
        (each.name for each in running if not each.is_ended and "running" in each.states.get("step-execute", {})), ""
    )
