"""The panels of the dashboard, and the dashboard for Grafana and for Google Cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .alerts import SPENT
from .log_metrics import Series, increase, mean


@dataclass(frozen=True)
class Panel:
    """One chart."""

    title: str
    unit: str
    """A unit of Grafana: short, s, percentunit, currencyUSD."""
    lines: tuple[tuple[str, str], ...]
    """The expression in PromQL of each group of lines, and its legend. `$pool` is the variable of the dashboard."""


def _by(label: str, metric: str, more: str = "") -> str:
    return f'sum by ({label}) ({metric}{{pool=~"$pool"{more}}})'


def _increase(label: str, metric: str, window: str = "1h") -> str:
    return f'sum by ({label}) (increase({metric}{{pool=~"$pool"}}[{window}]))'


def _quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    buckets = f'sum by (pool, le) (rate({metric}_bucket{{pool=~"$pool"}}[1h]))'
    return tuple((f"histogram_quantile({share}, {buckets})", f"{{{{pool}}}} {name}") for share, name in _QUANTILES)


_QUANTILES = ((0.5, "median"), (0.95, "95 %"))
PANELS = (
    Panel("Jobs that wait", "short", ((_by("pool", "gpu_ci_jobs_queued"), "{{pool}}"),)),
    Panel("Oldest waiting job", "s", (('max by (pool) (gpu_ci_queue_age_seconds{pool=~"$pool"})', "{{pool}}"),)),
    Panel("Wait of the jobs that started within the hour", "s", _quantiles("gpu_ci_job_wait_seconds")),
    Panel(
        "Jobs that waited too long, within the hour",
        "percentunit",
        (('gpu_ci:job_wait_slow:ratio_rate1h{pool=~"$pool"}', "{{pool}}"),),
    ),
    Panel("Machines", "short", ((_by("state", "gpu_ci_machines"), "{{state}}"),)),
    Panel("Boot of machines within the hour", "s", _quantiles("gpu_ci_machine_boot_seconds")),
    Panel(
        "Refused machines and preemptions, an hour",
        "short",
        (
            (_increase("code", "gpu_ci_inserts_failed_total"), "{{code}}"),
            (f"sum({_increase('pool', 'gpu_ci_preemptions_total')})", "preempted"),
        ),
    ),
    Panel("Ends of machines, an hour", "short", ((_increase("reason", "gpu_ci_machines_ended_total"), "{{reason}}"),)),
    Panel("Jobs that ended, an hour", "short", ((_increase("conclusion", "gpu_ci_jobs_total"), "{{conclusion}}"),)),
    Panel("Price of an hour of the machines", "currencyUSD", ((_by("pool", "gpu_ci_usd_per_hour"), "{{pool}}"),)),
    Panel("What was paid for, a day", "currencyUSD", ((_increase("part", "gpu_ci_cost_usd_total", "1d"), "{{part}}"),)),
    Panel(
        "Budgets of teams, spent this month",
        "percentunit",
        ((SPENT, "{{team}}"),),
    ),
    Panel("Time since the last whole pass", "s", (("max(gpu_ci_since_whole_pass_seconds)", "manager"),)),
    Panel("Requests left of GitHub's limit", "short", (("min(gpu_ci_github_requests_left)", "GitHub"),)),
)  # fmt: skip


def grafana() -> dict[str, Any]:
    """Return the dashboard for Grafana: a data source to choose, and pools to filter by."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "uid": "gpu-ci",
        "title": "gpu-ci",
        "tags": ["gpu-ci"],
        # The newest version whose form this is; later versions of Grafana migrate it.
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                {
                    "name": "pool",
                    "type": "query",
                    "datasource": source,
                    "query": "label_values(gpu_ci_jobs_queued, pool)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": [
            {
                "id": number + 1,
                "type": "timeseries",
                "title": panel.title,
                "datasource": source,
                "gridPos": {"x": number % 2 * 12, "y": number // 2 * 8, "w": 12, "h": 8},
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "targets": [
                    {"refId": chr(ord("A") + at), "datasource": source, "expr": expression, "legendFormat": legend}
                    for at, (expression, legend) in enumerate(panel.lines)
                ],
            }
            for number, panel in enumerate(PANELS)
        ],
    }


def google(series: Series, title: str) -> dict[str, Any]:
    """Return the dashboard for Cloud Monitoring, with PromQL over the log-based metrics of one manager.

    Args:
        series: Returns a log-based metric in PromQL, by its name and a suffix such as _sum.
        title: The title of the dashboard.
    """
    return {
        "displayName": title,
        "mosaicLayout": {
            "columns": 48,
            "tiles": [
                {
                    "xPos": number % 2 * 24,
                    "yPos": number // 2 * 16,
                    "width": 24,
                    "height": 16,
                    "widget": {
                        "title": heading,
                        "xyChart": {
                            "dataSets": [
                                {
                                    "plotType": "LINE",
                                    "timeSeriesQuery": {"prometheusQuery": query(series)},
                                }
                            ],
                            "yAxis": {"label": unit, "scale": "LINEAR"},
                        },
                    },
                }
                for number, (heading, unit, query) in enumerate(_GOOGLE)
            ],
        },
    }


_GOOGLE: tuple[tuple[str, str, Callable[[Series], str]], ...] = (
    ("Jobs that wait", "jobs", lambda of: mean(of, "queued", "pool")),
    ("Oldest waiting job", "s", lambda of: mean(of, "queue-age", "pool")),
    ("Wait of the jobs that started", "s", lambda of: mean(of, "wait", "pool")),
    ("Boot of machines", "s", lambda of: mean(of, "boot", "pool")),
    ("Machines that are busy", "machines", lambda of: mean(of, "machines-busy", "pool")),
    ("Machines that are idle", "machines", lambda of: mean(of, "machines-idle", "pool")),
    ("Price of the machines that are on, an hour", "USD", lambda of: mean(of, "usd-per-hour", "pool")),
    ("What was paid for, a day", "USD", lambda of: increase(of, "cost", "part", "1d", "_sum")),
    ("Part of their budgets that teams have spent this month", "1", lambda of: mean(of, "budget-ratio", "team")),
    ("Refused machines, an hour", "requests", lambda of: increase(of, "inserts-failed", "code", "1h")),
    ("Preemptions, an hour", "machines", lambda of: increase(of, "preemptions", "pool", "1h")),
    ("Minutes with a whole pass, an hour", "minutes", lambda of: increase(of, "whole-passes", "share", "1h")),
)
"""Title, unit and query of each chart over log-based metrics."""
