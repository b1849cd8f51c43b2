"""The alerts over the Prometheus metrics of the runner manager, and their recording rules.

docs/reference/runner-manager.md describes the metrics. Each alert names the page of docs/operate that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

WAIT_BOUNDS_SEC = (5, 15, 30, 60, 120, 240, 480, 900, 1800, 3600, 7200)
"""The upper bounds of the histogram of waits. A query can count only the jobs below one of them."""
LEAST_WAIT_RATIO = 0.94
"""Below this objective, no share of late jobs is large enough for the alert that burns 14.4 times its budget."""

STOPPING_REASONS = (
    "no-config", "no-secret", "refused", "no-tool", "wrong-checksum", "not-isolated", "no-docker", "runner-deprecated",
)  # fmt: skip
"""The ends of a machine after which the manager starts no more machines of the pool."""
FAILED_REASONS = (
    *STOPPING_REASONS,
    "check-failed", "check-hung", "no-driver", "no-runner", "not-registered", "gpu-unhealthy", "gpu-fault",
    "runner-failed", "disk-full", "timed-out", "crashed",
)  # fmt: skip
"""The ends of a machine that should have run a job, and could not (docs/reference/runner-ends.md)."""


@dataclass(frozen=True)
class Objectives:
    """The service level objectives: what the alerts compare the measurements with."""

    wait_sec: int = 480
    """A job should start within this time: one of WAIT_BOUNDS_SEC."""
    wait_ratio: float = 0.95
    """The share of the jobs that should start within wait_sec, LEAST_WAIT_RATIO to 0.999."""
    failure_ratio: float = 0.05
    """The share of the machines that may end with one of FAILED_REASONS, above 0 and below 1."""


@dataclass(frozen=True)
class Alert:
    """One alert, for each series that its expression returns."""

    name: str
    severity: Literal["critical", "warning"]
    """critical: jobs do not run. warning: look at it on a working day."""
    expression: str
    """The condition in PromQL."""
    wait: str
    """The time for which the condition must hold, such as 10m; 0s for none."""
    summary: str
    """One sentence. It may have the labels of the series, as Prometheus' templates."""
    meaning: str
    """When it fires, for the page about alerts."""
    page: str
    """The page and anchor that say what to do, below docs/."""

    def rule(self, pages: str) -> dict[str, Any]:
        """Return Prometheus' alerting rule. `pages` is the address of the folder docs, which ends with a slash."""
        return {
            "alert": self.name,
            "expr": self.expression,
            **({} if self.wait == "0s" else {"for": self.wait}),
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "runbook_url": f"{pages}{self.page}"},
        }


_WAITS = "operate/a-job-waits.md"
_POOL = "Pool {{ $labels.pool }}"
_SHORT_AND_LONG = (("5m", "1h", 14.4), ("30m", "6h", 6.0))
"""Two windows and the burn rate of an alert. The long one shows that the problem matters, the short one that it goes on
(sre.google/workbook/alerting-on-slos, 6: "Multiwindow, Multi-Burn-Rate Alerts")."""


def _slow(window: str) -> str:
    """Return the name of the recording rule with the share of jobs that waited too long."""
    return f"gpu_ci:job_wait_slow:ratio_rate{window}"


def _ended(reasons: tuple[str, ...]) -> str:
    return f'sum by (pool) (increase(gpu_ci_machines_ended_total{{reason=~"{"|".join(reasons)}"}}[1h]))'


_FAILED = "gpu_ci:machines_failed:increase1h"


def recordings(objectives: Objectives) -> list[dict[str, str]]:
    """Return the recording rules that the alerts read."""
    bound = f'le="{float(objectives.wait_sec)}"'
    return [
        {
            "record": _slow(window),
            "expr": f"1 - sum by (pool) (rate(gpu_ci_job_wait_seconds_bucket{{{bound}}}[{window}]))"
            f" / sum by (pool) (rate(gpu_ci_job_wait_seconds_count[{window}]))",
        }
        for windows in _SHORT_AND_LONG
        for window in windows[:2]
    ] + [{"record": _FAILED, "expr": _ended(FAILED_REASONS)}]


