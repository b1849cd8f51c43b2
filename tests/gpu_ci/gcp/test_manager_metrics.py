"""Metrics and alerts of gcp.RunnerManager: what they read is what the manager writes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from gpu_ci.gcp.manager_metrics import BUDGETS, LATE, MEASURED, PASSES, LogMetric
from gpu_ci.gcp.runner_manager import RunnerManager, RunnerManagerArgs
from gpu_manager.cli.run_command import Log
from gpu_manager.loop import Event, NewRecord
from gpu_manager.metrics.measure import LogLines
from gpu_manager.model import Runner

from tests.gpu_ci.gcp.test_runner_manager import ACCOUNTS
from tests.gpu_ci.harness import Deployment
from tests.manager.test_budgets import budgets, record
from tests.manager.test_decide import NOW, job, machine, observe
from tests.manager.test_metrics import RECORD, Loop

CHANNEL = "projects/example-ci/notificationChannels/12"


def manager(**choices: Any) -> RunnerManager:
    wiring = {"project": "example-ci", "app_key": "projects/example-ci/secrets/key", "machine_accounts": ACCOUNTS}
    args = RunnerManagerArgs(**RunnerManager.EXAMPLE, **wiring, configuration="{}", **choices)
    return RunnerManager("manager", args)


def of(found: Deployment, kind: str) -> dict[str, dict[str, Any]]:
    return {row.name: row.inputs for row in found.rows if row.type == kind}


def log() -> list[dict[str, Any]]:
    """The lines of a manager in which everything that is measured happens."""
    written: list[str] = []
    loop, clock = Loop(), [0.0]
    lines, out = LogLines(loop.meter, lambda: clock[0], budgets=budgets()), Log(as_json=True, write=written.append)
    idle, busy = Runner(1, "l4-a", True, False), Runner(1, "l4-a", True, True)
    running = job(1, status="in_progress", runner="l4-a")
    events = (Event("insert-failed", "l4-c", "none", "l4", "no-capacity"), Event("rerun", "run 1"))
    for observation in (
        observe(jobs=(job(1, age=90),), machines=(machine("l4-a"), machine("l4-b")), github_requests_left=9),
        observe(now=NOW + 60, jobs=(job(1, age=90),), machines=(machine("l4-a"), machine("l4-b")), runners=(idle,)),
        observe(
            now=NOW + 90, jobs=(running,), machines=(machine("l4-a"),), runners=(busy,), preempted=frozenset({"l4-b"})
        ),
    ):
        done, samples = loop.pass_(observation, *events)
        done.records = [NewRecord(RECORD, job_was_seen=True, boot_was_seen=True)]
        out.report(done)
        for event, subject, fields in lines.of(done, samples):
            out.line(event, subject, "", **fields)
        clock[0] += 60
    return [json.loads(line) for line in written]


@pytest.mark.parametrize("metric", [PASSES, LATE, BUDGETS, *MEASURED], ids=lambda each: each.name)
def test_a_metric_finds_its_lines_its_value_and_its_labels(metric: LogMetric) -> None:
    def value(line: dict[str, Any], path: str) -> Any:
        for key in path.split("."):
            line = line[key]
        return line

    found = [line for line in log() if line["event"] == metric.event]
    if metric.where:
        [(field, sign, wanted)] = re.findall(r"jsonPayload\.(\w+)([=>])(\w+)", metric.where)
        found = [line for line in found if (line[field] is True if sign == "=" else line[field] > int(wanted))]
    assert found
    # The budget is in a line only once GitHub has said it.
    values = [value(line, metric.value) for line in found] if metric.value else []
    assert all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
    assert all(line[label] for line in found for label in metric.labels)


def test_the_log_has_the_cost_of_each_machine_by_part_and_the_spent_part_of_each_budget() -> None:
    loop, clock = Loop(), [0.0]
    lines = LogLines(loop.meter, lambda: clock[0], budgets=budgets(record(8.5)))
    done, samples = loop.pass_(observe())
    done.records = [NewRecord(RECORD, job_was_seen=True, boot_was_seen=True)]
    found = [(event, fields) for event, _, fields in lines.of(done, samples) if event in ("cost", "team")]
    # The machine was on for 300 s at 0.4 USD an hour, and ran the job for 200 s.
    assert found == [
        ("cost", {"pool": "l4", "part": "job", "usd": 0.022222}),
        ("cost", {"pool": "l4", "part": "overhead", "usd": 0.011111}),
        ("team", {"team": "vision", "usd": 8.5, "budgetRatio": 0.85}),
        ("team", {"team": "speech", "usd": 0.0, "budgetRatio": 0.0}),
    ]
    clock[0] = 59
    done.records = []
    assert [event for event, _, _ in lines.of(done, samples)] == []
