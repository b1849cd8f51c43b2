"""The values of dcgm-exporter's chart, the monitors and the rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.gpu_monitoring import GpuMonitoring
from gpu_ci.monitoring.alerts import WAIT_BOUNDS_SEC

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.kubernetes.clusters import GPU_TAINT, build, may_go, scale_set, values
from tests.gpu_ci.support import COMPUTED

PAGE = Path(__file__).resolve().parents[3] / "docs/operate/watch-with-prometheus.md"


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
