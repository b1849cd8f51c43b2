"""The alerts and dashboards as data: they name pages, metrics and reasons that exist."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import googleapiclient
import pytest
import yaml
from gpu_agent.outcomes import OUTCOMES
from gpu_ci.gcp.manager_metrics import BUDGETS, MEASURED, PASSES
from gpu_ci.monitoring import alerts, kubernetes, log_metrics, panels
from gpu_ci.monitoring.alerts import Objectives
from gpu_manager.metrics import prometheus
from gpu_manager.metrics.prometheus import Prometheus

from tests.gpu_ci.cli.conftest import Ask, ask  # noqa: F401
from tests.test_docs import anchors

DOCS = Path(__file__).resolve().parents[2] / "docs"
SERIES = re.compile(r"\bgpu_ci_\w+")


def expressions() -> list[str]:
    rules = [rule for group in alerts.rule_file(Objectives(), "")["groups"] for rule in group["rules"]]
    return [rule["expr"] for rule in rules] + [line for panel in panels.PANELS for line, _ in panel.lines]


def test_every_alert_names_a_page_and_an_anchor_that_exist() -> None:
    found = [*alerts.alerts(Objectives()), *kubernetes.ALERTS]
    dead = []
    for each in found:
        page, _, anchor = each.page.partition("#")
        file = DOCS / page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(each.page)
    assert dead == []
    assert len({each.name for each in found}) == len(found) == 14


def test_every_expression_reads_metrics_of_the_manager() -> None:
    served = Prometheus()
    families = [name for names in served.registry._collector_to_names.values() for name in names]
    used = {name for text in expressions() for name in SERIES.findall(text)}
    assert used <= set(families)
    assert len(used) > 10


def test_the_bounds_of_the_wait_are_those_of_the_histogram() -> None:
    assert prometheus._SECONDS == alerts.WAIT_BOUNDS_SEC


def test_the_reasons_are_those_that_machines_report() -> None:
    assert {end.reason for end in OUTCOMES.values() if end.stops_pool} == set(alerts.STOPPING_REASONS)
    assert set(alerts.FAILED_REASONS) <= {end.reason for end in OUTCOMES.values()}


def test_the_weakest_objective_still_has_an_alert_that_can_fire() -> None:
    weakest = alerts.alerts(Objectives(wait_ratio=alerts.LEAST_WAIT_RATIO))
    [fast] = [each for each in weakest if each.name == "GpuCiWaitBudgetBurnsFast"]
    assert re.findall(r"ratio_rate\w+ > ([\d.]+)", fast.expression) == ["0.864", "0.864"]


def test_the_command_prints_the_rules_with_the_given_numbers_and_address(ask: Ask) -> None:  # noqa: F811
    printed = ask("monitoring", "rules", "--wait-sec", "900", "--wait-ratio", "0.99", "--failure-ratio", "0.1",
                  "--docs-url", "https://example.com/docs/")  # fmt: skip
    document = yaml.safe_load(printed.out)
    assert document == alerts.rule_file(Objectives(900, 0.99, 0.1), "https://example.com/docs/")
    recording, rules = (group["rules"] for group in document["groups"])
    assert 'le="900.0"' in recording[0]["expr"]
    assert rules[0]["annotations"]["runbook_url"] == (
        "https://example.com/docs/operate/a-job-waits.md#no-job-of-any-pool-starts"
    )
    assert ask("monitoring", "rules", "--json").json == alerts.rule_file(Objectives(), "docs/")


def test_all_wrong_numbers_are_reported_at_once(ask: Ask) -> None:  # noqa: F811
    answer = ask("monitoring", "rules", "--wait-sec", "300", "--wait-ratio", "0.9", "--failure-ratio", "1",
                 "--docs-url", "docs")  # fmt: skip
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "gpu-ci monitoring rules: --wait-sec: got 300, expected one of 5, 15, 30, 60, 120, 240, 480, 900, 1800, 3600, "
        "7200, the bounds of the histogram gpu_ci_job_wait_seconds\n"
        "  hint: --wait-sec 240\n"
        "gpu-ci monitoring rules: --wait-ratio: got 0.9, expected 0.94 to 0.999; below, the fast alert could "
        "never fire\n"
        "  hint: for a weaker objective, raise --wait-sec\n"
        "gpu-ci monitoring rules: --failure-ratio: got 1.0, expected a number above 0 and below 1, such as 0.05\n"
        "gpu-ci monitoring rules: --docs-url: got 'docs', expected an address\n"
        "  hint: --docs-url https://github.com/OWNER/gpu-ci/blob/COMMIT/docs\n"
    )
    answer = ask("monitoring", "dashboard", "--manager", "second")
    assert (answer.code, answer.err) == (
        2,
        "gpu-ci monitoring dashboard: --manager has no effect without --google\n  hint: add --google STACK\n",
    )


def test_grafanas_dashboard_has_a_chart_for_each_panel_and_asks_for_source_and_pools(ask: Ask) -> None:  # noqa: F811
    dashboard = ask("monitoring", "dashboard").json
    assert [each["title"] for each in dashboard["panels"]] == [panel.title for panel in panels.PANELS]
    assert [each["name"] for each in dashboard["templating"]["list"]] == ["datasource", "pool"]
    assert {target["datasource"]["uid"] for panel in dashboard["panels"] for target in panel["targets"]} == {
        "${datasource}"
    }
    assert overlaps([each["gridPos"] for each in dashboard["panels"]], "xywh", 24) == []


def test_googles_dashboard_reads_log_based_metrics_that_exist_and_has_its_form(ask: Ask) -> None:  # noqa: F811
    dashboard = ask("monitoring", "dashboard", "--google", "prod", "--manager", "second").json
    text = files(googleapiclient).joinpath("discovery_cache/documents/monitoring.v1.json").read_text()
    assert faults(dashboard, "Dashboard", json.loads(text)["schemas"]) == []
    tiles = dashboard["mosaicLayout"]["tiles"]
    queries = [
        each["timeSeriesQuery"]["prometheusQuery"] for tile in tiles for each in tile["widget"]["xyChart"]["dataSets"]
    ]
    metrics = (*MEASURED, PASSES, BUDGETS)
    names = {log_metrics.series(each.name, "manager-second", "prod").partition("{")[0] for each in metrics}
    used = {re.sub("_(sum|count)$", "", name) for query in queries for name in re.findall(r"logging[\w:]+", query)}
    assert used <= names
    assert len(used) == len(tiles) == 12
    assert overlaps(tiles, ("xPos", "yPos", "width", "height"), 48) == []


def overlaps(tiles: list[dict[str, int]], keys: Any, columns: int) -> list[tuple[int, int]]:
    """Return the places that two tiles share, or that are beyond the last column."""
    seen: set[tuple[int, int]] = set()
    twice = []
    for tile in tiles:
        x, y, width, height = (tile[key] for key in keys)
        for place in ((column, row) for column in range(x, x + width) for row in range(y, y + height)):
            if place in seen or place[0] >= columns:
                twice.append(place)
            seen.add(place)
    return twice


def faults(value: Any, schema: str | dict[str, Any], schemas: dict[str, Any], path: str = "") -> list[str]:
    """Return where a value differs from a schema of a discovery document."""
    found = schemas[schema] if isinstance(schema, str) else schema
    if "$ref" in found:
        return faults(value, found["$ref"], schemas, path)
    if found.get("type") == "array":
        return [
            fault for at, each in enumerate(value) for fault in faults(each, found["items"], schemas, f"{path}[{at}]")
        ]
    if found.get("type") == "object" and "properties" in found:
        unknown = [f"{path}.{key}" for key in value if key not in found["properties"]]
        known = [key for key in value if key in found["properties"]]
        return unknown + [
            fault for key in known for fault in faults(value[key], found["properties"][key], schemas, f"{path}.{key}")
        ]
    kinds = {"string": str, "integer": int, "boolean": bool, "number": (int, float), "object": dict}
    wrong = not isinstance(value, kinds[found["type"]]) or value not in found.get("enum", [value])
    return [path] if wrong else []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"widthh": 1}, [".mosaicLayout.tiles[0].widthh"]),
        ({"width": "24"}, [".mosaicLayout.tiles[0].width"]),
        ({"widget": {"xyChart": {"dataSets": [{"plotType": "CURVE"}]}}},
         [".mosaicLayout.tiles[0].widget.xyChart.dataSets[0].plotType"]),
    ],
)  # fmt: skip
def test_a_broken_dashboard_of_google_is_found(change: dict[str, Any], expected: list[str]) -> None:
    text = files(googleapiclient).joinpath("discovery_cache/documents/monitoring.v1.json").read_text()
    dashboard = panels.google(lambda name, suffix: name + suffix, "gpu-ci")
    dashboard["mosaicLayout"]["tiles"][0] |= change
    assert faults(dashboard, "Dashboard", json.loads(text)["schemas"]) == expected
