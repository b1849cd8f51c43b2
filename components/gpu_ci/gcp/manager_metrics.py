"""What Google Cloud makes of the manager's log: log-based metrics, and alert policies over them.

The lines are those of `gpu_manager.metrics.log_lines` and of the manager's events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from pydantic import Field

from .. import naming
from ..args import Args, Input, Integer

Channel = Annotated[str, Field(pattern=r"^projects/[^/]+/notificationChannels/[0-9]+$")]
_RESOURCE = "cloud_run_worker_pool"
# Discovery document logging v2, LogMetric.name: at most 100 characters.
_PREFIX_MOST = 60
# A missing minute is no alert: lines reach Cloud Monitoring some minutes late.
_WINDOW_SEC = 300


class ManagerAlerts(Args):
    """When Google tells people that jobs are not served, and whom."""

    EXAMPLE: ClassVar[dict[str, Any]] = {"notificationChannels": ["projects/acme-ci/notificationChannels/1234567890"]}

    notification_channels: list[Input[Channel]] = Field(
        min_length=1,
        max_length=16,
        description="where alerts go, as projects/<project>/notificationChannels/<number>; gcloud beta monitoring "
        "channels list prints them",
    )
    stalled_sec: Integer = Field(
        default=900, ge=600, le=86400, description="alert after so many seconds without a whole pass of the manager"
    )
    wait_objective_sec: Integer = Field(
        default=1800, ge=60, le=86400, description="alert for jobs that wait longer than this for their runner"
    )


@dataclass(frozen=True)
class LogMetric:
    """One log-based metric: which lines it reads, and which field of them."""

    name: str
    about: str
    event: str
    where: str = ""
    """More of the filter."""
    value: str = ""
    """The field whose distribution it is; a count of lines where empty."""
    unit: str = "1"
    labels: tuple[str, ...] = ()
    """Fields that become labels."""


PASSES = LogMetric("whole-passes", "Minutes with a whole pass.", "pass", "jsonPayload.whole=true", labels=("share",))
LATE = LogMetric(
    "jobs-late", "Minutes with jobs over their objective.", "pool", "jsonPayload.jobsOverObjective>0", labels=("pool",)
)
MEASURED: tuple[LogMetric, ...] = (
    LogMetric("queue-age", "Age of the oldest job that waits.", "pool", "", "queueAgeSec", "s", ("pool",)),
    LogMetric("queued", "Jobs that wait for a runner.", "pool", "", "queued", "1", ("pool",)),
    LogMetric("wait", "From a job's creation to its start.", "job-started", "", "waitSec", "s", ("pool",)),
    LogMetric("boot", "From a machine to its runner.", "boot", "", "bootSec", "s", ("pool",)),
    *(
        LogMetric(f"machines-{state}", f"Machines that are {state}.", "pool", "", f"machines.{state}", "1", ("pool",))
        for state in ("booting", "idle", "busy")
    ),
    LogMetric("usd-per-hour", "Catalog price of the machines that are on.", "pool", "", "usdPerHour", "1", ("pool",)),
    LogMetric("inserts-failed", "Machines that Google did not give.", "insert-failed", labels=("pool", "code")),
    LogMetric("preemptions", "Machines that Google took back.", "preempted", labels=("pool",)),
    LogMetric("reruns", "Jobs run again after a preemption.", "rerun"),
    LogMetric("github-requests-left", "Of GitHub's limit of the hour.", "pass", "", "githubRequestsLeft"),
)
"""Those that no alert needs."""


@dataclass(frozen=True)
class ManagerMetrics:
    """Makes the resources of one manager."""

    name: str
    """The component's."""
    project: pulumi.Input[str]
    location: str
    worker_pool: str
    labels: Mapping[str, str]
    child: Callable[..., pulumi.ResourceOptions]

    def metrics(self, chosen: Sequence[LogMetric]) -> list[pulumi.Resource]:
        """One resource each. They read lines that are written after they were made."""
        return [self._metric(each) for each in chosen]

    def alerts(self, alerts: ManagerAlerts, instances: int, after: Sequence[pulumi.Resource]) -> None:
        """A policy for a stalled manager, and one for late jobs."""
        passes = self._series(PASSES)
        # A query over nothing has no result. One over fewer shares than there are would not show which is missing.
        stalled = f"absent_over_time({passes}[{_WINDOW_SEC}s])"
        if instances > 1:
            stalled += f" or count(count by (share) (increase({passes}[{_WINDOW_SEC}s]) > 0)) < {instances}"
        self._policy(
            "stalled",
            f"GPU runner manager {self.name} is stalled",
            f"A manager, or a share of it, has finished no whole pass for {alerts.stalled_sec} s. Queued jobs get no "
            "machines, and machines whose job has ended are not deleted. Read the manager's log for the events "
            "unavailable and refused, and see `gpu-ci manager status`.",
            stalled,
            alerts.stalled_sec - _WINDOW_SEC,
            alerts,
            after,
        )
        self._policy(
            "late",
            f"Jobs wait too long for a machine of the GPU runner manager {self.name}",
            f"Jobs of the pool wait longer than {alerts.wait_objective_sec} s, or than the waitObjectiveSec of their "
            "pool. `gpu-ci manager status` names the reason of each job and what to do.",
            f"sum by (pool) (increase({self._series(LATE)}[{_WINDOW_SEC}s])) > 0",
            0,
            alerts,
            after,
        )

    def _metric(self, metric: LogMetric) -> gcp.logging.Metric:
        kind = "DISTRIBUTION" if metric.value else "INT64"
        fields: dict[str, Any] = {}
        if metric.value:
            fields["value_extractor"] = f"EXTRACT(jsonPayload.{metric.value})"
            # Boundaries at 1, 2, 4 and so on to 2^20: seconds up to days, and counts.
            fields["bucket_options"] = {
                "exponential_buckets": {"num_finite_buckets": 20, "growth_factor": 2, "scale": 1}
            }
        if metric.labels:
            fields["label_extractors"] = {label: f"EXTRACT(jsonPayload.{label})" for label in metric.labels}
        return gcp.logging.Metric(
            f"{self.name}-{metric.name}",
            project=self.project,
            name=self._id(metric),
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
        yield f'resource.type="{_RESOURCE}"'
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
    ) -> None:
        gcp.monitoring.AlertPolicy(
            f"{self.name}-{role}",
            project=self.project,
            display_name=title,
            combiner="OR",
            documentation={"content": text, "mime_type": "text/markdown"},
            conditions=[
                {
                    "display_name": title,
                    "condition_prometheus_query_language": {
                        "query": query,
                        "duration": f"{duration_sec}s",
                        "evaluation_interval": "60s",
                        # A new metric is unknown to Cloud Monitoring for up to ten minutes, and a policy over an
                        # unknown one is refused otherwise (hashicorp/terraform-provider-google#11102).
                        "disable_metric_validation": True,
                    },
                }
            ],
            notification_channels=alerts.notification_channels,
            user_labels=dict(self.labels),
            opts=self.child(depends_on=after),
        )

    def _id(self, metric: LogMetric) -> str:
        return f"{naming.fit(f'gpu-ci-{self.name}-{pulumi.get_stack()}', _PREFIX_MOST)}/{metric.name}"

    def _series(self, metric: LogMetric) -> str:
        """The metric's name in PromQL (cloud.google.com/monitoring/promql/promql-mapping).

        A log-based metric may be of several resource types, so that the query names the one.
        """
        name = re.sub(r"[^A-Za-z0-9_]", "_", self._id(metric))
        return f'logging_googleapis_com:user_{name}{{monitored_resource="{_RESOURCE}"}}'
