"""The metrics and alerts of GPU nodes and runner scale sets on Kubernetes, as data.

NVIDIA's dcgm-exporter serves the metrics of GPUs, and the listener of each scale set those of jobs.
"""

from __future__ import annotations

from typing import Any

from .alerts import WAIT_BOUNDS_SEC, Alert

GPU_METRICS = (
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Memory in use (in MiB)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Free memory (in MiB)."),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Reserved memory (in MiB)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since the driver was loaded (in mJ)."),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit ECC errors since the driver was loaded."),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed."),
    ("DCGM_EXP_XID_ERRORS_COUNT", "gauge", "Xid errors of the last minutes."),
)
"""Name, type and help text of each metric of GPUs. There is none of DCGM_FI_PROF_*: they hold a lock of the GPU,
without which profilers of jobs fail (NVIDIA/DCGM#56, NVIDIA/DCGM#62)."""

_CHECK = "operate/kubernetes-check-fails.md"
ALERTS = (
    Alert(
        "GpuCiGpuXid",
        "warning",
        # The series begins with its first error, so `increase` would miss it (NVIDIA/dcgm-exporter#239).
        "max by (node, gpu, xid) (max_over_time(DCGM_EXP_XID_ERRORS_COUNT[10m])) > 0",
        "0s",
        "GPU {{ $labels.gpu }} of node {{ $labels.node }} reported Xid {{ $labels.xid }}",
        "the driver of a GPU reported an error (Xid)",
        _CHECK,
    ),
    Alert(
        "GpuCiGpuBroken",
        "critical",
        "max by (node, gpu) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0"
        " or max by (node, gpu) (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL) > 0",
        "0s",
        "GPU {{ $labels.gpu }} of node {{ $labels.node }} has memory errors: delete the node",
        "the memory of a GPU has errors that cannot be corrected",
        _CHECK,
    ),
    Alert(
        "GpuCiScaleSetStalled",
        "critical",
        "sum by (namespace, name) (gha_assigned_jobs) > 0 and sum by (namespace, name) (gha_running_jobs) == 0",
        "30m",
        "Scale set {{ $labels.name }}: jobs wait, and none runs",
        "a scale set has jobs, and none of them has run for 30 minutes",
        "operate/a-job-waits.md#reasons",
    ),
)
"""The alerts about clusters."""


def rule_groups(pages: str) -> list[dict[str, Any]]:
    """Return the groups of rules. `pages` is the address of the folder docs, which ends with a slash."""
    return [{"name": "gpu-ci-kubernetes", "interval": "30s", "rules": [each.rule(pages) for each in ALERTS]}]


def listener_metrics() -> dict[str, Any]:
    """Return `listenerMetrics` of a scale set's chart: ARC's metrics without the names of jobs and workflows.

    The labels of jobs are those of actions/actions-runner-controller@2ee6b3b: cmd/ghalistener/metrics/metrics.go. By
    default, each repository, job name and event has two histograms with 45 buckets.
    """
    gauges = ("assigned_jobs", "running_jobs", "registered_runners", "busy_runners", "min_runners", "max_runners")
    histograms = ("job_startup_duration_seconds", "job_execution_duration_seconds")
    return {
        "counters": {
            "gha_started_jobs_total": {"labels": ["repository"]},
            "gha_completed_jobs_total": {"labels": ["repository", "job_result"]},
        },
        "gauges": {
            f"gha_{name}": {"labels": ["name", "namespace"]} for name in (*gauges, "desired_runners", "idle_runners")
        },
        "histograms": {
            f"gha_{name}": {"labels": ["repository"], "buckets": list(WAIT_BOUNDS_SEC)} for name in histograms
        },
    }
