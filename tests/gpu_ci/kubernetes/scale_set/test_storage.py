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

FORM = "has a form that is not accepted"
HIDDEN = "is in a folder of the image or of the runner, whose files the volume would hide"
ELSEWHERE = "such as /mnt/cache; set variables such as HF_HOME to this path in the workflow"
DIND = (
    "is not possible with containerMode dind: the Docker daemon does not mount it, so a container of a job would have "
    "an empty folder instead"
)
NO_DIND = "use containerMode: {kind: kubernetes-novolume}, or remove it"
NODE = (
    "is too high: the access mode of the cache is only for pods of one node, but there can be 4 runners: all but the "
    "first would wait for the volume"
)
POD = (
    "is too high: the access mode of the cache is only for one pod, but there can be 2 runners: all but the first "
    "would wait for the volume"
)
MANY = "use a claim with ReadWriteMany, such as one of EFS or Filestore, or cache: {kind: per-runner}"
TWO_FOLDERS = "use two separate folders, such as /mnt/cache and /scratch"


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


@pytest.mark.parametrize(
    ("changes", "path", "text", "hint"),
    [
        ({"cache": "shared"}, "cache", "must be a map", "write it as {kind: shared}"),
        ({"cache": {}}, "cache.kind", "is missing", "such as per-runner"),
        ({"cache": {"kind": "nfs"}}, "cache.kind", "is not one of the choices", "such as kind: per-runner"),
        (
            {"cache": {"kind": "per-runner", "sizeGib": 9}},
            "cache.storageClass",
            "is missing",
            "such as storageClass: gp3",
        ),
        (
            {"cache": {"kind": "per-runner", "storageClass": "gp3"}},
            "cache.sizeGib",
            "is missing",
            "such as sizeGib: 100",
        ),
        ({"cache": {**PER_RUNNER, "sizeGib": 0}}, "cache.sizeGib", "must be at least 1", "such as sizeGib: 100"),
        (
            {"cache": {**PER_RUNNER, "sizeGib": 65537}},
            "cache.sizeGib",
            "must be at most 65536",
            "such as sizeGib: 100",
        ),
        ({"cache": {**PER_RUNNER, "storageClass": "GP3"}}, "cache.storageClass", FORM, "such as storageClass: gp3"),
        ({"cache": {**PER_RUNNER, "snapshot": "-a"}}, "cache.snapshot", FORM, "such as snapshot: models"),
        ({"cache": {**PER_RUNNER, "claim": "a"}}, "cache.claim", "unknown key", "remove it"),
        ({"cache": {"kind": "shared"}}, "cache.claim", "is missing", "such as claim: models"),
        ({"cache": {**SHARED, "claim": "my_claim"}}, "cache.claim", FORM, "such as claim: models"),
        (
            {"cache": {**SHARED, "accessMode": "RWX"}},
            "cache.accessMode",
            "must be one of 'ReadWriteMany', 'ReadOnlyMany', 'ReadWriteOnce' or 'ReadWriteOncePod'",
            "",
        ),
        ({"cache": {**SHARED, "accessMode": "ReadWriteOnce"}}, "max", NODE, MANY),
        ({"cache": {**SHARED, "accessMode": "ReadWriteOncePod"}, "max": 2}, "max", POD, MANY),
        (
            {"cache": {**SHARED, "accessMode": "ReadOnlyMany", "readOnly": False}},
            "cache.readOnly",
            "is not possible with accessMode ReadOnlyMany",
            "readOnly: true, or a ReadWriteMany claim",
        ),
        ({"cache": {**SHARED, "readOnly": "no"}}, "cache.readOnly", "must be true or false", ""),
        ({"cache": {**SHARED, "mountPath": "cache"}}, "cache.mountPath", FORM, ""),
        ({"cache": {**SHARED, "mountPath": "/mnt/"}}, "cache.mountPath", FORM, ""),
        (
            {"cache": {**SHARED, "mountPath": "/mnt/../etc"}},
            "cache.mountPath",
            "has a part that is a dot or two dots",
            "write the path without it, such as /mnt/cache",
        ),
        *(
            ({"cache": {**SHARED, "mountPath": each}}, "cache.mountPath", HIDDEN, ELSEWHERE)
            for each in ("/usr/local/cuda", "/home/runner/.cache", "/dev/shm", "/__w")  # noqa: S108
        ),
        *(
            (
                {"scratch": {**SCRATCH, "mountPath": each}},
                "scratch.mountPath",
                "would hide /opt/gpu-ci, which has the runner's hooks",
                "such as /mnt/cache",
            )
            for each in ("/opt", "/opt/gpu-ci/x")
        ),
        ({"scratch": {}}, "scratch.sizeGib", "is missing", "such as sizeGib: 200"),
        *(
            (
                {"cache": {**SHARED, "mountPath": one}, "scratch": {**SCRATCH, "mountPath": other}},
                "scratch.mountPath",
                f"is {one} of the cache, or one of the two is in the other",
                TWO_FOLDERS,
            )
            for one, other in (("/a", "/a"), ("/a/b", "/a"), ("/a", "/a/b"))
        ),
        ({"cache": PER_RUNNER, "containerMode": {"kind": "dind", "nodeGpus": 1}}, "cache", DIND, NO_DIND),
        ({"scratch": SCRATCH, "containerMode": {"kind": "dind", "nodeGpus": 1}}, "scratch", DIND, NO_DIND),
    ],
)
def test_one_mistake_is_one_problem_at_its_path(changes: dict[str, Any], path: str, text: str, hint: str) -> None:
    [found] = RunnerScaleSetArgs.choice_problems({**RunnerScaleSet.EXAMPLE, **changes})
    assert (found.path, found.text, found.hint) == (path, text, hint)


def test_folders_with_a_common_beginning_are_separate() -> None:
    changes = {"cache": {**SHARED, "mountPath": "/mnt/a"}, "scratch": {**SCRATCH, "mountPath": "/mnt/ab"}}
    assert RunnerScaleSetArgs.choice_problems({**RunnerScaleSet.EXAMPLE, **changes}) == []
