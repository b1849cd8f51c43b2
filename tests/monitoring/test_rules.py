"""promtool judges the rules: they are valid, and each alert fires, does not fire, and resolves."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci.monitoring import kubernetes, log_metrics, panels
from gpu_ci.monitoring.alerts import Objectives, alerts

from tests.conftest import ROOT
from tests.monitoring.conftest import program

ALERTS = {each.name: each for each in (*alerts(Objectives()), *kubernetes.ALERTS)}
L4 = {"pool": "l4"}
COUNT, FAST = 'gpu_ci_job_wait_seconds_count{pool="l4"}', 'gpu_ci_job_wait_seconds_bucket{pool="l4",le="480.0"}'
AGE = 'gpu_ci_queue_age_seconds{pool="l4"}'
REFUSED = 'gpu_ci_inserts_failed_total{{pool="l4",code="{}"}}'
ENDED = 'gpu_ci_machines_ended_total{{pool="l4",reason="{}"}}'
LATE = "Pool l4: {} of the jobs waited longer than 480 s"
CAPACITY = "Pool l4: jobs wait, and no place has a machine for them"
TEAM = {"team": "vision"}
GPU, SET = 'node="a",gpu="0"', 'name="gpu-l4",namespace="ci"'
BUDGET = 'gpu_ci_team_budget_usd{team="vision"}'
SPENT = 'gpu_ci_team_usd{team="vision"}'


@dataclass(frozen=True)
class Case:
    """Series with a value each minute, and the minutes at which an alert fires and at which it does not."""

    alert: str
    series: dict[str, str]
    quiet: list[int]
    fires: list[int] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    summary: str = ""

    def test(self) -> dict[str, Any]:
        """Return the unit test of promtool."""
        rule = ALERTS[self.alert].rule("docs/")
        firing = {
            "exp_labels": {**rule["labels"], **self.labels},
            "exp_annotations": {**rule["annotations"], "summary": self.summary or rule["annotations"]["summary"]},
        }
        return {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "alert_rule_test": [
                {"eval_time": f"{minute}m", "alertname": self.alert, "exp_alerts": [firing] * (minute in self.fires)}
                for minute in sorted(self.fires + self.quiet)
            ],
        }


CASES = [
    Case("GpuCiManagerStalled", {"gpu_ci_since_whole_pass_seconds": "500x10 601+60x9 0x10"}, [10, 12, 23], [13, 19]),
    Case("GpuCiManagerStalled", {"gpu_ci_since_whole_pass_seconds": "_x5 0x10"}, [1, 8], [2, 4]),
    # All jobs of an hour are late, then none is. The long window alone would fire until minute 76.
    Case("GpuCiWaitBudgetBurnsFast", {COUNT: "0+1x180", FAST: "0x60 1+1x120"}, [1, 70], [10, 60], L4,
         LATE.format("100%")),
    Case("GpuCiWaitBudgetBurnsFast", {COUNT: "0x10 1x100", FAST: "0x111"}, [12, 60]),
    Case("GpuCiWaitBudgetBurnsFast", {COUNT: "0+5x120", FAST: "0+3x120"}, [10, 120]),
    Case("GpuCiWaitBudgetBurns", {COUNT: "0+5x300", FAST: "0+3x120 365+5x180"}, [150], [120], L4, LATE.format("40%")),
    Case("GpuCiJobLate", {'gpu_ci_jobs_over_objective{pool="l4"}': "0x5 1x5 0x5"}, [3, 12], [8], L4,
         "Pool l4: a job waits much too long"),
    Case("GpuCiJobLate", {AGE: "1900x5 1921x5 0x5"}, [3, 12], [8], L4, "Pool l4: a job waits much too long"),
    Case("GpuCiNoCapacity", {AGE: "400x10 481x20 0x20", REFUSED.format("no-capacity"): "0x9 1x100"}, [10, 35], [15], L4,
         CAPACITY),
    Case("GpuCiNoCapacity", {AGE: "500x100", REFUSED.format("over-quota"): "0x9 1x100"}, [5, 75], [15], L4, CAPACITY),
    Case("GpuCiNoCapacity", {AGE: "500x50", REFUSED.format("refused"): "0x9 1x100"}, [15]),
    Case("GpuCiPoolStopped", {ENDED.format("no-secret"): "0x10 1x120"}, [10, 75], [12], L4,
         "Pool l4: a machine failed, and the next one would fail for the same reason"),
    Case("GpuCiPoolStopped", {ENDED.format("check-failed"): "0x10 1x120"}, [12]),
    Case("GpuCiMachinesFail", {ENDED.format("check-failed"): "0x10 1x9 3x100", ENDED.format("job-done"): "0+1x120"},
         [15, 90], [30], L4, "Pool l4: 9.091% of the machines that ended failed"),
    Case("GpuCiMachinesFail", {ENDED.format("check-failed"): "0x10 3x90", ENDED.format("job-done"): "0+4x100"}, [60]),
    Case("GpuCiIdleMachines",
         {'gpu_ci_machines{pool="l4",state="idle"}': "1x60", 'gpu_ci_jobs_queued{pool="l4"}': "0x40 1x20"},
         [29, 42], [31, 39], L4, "Pool l4: machines are on, and no job waits for one"),
    Case("GpuCiIdleMachines",
         {'gpu_ci_machines{pool="l4",state="busy"}': "1x60", 'gpu_ci_jobs_queued{pool="l4"}': "0x60"}, [45]),
    Case("GpuCiPreemptions",
         {'gpu_ci_preemptions_total{pool="l4"}': "0x5 1x4 2x100", 'gpu_ci_inserts_total{pool="l4"}': "0x3 5x100"},
         [8, 80], [15], L4, "Pool l4: Google takes back many machines"),
    Case("GpuCiPreemptions",
         {'gpu_ci_preemptions_total{pool="l4"}': "0x5 2x50", 'gpu_ci_inserts_total{pool="l4"}': "0x3 20x50"}, [15]),
    Case("GpuCiTeamBudgetNearlySpent", {SPENT: "79 80 99 100 0", BUDGET: "100x4"}, [0, 3, 4], [1], TEAM,
         "Team vision has spent 80% of its budget of this month"),
    Case("GpuCiTeamBudgetSpent", {SPENT: "79 99 100 120 0", BUDGET: "100x4"}, [0, 1, 4], [2, 3], TEAM,
         "Team vision has spent its budget of this month"),
    Case("GpuCiGpuXid", {f"DCGM_EXP_XID_ERRORS_COUNT{{{GPU},xid=\"79\"}}": "_x5 1x2 _x30"}, [4, 20], [6, 12],
         {"node": "a", "gpu": "0", "xid": "79"}, "GPU 0 of node a reported Xid 79"),
    Case("GpuCiGpuBroken", {f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}}": "0x5 1x5 _x10"}, [5, 20], [7],
         {"node": "a", "gpu": "0"}, "GPU 0 of node a has memory errors: delete the node"),
    Case("GpuCiGpuBroken", {f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU}}}": "0x5 1x5 _x10"}, [5, 20], [7],
         {"node": "a", "gpu": "0"}, "GPU 0 of node a has memory errors: delete the node"),
    Case("GpuCiScaleSetStalled",
         {f"gha_assigned_jobs{{{SET}}}": "2x60", f"gha_running_jobs{{{SET}}}": "0x40 1x20"}, [29, 45], [31],
         {"name": "gpu-l4", "namespace": "ci"}, "Scale set gpu-l4: jobs wait, and none runs"),
]  # fmt: skip


def run(*words: str | Path, tool: str = "promtool") -> str:
    done = subprocess.run([program(tool), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_accepts_every_rule(rules: Path) -> None:
    assert "SUCCESS: 19 rules found" in run("check", "rules", rules)


def test_it_accepts_every_expression_of_the_dashboards(tmp_path: Path) -> None:
    of_google = panels.google(lambda name, suffix: log_metrics.series(name, "manager", "prod", suffix), "gpu-ci")
    tiles = [tile["widget"]["xyChart"]["dataSets"][0] for tile in of_google["mosaicLayout"]["tiles"]]
    texts = [each["timeSeriesQuery"]["prometheusQuery"] for each in tiles]
    texts += [line for panel in panels.PANELS for line, _ in panel.lines]
    found = [{"record": f"line:{number}", "expr": text} for number, text in enumerate(texts)]
    (tmp_path / "lines.yml").write_text(json.dumps({"groups": [{"name": "lines", "rules": found}]}))
    assert f"SUCCESS: {len(texts)} rules found" in run("check", "rules", tmp_path / "lines.yml")


@pytest.mark.parametrize(
    ("page", "tool", "words"),
    [("watch-with-prometheus", "promtool", ("check", "config")), ("get-alerts", "amtool", ("check-config",))],
)
def test_the_configuration_that_a_page_shows_is_accepted(
    page: str, tool: str, words: tuple[str, ...], rules: Path
) -> None:
    [shown] = re.findall(r"```yml\n(.*?)```", (ROOT / "docs/operate" / f"{page}.md").read_text(), re.DOTALL)
    file = rules.with_name(f"{page}.yml")
    file.write_text(shown)
    assert "SUCCESS" in run(*words, file, tool=tool)


def test_each_alert_fires_does_not_fire_and_resolves(rules: Path) -> None:
    file = rules.with_name("gpu-ci.test.yml")
    tests = [each.test() for each in CASES]
    file.write_text(yaml.safe_dump({"rule_files": [rules.name], "evaluation_interval": "1m", "tests": tests}))
    assert "SUCCESS" in run("test", "rules", file)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_has_a_case_in_which_it_fires_and_then_resolves(name: str) -> None:
    assert any(each.alert == name and each.fires and max(each.quiet) > min(each.fires) for each in CASES)
