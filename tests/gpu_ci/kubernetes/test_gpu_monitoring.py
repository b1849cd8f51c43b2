"""The values of dcgm-exporter's chart, the monitors and the rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.gpu_monitoring import GpuMonitoring
from gpu_ci.monitoring import kubernetes
from gpu_ci.monitoring.alerts import WAIT_BOUNDS_SEC

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.kubernetes.clusters import GPU_TAINT, build, may_go, scale_set, values
from tests.gpu_ci.support import COMPUTED

LISTENERS = {"matchLabels": {"app.kubernetes.io/component": "runner-scale-set-listener"}}


PAGE = Path(__file__).resolve().parents[3] / "docs/operate/watch-with-prometheus.md"


def objects(**choices: Any) -> dict[str, Any]:
    """Return kind, version, metadata and spec of each object, by its name."""
    rows = build(GpuMonitoring, "watch", **choices).rows
    return {row.name: row.inputs for row in rows if "monitoring." in row.type}


def test_the_release_is_the_pinned_chart_in_a_namespace_of_its_own() -> None:
    made = build(GpuMonitoring, "watch")
    assert {key: value for key, value in made.one(":Release").inputs.items() if key != "values"} == {
        "name": "watch",
        "namespace": "gpu-monitoring",
        "chart": "dcgm-exporter",
        "repositoryOpts": {"repo": "https://nvidia.github.io/dcgm-exporter/helm-charts"},
        "version": "4.8.2",
        "compat": "true",
    }
    assert made.one(":Namespace").inputs["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}


def test_the_exporter_runs_on_the_nodes_of_pools_alone_and_not_as_root() -> None:
    found = values(build(GpuMonitoring, "watch"))
    pod = {"nodeSelector": found["nodeSelector"], "tolerations": found["tolerations"]}
    assert may_go(pod, gpu_nodes.labels("l4"), [GPU_TAINT])
    assert not may_go(pod, {}, [])
    assert found["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    }
    assert found["resources"]["limits"] == {"memory": "1Gi"}
    assert (found["service"], found["serviceMonitor"]) == ({"enable": False}, {"enabled": False})
    assert found["arguments"] == [
        "-f",
        "/etc/dcgm-exporter/default-counters.csv",
        "--no-hostname",
        "--kubernetes=false",
    ]


def test_the_exporter_has_no_metric_that_profilers_of_jobs_need_and_all_that_the_alerts_read() -> None:
    lines = values(build(GpuMonitoring, "watch"))["customMetrics"].splitlines()
    names = [line.split(", ")[0] for line in lines]
    assert len(names) == 11
    assert not any("PROF" in name for name in names)
    assert {"DCGM_EXP_XID_ERRORS_COUNT", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"} <= set(names)
    assert {len(line.split(", ")) for line in lines} == {3}


def test_the_operator_gets_monitors_of_gpus_and_listeners_and_the_rules() -> None:
    found = objects(docsUrl="https://example.com/docs/")
    assert {name: (each["kind"], each["apiVersion"]) for name, each in found.items()} == {
        "watch-gpus": ("PodMonitor", "monitoring.coreos.com/v1"),
        "watch-listeners": ("PodMonitor", "monitoring.coreos.com/v1"),
        "watch-rules": ("PrometheusRule", "monitoring.coreos.com/v1"),
    }
    assert found["watch-gpus"]["metadata"] == {
        "name": "watch-gpus",
        "namespace": "gpu-monitoring",
        "labels": {"release": "kube-prometheus-stack"},
    }
    assert found["watch-gpus"]["spec"] == {
        "selector": {"matchLabels": {"app.kubernetes.io/name": "dcgm-exporter"}},
        "attachMetadata": {"node": True},
        "podMetricsEndpoints": [
            {
                "port": "metrics",
                "interval": "30s",
                "relabelings": [
                    {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"},
                    {"sourceLabels": ["__meta_kubernetes_node_label_gpu_ci_pool"], "targetLabel": "pool"},
                ],
            }
        ],
    }
    assert found["watch-listeners"]["spec"] == {
        "selector": LISTENERS,
        "namespaceSelector": {"matchNames": ["arc-systems"]},
        "podMetricsEndpoints": [{"port": "metrics", "interval": "60s", "honorLabels": True}],
    }
    assert found["watch-rules"]["spec"] == {"groups": kubernetes.rule_groups("https://example.com/docs/")}


def test_google_gets_a_monitoring_of_listeners_in_their_namespace_and_rules_of_the_cluster_without_a_chart() -> None:
    choices = {"collector": "google-managed", "listenerNamespace": "arc"}
    found = objects(**choices)
    made = build(GpuMonitoring, "watch", **choices)
    assert sorted(row.name for row in made.rows) == ["watch", "watch-listeners", "watch-rules"]
    assert made.outputs[made.rows[0].urn] == {"namespace": "arc"}
    assert {name: (each["kind"], each["apiVersion"]) for name, each in found.items()} == {
        "watch-listeners": ("PodMonitoring", "monitoring.googleapis.com/v1"),
        "watch-rules": ("ClusterRules", "monitoring.googleapis.com/v1"),
    }
    assert found["watch-listeners"]["metadata"]["namespace"] == "arc"
    assert found["watch-listeners"]["spec"] == {
        "selector": LISTENERS,
        "endpoints": [{"port": "metrics", "interval": "60s"}],
    }
    assert "namespace" not in found["watch-rules"]["metadata"]
    assert found["watch-rules"]["spec"] == {"groups": kubernetes.rule_groups("docs/")}


@pytest.mark.parametrize(("field", "value"), [("docsUrl", "docs"), ("collector", "none"), ("namespace", "default")])
def test_wrong_arguments_are_refused(field: str, value: str) -> None:
    with pytest.raises(Exception, match=field):
        build(GpuMonitoring, "watch", **{field: value})


def test_the_metrics_of_a_listener_have_no_label_that_grows_with_jobs_or_workflows() -> None:
    found = values(scale_set())["listenerMetrics"]
    metrics = {name: each for kind in found.values() for name, each in kind.items()}
    assert {label for each in metrics.values() for label in each["labels"]} == {
        "name", "namespace", "repository", "job_result",
    }  # fmt: skip
    assert len(metrics) == 12
    assert {tuple(each["buckets"]) for each in found["histograms"].values()} == {WAIT_BOUNDS_SEC}


@pytest.mark.usefixtures("short_definitions")
def test_the_program_of_the_page_makes_the_controller_and_the_monitoring() -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    made = deploy(lambda: exec(program, {}), computed=COMPUTED)  # noqa: S102 - our own page
    assert {row.name for row in made.rows if row.type.endswith((":PodMonitor", ":Release"))} == {
        "arc-release", "watch-release", "watch-gpus", "watch-listeners",
    }  # fmt: skip
