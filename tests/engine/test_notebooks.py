"""Tests of a notebook pipeline on GKE and on EKS with the real engine: its order, its secrets, and its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BroughtUp, bring_up, copied, project_of
from tests.engine import eks, gke
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

DIGEST = f"sha256:{'a1' * 32}"
PLANTED = {name: f"planted-46-{name}-of-notebooks" for name in ("webhook", "key", "slack", "ghcr")}
READ = "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess"
SERVICE = "kubernetes:core/v1:Service"
STATUS = ("--stack", "staging")


def settings() -> dict[str, Any]:
    """Return the sandbox.yaml of the tests on GKE, with planted secrets and a cluster with a workload pool."""
    found = gke.settings()
    answers = found["lookups"][READ]
    for name, value in PLANTED.items():
        match = {"secret": f"*/notebooks-{name}"}
        answers.append({"match": match, "secrets": ["secretData"], "result": {"secretData": value}})
    found["values"] = {"gcp": {"workloadPools": [{"workloadPool": "example-ci-staging.svc.id.goog"}]}}
    return found


def entry(pool: str, bucket: str, project: str) -> dict[str, Any]:
    secrets = {name: f"projects/{project}/secrets/notebooks-{name}" for name in PLANTED}
    return {
        "pool": pool,
        "image": f"ghcr.io/acme/notebook:1@{DIGEST}",
        "repositories": ["kernels"],
        "storage": {"kind": "bucket", "url": bucket},
        "access": {"kind": "ingress", "host": "notebooks.acme.dev", "ingressClassName": "nginx"},
        "webhookSecret": secrets["webhook"],
        "github": {"id": 456789, "installationId": 45678901, "privateKey": secrets["key"]},
        "notify": {"url": secrets["slack"]},
        "imagePullSecrets": ["ghcr"],
    }


def project(shared: Path, cloud: str) -> Path:
    """Return this project with one pool on a cluster of this cloud, and a notebook pipeline on the pool."""
    config = gke.config(with_eks=cloud == "eks")
    if cloud == "eks":
        del config["gpu-ci:clusters"]["gke-ci"], config["gpu-ci:pools"]["l4"]
    [pool], [cluster] = config["gpu-ci:pools"], config["gpu-ci:clusters"].values()
    made = entry(pool, {"eks": "s3", "gke": "gs"}[cloud] + "://acme-notebooks/ci", config["gcp:project"])
    password = made["webhookSecret"].replace("webhook", "ghcr")
    login = {"name": "ghcr", "registry": "ghcr.io", "username": "bot", "password": password}
    cluster |= {"tekton": {}, "imagePullSecrets": [login]}
    config["gpu-ci:notebooks"] = {"analysis": made}
    found = settings() if cloud == "gke" else {**settings(), "guest": eks.settings()["guest"]}
    return project_of(shared, f"notebooks on {cloud}", config, found)


@pytest.fixture(scope="session", params=["gke", "eks"])
def cloud(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def up_with_notebooks(shared: Path, cloud: str) -> BroughtUp:
    return bring_up(project(shared, cloud))


@pytest.fixture
def sandbox(up_with_notebooks: BroughtUp, shared: Path, cloud: str, tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield a sandbox of this test, in which the stack is deployed."""
    with closing(copied(project(shared, cloud), up_with_notebooks, tmp_path / "a sandbox")) as runner:
        yield runner


@pytest.mark.slow
def test_tekton_and_the_check_come_first_then_the_pipeline_and_the_webhook_last(
    up_with_notebooks: BroughtUp, sandbox: SandboxRunner, cloud: str
) -> None:
    names = [name for operation, name in up_with_notebooks.done if operation == "create"]
    cluster, pool = {"gke": ("gke-ci", "l4"), "eks": ("example-ci", "a10g")}[cloud]
    tekton = [f"{cluster}-tekton-tektonconfigs", f"{cluster}-tekton-release", f"{cluster}-tekton-config"]
    pipeline = ["analysis-pods-namespace", "analysis-tasks", "analysis-execute", "analysis-pipeline"]
    order = [*tekton, *pipeline, "analysis-eventlistener", "analysis-webhook-kernels"]
    assert sorted(order, key=names.index) == order
    assert names.index(f"{pool}-smoke-job") < names.index("analysis-pods-namespace")
    services = [row["id"] for row in sandbox.world() if row["type"] == SERVICE]
    assert services == ["analysis/el-analysis"]


@pytest.mark.slow
def test_a_second_up_changes_nothing_and_no_secret_is_in_plain_text(
    up_with_notebooks: BroughtUp, sandbox: SandboxRunner
) -> None:
    again, done = sandbox.steps("up", *STATUS, "--yes", "--skip-preview", "--refresh")
    preview = sandbox.run("preview", *STATUS, "--diff")
    assert done == []
    plain = json.dumps(sandbox.json("stack", "export", *STATUS))
    said = [up_with_notebooks.output, again.output, preview.output, plain]
    assert [value for value in PLANTED.values() if any(value in text for text in said)] == []
    whole = json.dumps(sandbox.json("stack", "export", *STATUS, "--show-secrets"))
    assert [value for name, value in PLANTED.items() if value not in whole and name != "ghcr"] == []
    files = [file for file in sandbox.folder.rglob("*") if file.is_file()]
    assert [str(file) for file in files if b"planted-46-" in file.read_bytes()] == []


@pytest.mark.slow
def test_runs_are_deleted_before_tekton_and_tekton_before_its_operator(sandbox: SandboxRunner, cloud: str) -> None:
    cluster = {"gke": "gke-ci", "eks": "example-ci"}[cloud]
    _, done = sandbox.steps("destroy", *STATUS, "--yes")
    deleted = [name for operation, name in done if operation == "delete"]
    order = ["analysis-webhook-kernels", "analysis-eventlistener", "analysis-pipeline", "analysis-pods-namespace"]
    order += [f"{cluster}-tekton-config", f"{cluster}-tekton-release", f"{cluster}-tekton-namespace"]
    assert sorted(order, key=deleted.index) == order
    left = {row["type"].rpartition(":")[2] for row in sandbox.world() if row["type"].startswith("kubernetes:")}
    assert left == {"CustomResourceDefinitionPatch"}
