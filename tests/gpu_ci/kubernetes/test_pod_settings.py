"""Tolerations and environment variables that pods with GPUs need on the nodes of some clouds."""

from __future__ import annotations

import json
from typing import Any

from tests.gpu_ci.kubernetes.clusters import scale_set, values
from tests.gpu_ci.kubernetes.test_smoke_job import pod as smoke_pod

OURS = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
ARM = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}
QUEUED = {"key": "cloud.google.com/gke-queued", "operator": "Exists"}
TOLERATED = [OURS, {"operator": "Equal", **ARM}, QUEUED]
LIBRARIES = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
LIBRARIES_ENV = {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}


def test_a_runner_without_a_gpu_tolerates_nothing_and_its_jobs_tolerate_the_taints() -> None:
    made = scale_set(tolerations=[ARM], containerMode={"kind": "kubernetes-novolume"})
    assert "tolerations" not in values(made)["template"]["spec"]
    assert job_pod(made)["tolerations"] == TOLERATED[:2]


def job_pod(made: Any) -> dict[str, Any]:
    """Return the settings that the container hooks add to the pod of a job."""
    found: dict[str, Any] = json.loads(made.one(":ConfigMap").inputs["data"]["job-pod.json"])["spec"]
    return found


def test_a_job_in_its_own_pod_gets_the_variables_and_its_runner_does_not() -> None:
    mode = {"containerMode": {"kind": "kubernetes-novolume"}}
    made = scale_set(environment=LIBRARIES, **mode)
    assert job_pod(made)["containers"][0]["env"] == [LIBRARIES_ENV]
    [runner] = values(made)["template"]["spec"]["containers"]
    assert LIBRARIES_ENV not in runner["env"]
    assert "env" not in job_pod(scale_set(**mode))["containers"][0]


def test_variables_that_gpu_ci_sets_are_there_once_with_its_value() -> None:
    container = smoke_pod(environment={"HOME": "/root", "A": "1"})["containers"][0]
    assert [each for each in container["env"] if each["name"] in ("HOME", "A")] == [
        {"name": "A", "value": "1"},
        {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the pod's own
    ]
