"""Creates log-based metrics and alert policies in Cloud Monitoring from the log of the runner manager.

`gpu_manager.metrics.measure` and the events of the manager write the log lines. A pass of the manager is one round:
read jobs and machines, decide, act. A whole pass could read everything that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from ..monitoring import alerts as rules
from ..monitoring import log_metrics
from ..runner_manager import ManagerAlerts

# The time window of a query. A log line may reach a log-based metric ten minutes late
# (cloud.google.com/logging/docs/logs-based-metrics/troubleshooting).
_WINDOW_SEC = 900


@dataclass(frozen=True)
class LogMetric:
    """One log-based metric: the log lines that it reads, and the field that it extracts."""

    name: str
    about: str
    event: str
    where: str = ""
    """An additional condition of the filter."""
    value: str = ""
    """The field whose distribution is recorded. If empty, the metric counts lines."""
    unit: str = "1"
    labels: tuple[str, ...] = ()
    """The fields that become labels."""


PASSES = LogMetric("whole-passes", "Minutes with a complete pass.", "pass", "jsonPayload.whole=true", labels=("share",))
LATE = LogMetric(
    "jobs-late", "Minutes with jobs over their objective.", "pool", "jsonPayload.jobsOverObjective>0", labels=("pool",)
)
BUDGETS = LogMetric(
    "budget-ratio", "Part of its budget of this month that a team has spent.", "team", "", "budgetRatio", "1", ("team",)
)
MEASURED: tuple[LogMetric, ...] = (
    LogMetric("queue-age", "Age of the oldest waiting job.", "pool", "", "queueAgeSec", "s", ("pool",)),
    LogMetric("queued", "Jobs that wait for a runner.", "pool", "", "queued", "1", ("pool",)),
    LogMetric("wait", "Time from the creation of a job to its start.", "job-started", "", "waitSec", "s", ("pool",)),
    LogMetric("boot", "Time from the request of a machine to its runner.", "boot", "", "bootSec", "s", ("pool",)),
    *(
        LogMetric(f"machines-{state}", f"Machines that are {state}.", "pool", "", f"machines.{state}", "1", ("pool",))
        for state in ("booting", "idle", "busy")
    ),
    LogMetric("usd-per-hour", "Catalog price of the running machines.", "pool", "", "usdPerHour", "1", ("pool",)),
    LogMetric("cost", "Catalog price of machines that are gone.", "cost", "", "usd", "1", ("pool", "part")),
    LogMetric("inserts-failed", "Machine requests that Google rejected.", "insert-failed", labels=("pool", "code")),
    LogMetric("preemptions", "Machines that Google preempted.", "preempted", labels=("pool",)),
    LogMetric("reruns", "Jobs run again after a preemption.", "rerun"),
    LogMetric("github-requests-left", "Requests left of GitHub's hourly limit.", "pass", "", "githubRequestsLeft"),
)
"""The metrics that are created with `metrics: true` only. No alert needs them."""


@dataclass(frozen=True)
class ManagerMetrics:
    """Creates the metrics and alerts of one manager."""

    name: str
    """The name of the component."""
    project: pulumi.Input[str]
    location: str
    worker_pool: str
    labels: Mapping[str, str]
    child: Callable[..., pulumi.ResourceOptions]

    def metrics(self, chosen: Sequence[LogMetric]) -> list[pulumi.Resource]:
        """Create one resource for each metric. A metric counts only log lines that are written after its creation."""
        return [self._metric(each) for each in chosen]

    def alerts(self, alerts: ManagerAlerts, after: Sequence[pulumi.Resource]) -> None:
        """Create an alert policy for a stalled manager, and one for late jobs. `after` are the metrics."""
        passes = self._series(PASSES)
        # A query without data has no result, so `absent_over_time` detects that no manager makes passes.
        stalled = f"absent_over_time({passes}[{_WINDOW_SEC}s])"
        self._policy(
            "stalled",
            f"GPU runner manager {self.name} is stalled",
            f"A manager, or one share of the pools, has completed no whole pass for {alerts.stalled_sec} s. Queued "
            "jobs get no machines, and machines whose job has ended are not deleted. Look for the events unavailable "
            "and refused in the manager's log, and run `gpu-ci manager status`.",
            stalled,
            alerts.stalled_sec - _WINDOW_SEC,
            alerts,
            after,
            "GpuCiManagerStalled",
        )
        self._policy(
            "late",
            f"Jobs wait too long for a machine of the GPU runner manager {self.name}",
            f"Jobs of the pool wait longer than {alerts.wait_objective_sec} s, or than the waitObjectiveSec of their "
            "pool. `gpu-ci manager status` prints the reason for each job and how to fix it.",
            f"sum by (pool) (increase({self._series(LATE)}[{_WINDOW_SEC}s])) > 0",
            0,
            alerts,
            after,
            "GpuCiJobLate",
        )

    def budget_alerts(self, alerts: ManagerAlerts, after: Sequence[pulumi.Resource]) -> None:
        """Create an alert policy for teams that have spent most of their budget, and one for those that spent it."""
        spent = log_metrics.mean(self._query, BUDGETS.name, "team")
        for role, part, like in (
            ("budget-nearly-spent", "80 %", "GpuCiTeamBudgetNearlySpent"),
            ("budget-spent", "all", "GpuCiTeamBudgetSpent"),
        ):
            self._policy(
                role,
                f"A team has spent {part} of its budget: GPU runner manager {self.name}",
                f"The machines of this manager for the team have cost {part} of its usdPerMonth. With onBudget: stop, "
                "no machine is started for a team that has spent all.",
                _twin(like).expression.replace(rules.SPENT, spent),
                0,
                alerts,
                after,
                like,
            )

    def _metric(self, metric: LogMetric) -> gcp.logging.Metric:
        kind = "DISTRIBUTION" if metric.value else "INT64"
        fields: dict[str, Any] = {}
        if metric.value:
            fields["value_extractor"] = f"EXTRACT(jsonPayload.{metric.value})"
            # Boundaries at 1, 2, 4 up to 2^20, for seconds (up to days) and counts.
            fields["bucket_options"] = {
                "exponential_buckets": {"num_finite_buckets": 20, "growth_factor": 2, "scale": 1}
            }
        if metric.labels:
            fields["label_extractors"] = {label: f"EXTRACT(jsonPayload.{label})" for label in metric.labels}
        return gcp.logging.Metric(
            f"{self.name}-{metric.name}",
            project=self.project,
            name=log_metrics.name_of(metric.name, self.name, pulumi.get_stack()),
            description=metric.about,
            filter=" AND ".join(self._filter(metric)),
            metric_descriptor={
                "metric_kind": "DELTA",
                "value_type": kind,
                "unit": metric.unit,
                "labels": [{"key": label, "value_type": "STRING"} for label in metric.labels],
            },
            **fields,
            opts=self.child(),
        )

    def _filter(self, metric: LogMetric) -> Iterator[str]:
        yield f'resource.type="{log_metrics.RESOURCE}"'
        yield f'resource.labels.worker_pool_name="{self.worker_pool}"'
        yield f'resource.labels.location="{self.location}"'
        yield f'jsonPayload.event="{metric.event}"'
        if metric.where:
            yield metric.where

    def _policy(
        self,
        role: str,
        title: str,
        text: str,
        query: str,
        duration_sec: int,
        alerts: ManagerAlerts,
        after: Sequence[pulumi.Resource],
        like: str,
    ) -> None:
        """Create an alert policy with the severity and the page of the alert `like` for Prometheus."""
        twin = _twin(like)
        gcp.monitoring.AlertPolicy(
            f"{self.name}-{role}",
            project=self.project,
            display_name=title,
            combiner="OR",
            documentation={"content": f"{text}\n\nWhat to do: docs/{twin.page}", "mime_type": "text/markdown"},
            severity=twin.severity.upper(),
            conditions=[
                {
                    "display_name": title,
                    "condition_prometheus_query_language": {
                        "query": query,
                        "duration": f"{duration_sec}s",
                        "evaluation_interval": "60s",
                        # Cloud Monitoring needs up to ten minutes to learn of a new metric. Without this setting it
                        # rejects a policy over an unknown metric (hashicorp/terraform-provider-google#11102).
                        "disable_metric_validation": True,
                    },
                }
            ],
            notification_channels=alerts.notification_channels,
            user_labels=dict(self.labels),
            opts=self.child(depends_on=after),
        )

    def _series(self, metric: LogMetric) -> str:
        return self._query(metric.name, "")

    def _query(self, metric: str, suffix: str) -> str:
        return log_metrics.series(metric, self.name, pulumi.get_stack(), suffix)


def _twin(name: str) -> rules.Alert:
    return next(each for each in rules.alerts(rules.Objectives()) if each.name == name)
