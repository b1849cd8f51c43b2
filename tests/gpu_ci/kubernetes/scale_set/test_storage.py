"""The cache and the scratch folder of jobs: the volumes of the pod, and the mistakes that are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs

from tests.gpu_ci.kubernetes.clusters import scale_set, values

PER_RUNNER = {"kind": "per-runner", "storageClass": "gp3", "sizeGib": 100}
SHARED = {"kind": "shared", "claim": "models"}
SCRATCH = {"sizeGib": 200}
SHM = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}
SHM_MOUNT = {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108 - as the component says it
FILES = {"name": "files", "configMap": {"name": "files-1", "defaultMode": 0o555}}
EPHEMERAL = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "gp3",
    "resources": {"requests": {"storage": "100Gi"}},
}
OWNED = {"fsGroup": 1001, "fsGroupChangePolicy": "OnRootMismatch"}


def pod(**changes: Any) -> dict[str, Any]:
    """Return the spec of the runner's pod."""
    spec: dict[str, Any] = values(scale_set(**changes))["template"]["spec"]
    return spec


def job_pod(**changes: Any) -> dict[str, Any]:
    """Return the spec of the pod in which a job runs, with separate pods."""
    files = scale_set(containerMode={"kind": "kubernetes-novolume"}, **changes).one(":ConfigMap").inputs["data"]
    spec: dict[str, Any] = json.loads(files["job-pod.json"])["spec"]
    return spec


def test_each_runner_gets_a_new_volume_that_it_may_write() -> None:
    spec = pod(cache=PER_RUNNER)
    cache = {"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": EPHEMERAL}}}
    assert spec["volumes"] == [SHM, cache, FILES]
    assert spec["containers"][0]["volumeMounts"][:2] == [SHM_MOUNT, {"name": "cache", "mountPath": "/mnt/cache"}]
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, **OWNED}


def test_a_new_volume_can_be_a_copy_of_a_snapshot() -> None:
    [_, cache, _] = pod(cache={**PER_RUNNER, "snapshot": "models.v2"})["volumes"]
    assert cache["ephemeral"]["volumeClaimTemplate"]["spec"] == {
        **EPHEMERAL,
        "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "models.v2"},
    }


@pytest.mark.parametrize(
    ("changes", "read_only"), [({}, True), ({"accessMode": "ReadOnlyMany"}, True), ({"readOnly": False}, False)]
)
def test_jobs_can_only_read_a_shared_volume_unless_it_is_allowed(changes: dict[str, Any], read_only: bool) -> None:
    spec = pod(cache={**SHARED, "mountPath": "/models", **changes})
    claim = {"claimName": "models", "readOnly": read_only}
    assert spec["volumes"] == [SHM, {"name": "cache", "persistentVolumeClaim": claim}, FILES]
    mount = {"name": "cache", "mountPath": "/models", **({"readOnly": True} if read_only else {})}
    assert spec["containers"][0]["volumeMounts"][1] == mount
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 1001}


def test_a_job_requests_its_scratch_folder_in_addition_to_its_other_files() -> None:
    spec = pod(scratch=SCRATCH, ephemeralStorageGib=30)
    assert spec["volumes"] == [SHM, {"name": "scratch", "emptyDir": {"sizeLimit": "200Gi"}}, FILES]
    assert spec["containers"][0]["volumeMounts"][1] == {"name": "scratch", "mountPath": "/scratch"}
    assert spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "230Gi"


def test_with_separate_pods_only_the_pod_of_the_job_has_the_volumes() -> None:
    both = {"cache": PER_RUNNER, "scratch": SCRATCH}
    runner, job = pod(containerMode={"kind": "kubernetes-novolume"}, **both), job_pod(**both)
    assert [each["name"] for each in runner["volumes"]] == ["files"]
    assert runner["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 1001}
    assert [each["name"] for each in job["volumes"]] == ["shm", "cache", "scratch"]
    assert [each["mountPath"] for each in job["containers"][0]["volumeMounts"]] == [
        "/dev/shm",  # noqa: S108 - as the component says it
        "/mnt/cache",
        "/scratch",
    ]
    assert job["securityContext"] == OWNED
    assert "securityContext" not in job_pod(cache=SHARED)


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_one_runner_may_use_a_volume_of_one_node(mode: str) -> None:
    choices = {**RunnerScaleSet.EXAMPLE, "max": 1, "cache": {**SHARED, "accessMode": mode}}
    assert RunnerScaleSetArgs.choice_problems(choices) == []


def test_folders_with_a_common_beginning_are_separate() -> None:
    changes = {"cache": {**SHARED, "mountPath": "/mnt/a"}, "scratch": {**SCRATCH, "mountPath": "/mnt/ab"}}
    assert RunnerScaleSetArgs.choice_problems({**RunnerScaleSet.EXAMPLE, **changes}) == []