def alerts(objectives: Objectives) -> list[Alert]:
    """Return all alerts about the manager, its pools and its teams."""
    return [
        Alert(
            "GpuCiManagerStalled",
            "critical",
            "gpu_ci_since_whole_pass_seconds > 600 or absent(gpu_ci_since_whole_pass_seconds)",
            "2m",
            "The runner manager has completed no pass for 10 minutes, or is not there",
            "the manager, or one share of its pools, has completed no pass for 10 minutes, or it does not answer",
            f"{_WAITS}#no-job-of-any-pool-starts",
        ),
        *_burns(objectives),
        Alert(
            "GpuCiJobLate",
            "warning",
            "sum by (pool) (gpu_ci_jobs_over_objective) > 0"
            f" or max by (pool) (gpu_ci_queue_age_seconds) > {4 * objectives.wait_sec}",
            "0s",
            f"{_POOL}: a job waits much too long",
            "a job waits longer than `waitObjectiveSec` of its pool, or four times the objective",
            f"{_WAITS}#reasons",
        ),
        Alert(
            "GpuCiNoCapacity",
            "warning",
            f"max by (pool) (gpu_ci_queue_age_seconds) > {objectives.wait_sec} and "
            'sum by (pool) (increase(gpu_ci_inserts_failed_total{code=~"no-capacity|over-quota"}[1h])) > 0',
            "0s",
            f"{_POOL}: jobs wait, and no place has a machine for them",
            "a job waits longer than the objective, and requests for machines failed for want of capacity or quota "
            "within the hour",
            f"{_WAITS}#no-capacity-and-preempted-spot-machines",
        ),
        Alert(
            "GpuCiPoolStopped",
            "critical",
            f"{_ended(STOPPING_REASONS)} > 0",
            "0s",
            f"{_POOL}: a machine failed, and the next one would fail for the same reason",
            "a machine ended with a reason that [stops the pool](../reference/runner-ends.md)",
            f"{_WAITS}#a-stopped-pool",
        ),
        Alert(
            "GpuCiMachinesFail",
            "warning",
            f"{_FAILED} / sum by (pool) (increase(gpu_ci_machines_ended_total[1h])) > {objectives.failure_ratio}"
            # `increase` estimates, so two machines may be a little less than 2.
            f" and {_FAILED} >= 1.5",
            "0s",
            f"{_POOL}: {{{{ $value | humanizePercentage }}}} of the machines that ended failed",
            "two or more machines, and more than the allowed share, failed at the check or the boot within the hour",
            "operate/ended-vm.md",
        ),
        Alert(
            "GpuCiIdleMachines",
            "warning",
            'sum by (pool) (gpu_ci_machines{state="idle"}) > 0 and sum by (pool) (gpu_ci_jobs_queued) == 0',
            "30m",
            f"{_POOL}: machines are on, and no job waits for one",
            "machines have been idle for 30 minutes, and no job waits",
            "operate/get-alerts.md#idle-machines",
        ),
        Alert(
            "GpuCiPreemptions",
            "warning",
            "sum by (pool) (increase(gpu_ci_preemptions_total[1h])) >= 1.5 and sum by (pool) "
            "(increase(gpu_ci_preemptions_total[1h])) > 0.2 * sum by (pool) (increase(gpu_ci_inserts_total[1h]))",
            "0s",
            f"{_POOL}: Google takes back many machines",
            "two or more machines, and more than a fifth of the requested ones, were preempted within the hour",
            f"{_WAITS}#no-capacity-and-preempted-spot-machines",
        ),
        Alert(
            "GpuCiTeamBudgetNearlySpent",
            "warning",
            f"({SPENT} >= 0.8) < 1",
            "0s",
            "Team {{ $labels.team }} has spent {{ $value | humanizePercentage }} of its budget of this month",
            "a team has spent 80 % of its budget of this month",
            "operate/get-alerts.md#a-spent-budget",
        ),
        Alert(
            "GpuCiTeamBudgetSpent",
            "critical",
            f"{SPENT} >= 1",
            "0s",
            "Team {{ $labels.team }} has spent its budget of this month",
            "a team has spent its budget of this month",
            "operate/get-alerts.md#a-spent-budget",
        ),
    ]


SPENT = "max by (team) (gpu_ci_team_usd) / max by (team) (gpu_ci_team_budget_usd)"
"""The part of its budget that each team has spent in this month."""


def _burns(objectives: Objectives) -> Iterator[Alert]:
    names: tuple[tuple[str, Literal["critical", "warning"]], ...] = (
        ("GpuCiWaitBudgetBurnsFast", "critical"),
        ("GpuCiWaitBudgetBurns", "warning"),
    )
    for (name, severity), (short, long, burn_rate) in zip(names, _SHORT_AND_LONG, strict=True):
        share = round(burn_rate * (1 - objectives.wait_ratio), 6)
        yield Alert(
            name,
            severity,
            f"{_slow(long)} > {share} and {_slow(short)} > {share}"
            # A single late job of a quiet pool is no trend.
            f" and sum by (pool) (increase(gpu_ci_job_wait_seconds_count[{long}])) >= 2.5",
            "0s",
            f"{_POOL}: {{{{ $value | humanizePercentage }}}} of the jobs waited longer than {objectives.wait_sec} s",
            f"late jobs use up the error budget {burn_rate:g} times too fast, over {long} and over {short}",
            f"{_WAITS}#by-symptom",
        )


def rule_file(objectives: Objectives, pages: str) -> dict[str, Any]:
    """Return the content of a Prometheus rule file, which is also the spec of a PrometheusRule of Kubernetes."""
    return {
        "groups": [
            {"name": "gpu-ci-recordings", "interval": "30s", "rules": recordings(objectives)},
            {"name": "gpu-ci", "interval": "30s", "rules": [each.rule(pages) for each in alerts(objectives)]},
        ]
    }
