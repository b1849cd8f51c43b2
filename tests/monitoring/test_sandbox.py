"""A real Prometheus and Alertmanager over the real manager in the sandbox: planted faults, delivered alerts, panels."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from gpu_ci.monitoring import panels
from gpu_ci.monitoring.alerts import alerts

from tests.conftest import ROOT, project_of, sandbox_settings
from tests.engine.compute_pool import UP
from tests.monitoring.conftest import program
from tests.monitoring.watched import OBJECTIVES, Watched
from tests.sandbox_runner import SandboxRunner
from tools.docs.dashboard_picture import FILE, Chart, draw

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

DEMAND = ("GpuCiNoCapacity", "GpuCiJobLate")
WAITS = ("GpuCiWaitBudgetBurnsFast", "GpuCiWaitBudgetBurns")
BUDGETS = ("GpuCiTeamBudgetNearlySpent", "GpuCiTeamBudgetSpent")
# test_rules.py alone shows these: no machine fails in this run, and none is idle for long enough.
NOT_PLANTED = {"GpuCiMachinesFail", "GpuCiPoolStopped", "GpuCiIdleMachines"}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Watched]:
    """Everything that happens, once: the tests look at what was delivered and recorded."""
    program("prometheus")
    config = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())["config"]
    config["gpu-ci:pools"] = {name: config["gpu-ci:pools"][name] for name in ("l4", "t4")}
    config["gpu-ci:github"] = {"runnerGroup": config["gpu-ci:github"]["runnerGroup"]}
    # Two minutes of one machine of the pool l4.
    config["gpu-ci:teams"] = {"vision": {"repositories": ["kernels"], "usdPerMonth": 0.016}}
    del config["gpu-ci:clusters"]
    project = project_of(shared, "monitoring", config, sandbox_settings())
    runner = SandboxRunner(project, tmp_path_factory.mktemp("monitoring") / "a sandbox")
    runner.run(*UP)
    found = Watched(runner, tmp_path_factory.mktemp("programs"))
    try:
        happen(found)
        yield found
        if os.environ.get("PICTURE") == "write":
            FILE.write_text(draw(charts(found)), encoding="utf-8")
    finally:
        found.close()
        runner.close()


def charts(watched: Watched) -> list[Chart]:
    """Return the panels that have data."""
    found = [
        Chart(
            panel.title,
            panel.unit,
            {
                re.sub(r"{{(\w+)}}", lambda name, each=each: each["labels"].get(name[1], ""), legend): each["points"]
                for expression, legend in panel.lines
                for each in watched.lines(expression.replace("$pool", ".*"))
            },
        )
        for panel in panels.PANELS
    ]
    return [each for each in found if each.lines]


def happen(watched: Watched) -> None:
    run = watched.runner.run
    # Prometheus sees an increase only after it has read the counters once.
    watched.until(lambda: watched.has_read("gpu_ci_inserts_failed_total"), "Prometheus reads the manager")
    # No zone has a machine for the job of one pool, which therefore waits for too long.
    run("world", "break", "stockout", "--times", "0", "--on", "t4-*")
    late = watched.queue("t4", "true")
    # Google takes two of three machines of the other pool back, while they run jobs.
    for _ in range(3):
        watched.queue("l4", "sleep 45")
    watched.fires(*DEMAND, *WAITS)
    run("job", "cancel", str(late))
    run("world", "break", "preempt", "--times", "2", "--on", "l4-*")
    watched.fires("GpuCiPreemptions")
    watched.fires(*BUDGETS)
    watched.resolves(*DEMAND, "GpuCiPreemptions")
    watched.manager.terminate()
    watched.fires("GpuCiManagerStalled")
    watched.config["teams"][0]["usdPerMonth"] = 100
    (watched.folder / "manager.json").write_text(json.dumps(watched.config))
    watched.manager = watched.start_manager()
    watched.resolves("GpuCiManagerStalled", *WAITS, *BUDGETS)


def test_each_alert_fires_reaches_the_receiver_and_resolves(watched: Watched) -> None:
    names = {alert.name for alert in alerts(OBJECTIVES)} - NOT_PLANTED
    assert names == {*DEMAND, *WAITS, *BUDGETS, "GpuCiPreemptions", "GpuCiManagerStalled"}
    delivered = {(each["status"], each["labels"]["alertname"]) for each in watched.receiver.alerts}
    assert delivered == {(status, name) for name in names for status in ("firing", "resolved")}


def test_what_is_delivered_says_how_severe_it_is_which_pool_it_is_and_what_to_do(watched: Watched) -> None:
    by_name = {each["labels"]["alertname"]: each for each in watched.receiver.alerts}
    late, lost = by_name["GpuCiNoCapacity"], by_name["GpuCiPreemptions"]
    assert late["labels"] == {"alertname": "GpuCiNoCapacity", "severity": "warning", "pool": "t4"}
    assert late["annotations"] == {
        "summary": "Pool t4: jobs wait, and no place has a machine for them",
        "runbook_url": "docs/operate/a-job-waits.md#no-capacity-and-preempted-spot-machines",
    }
    assert lost["labels"]["pool"] == "l4"
    assert by_name["GpuCiManagerStalled"]["labels"]["severity"] == "critical"


def test_every_panel_of_the_dashboard_has_data(watched: Watched) -> None:
    empty = []
    for panel in panels.PANELS:
        for expression, _ in panel.lines:
            if not watched.lines(expression.replace("$pool", ".*")):
                empty.append((panel.title, expression))
    assert empty == []
    assert watched.lines("gpu_ci_jobs_queue") == []


def test_a_scrape_has_few_series(watched: Watched) -> None:
    [scrape] = watched.lines("scrape_samples_scraped")
    most = max(value for _, value in scrape["points"])
    print(f"{most:.0f} series of two pools")
    assert 80 < most < 400
