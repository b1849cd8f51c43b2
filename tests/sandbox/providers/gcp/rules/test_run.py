"""Cloud Run worker pools and custom roles: what Google takes, what it refuses, and what its words are."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.gcp.conftest import Google

ACCOUNT = "manager@ci-project.iam.gserviceaccount.com"
KEY = {"name": "key", "secret": {"secret": "app-key", "items": [{"path": "key.pem", "version": "latest"}]}}
CONTAINER: dict[str, Any] = {
    "image": "us-docker.pkg.dev/ci-project/builds/manager@sha256:12",
    "resources": {"limits": {"cpu": "1", "memory": "512Mi"}},
    "volumeMounts": [{"name": "key", "mountPath": "/secrets"}],
}
TEMPLATE: dict[str, Any] = {"containers": [CONTAINER], "volumes": [KEY], "serviceAccount": ACCOUNT}
POOL: dict[str, Any] = {"name": "manager", "location": "us-central1", "template": TEMPLATE}
ROLE: dict[str, Any] = {"roleId": "gpu_ci", "title": "manager", "permissions": ["compute.instances.list"]}

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a long name": (types.RUN_POOL, {**POOL, "name": "m" * 50}, "name"),
    "a zone for a region": (types.RUN_POOL, {**POOL, "location": "us-central1-a"}, "location"),
    "a volume that is not there": (
        types.RUN_POOL,
        {**POOL, "template": {**TEMPLATE, "volumes": []}},
        "template.containers[0].volumeMounts",
    ),
    "half a CPU": (
        types.RUN_POOL,
        {**POOL, "template": {"containers": [{"image": "x", "resources": {"limits": {"cpu": "0.5"}}}]}},
        "template.containers[0].resources.limits.cpu",
    ),
    "a dash in a role": (types.CUSTOM_ROLE, {**ROLE, "roleId": "gpu-ci"}, "roleId"),
    "no permission": (types.CUSTOM_ROLE, {**ROLE, "permissions": ["roles/viewer"]}, "permissions"),
}


@pytest.mark.parametrize(("token", "inputs", "path"), REFUSED.values(), ids=REFUSED)
def test_what_google_refuses_is_named(google: Google, token: str, inputs: dict[str, Any], path: str) -> None:
    [problem] = google.problems(token, inputs)
    assert problem.startswith(f"{path}: ")


@pytest.mark.parametrize(("token", "inputs"), [(types.RUN_POOL, POOL), (types.CUSTOM_ROLE, ROLE)])
def test_what_google_takes_has_no_problem(google: Google, token: str, inputs: dict[str, Any]) -> None:
    assert list(google.problems(token, inputs)) == []


def test_a_pool_starts_only_once_its_account_may_read_its_secret(google: Google) -> None:
    account = google.make(types.ACCOUNT, "manager", {"accountId": "manager"})
    google.make(types.SECRET, "app-key", {"secretId": "app-key", "replication": {"auto": {}}})
    with pytest.raises(Refused, match=r"Permission denied on secret: projects/.*/secrets/app-key/versions/latest"):
        google.make(types.RUN_POOL, "it", POOL)
    grant = {"secretId": "app-key", "role": "roles/secretmanager.secretAccessor"}
    google.make(types.SECRET_MEMBER, "reader", {**grant, "member": f"serviceAccount:{account.outputs['email']}"})
    pool = google.make(types.RUN_POOL, "it", POOL)
    assert pool.id == "projects/ci-project/locations/us-central1/workerPools/manager"


def test_a_pool_without_its_account_is_refused(google: Google) -> None:
    with pytest.raises(Refused, match=ACCOUNT):
        google.make(types.RUN_POOL, "it", POOL)
