"""Volumes of pods that an API server of Kubernetes 1.36 refuses, with its messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.providers.kubernetes.conftest import DEPLOYMENT, JOB, Cluster, changed, deployment, job

POD, SPEC = "spec/template/spec", "spec.template.spec"
OWN = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "resources": {"requests": {"storage": "1Gi"}}}
CACHE: dict[str, Any] = {"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": OWN}}}
MOUNTS = [{"name": "cache", "mountPath": "/cache"}]
CLAIM_PATH = f"{POD}/volumes/0/ephemeral/volumeClaimTemplate/spec"
TEMPLATE = f"{SPEC}.volumes[0].ephemeral.volumeClaimTemplate"
AT = f"{SPEC}.containers[0].volumeMounts"


def with_cache() -> dict[str, Any]:
    """Return a Job whose pod has a volume of its own."""
    return changed(changed(job(), f"{POD}/volumes", [CACHE]), f"{POD}/containers/0/volumeMounts", MOUNTS)


@pytest.mark.parametrize("volume", [CACHE, {"name": "cache", "persistentVolumeClaim": {"claimName": "models"}}])
def test_a_pod_may_have_a_volume_of_its_own_or_an_existing_one(cluster: Cluster, volume: dict[str, Any]) -> None:
    assert cluster.problems(JOB, changed(with_cache(), f"{POD}/volumes/0", volume)) == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (f"{POD}/volumes/0/ephemeral", {}, f"{TEMPLATE}: Required value"),
        (
            f"{CLAIM_PATH}/accessModes",
            [],
            f"{TEMPLATE}.spec.accessModes: Required value: at least 1 access mode is required",
        ),
        (
            f"{CLAIM_PATH}/accessModes",
            ["ReadWriteOnce", "ReadWriteOncePod"],
            f"{TEMPLATE}.spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
        ),
        (f"{CLAIM_PATH}/resources", {}, f"{TEMPLATE}.spec.resources[storage]: Required value"),
        (
            f"{POD}/volumes/0",
            {"name": "cache", "persistentVolumeClaim": {"claimName": ""}},
            f"{SPEC}.volumes[0].persistentVolumeClaim.claimName: Required value",
        ),
        (f"{POD}/containers/0/volumeMounts/0/mountPath", "", f"{AT}[0].mountPath: Required value"),
    ],
)
def test_a_volume_is_refused_at_its_path(cluster: Cluster, path: str, value: Any, expected: str) -> None:
    assert cluster.problems(JOB, changed(with_cache(), path, value)) == [expected]


def test_the_volumes_of_a_deployment_have_the_same_rules(cluster: Cluster) -> None:
    given = changed(deployment(), f"{POD}/volumes", [{"name": "cache", "ephemeral": {}}])
    assert cluster.problems(DEPLOYMENT, given) == [f"{TEMPLATE}: Required value"]
