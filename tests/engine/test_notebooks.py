"""Tests of notebook pipelines on GKE and EKS with the real engine: order, changes, end, and secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BroughtUp, bring_up, copied, project_of
from tests.engine import gke
from tests.engine.test_whole_staging import CONFIGURING, unsealed, watched
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

PLANTED = "planted-58"
ON_GKE, ON_EKS = ("gpu-ci:notebooks", "analysis"), ("gpu-ci:notebooks", "training")
SECRETS = {
    name: f"{PLANTED}-{name}-of-the-test"
    for name in ("notebooks-webhook", "notebooks-app-key", "notebooks-slack", "ghcr")
}
NAMES = {name: f"projects/example-ci-staging/secrets/{name}" for name in SECRETS}


def config() -> dict[str, Any]:
    """Return the config of staging with a pool on GKE and one on EKS, and a notebook pipeline on each."""
    found = gke.config(with_eks=True)
    login = {"name": "ghcr", "registry": "ghcr.io", "username": "bot", "password": NAMES["ghcr"]}
    found["gpu-ci:clusters"]["gke-ci"] |= {"tekton": {}, "imagePullSecrets": [login]}
    found["gpu-ci:pools"]["a10g"]["instanceTypes"] = ["g6.2xlarge"]  # with an L4, as every container here has
    found["gpu-ci:clusters"]["example-ci"]["tekton"] = {"retentionDays": 14}
    entry = {
        "image": f"ghcr.io/example-org/notebook:1@sha256:{'a1' * 32}",
        "repositories": ["kernels"],
        "webhookSecret": NAMES["notebooks-webhook"],
        "github": {"id": 456789, "installationId": 45678901, "privateKey": NAMES["notebooks-app-key"]},
        "notify": {"url": NAMES["notebooks-slack"]},
    }
    found["gpu-ci:notebooks"] = {
        "analysis": {
            **entry,
            "pool": "l4",
            "storage": {"kind": "bucket", "url": "gs://example-notebooks"},
            "access": {"kind": "ingress", "host": "notebooks.example.org", "ingressClassName": "nginx"},
            "imagePullSecrets": ["ghcr"],
        },
        "training": {**entry, "pool": "a10g", "storage": {"kind": "bucket", "url": "s3://example-notebooks/ci"}},
    }
    return found


def settings() -> dict[str, Any]:
    """Return the sandbox.yaml with values of the secrets that a test can search for."""
    found = gke.settings()
    found["values"] = {"gcp": {"workloadPools": [{"workloadPool": "example-ci-staging.svc.id.goog"}]}}
    found["lookups"]["gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess"] += [
        {"match": {"secret": f"*/{name}"}, "secrets": ["secretData"], "result": {"secretData": value}}
        for name, value in SECRETS.items()
    ]
    return found


def project(shared: Path) -> Path:
    return project_of(shared, "notebooks", config(), settings())


@pytest.fixture(scope="session")
def up_with_notebooks(shared: Path) -> BroughtUp:
    return bring_up(project(shared))


@pytest.fixture
def stack(up_with_notebooks: BroughtUp, shared: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield a sandbox of this test, in which both pipelines are deployed."""
    with closing(copied(project(shared), up_with_notebooks, tmp_path / "a sandbox")) as runner:
        yield runner


@pytest.mark.slow
def test_tekton_comes_first_then_the_check_then_the_pipeline_then_the_webhook(
    up_with_notebooks: BroughtUp, stack: SandboxRunner
) -> None:
    names = [name for operation, name in up_with_notebooks.done if operation == "create"]
    tasks = ["analysis-execute", "analysis-pipeline", "analysis-triggertemplate", "analysis-eventlistener"]
    for order in (
        [
            "gke-ci-tekton-release",
            "gke-ci-tekton-config",
            "analysis-pods-namespace",
            *tasks,
            "analysis-webhook-kernels",
        ],
        ["l4-smoke-job", "analysis-pods-namespace"],
        ["analysis-run-bucket", "analysis-eventlistener"],
        ["example-ci-tekton-config", "training-pods-namespace", "training-eventlistener"],
        ["a10g-smoke-job", "training-pods-namespace"],
    ):
        assert sorted(order, key=names.index) == order
    # Only a pipeline with an address has a webhook, and only a bucket of Google needs no role.
    assert [name for name in names if "-webhook-" in name] == ["analysis-webhook-kernels"]
    assert [name for name in names if name.endswith("-run-role")] == ["training-run-role"]
    found = stack.json("stack", "output", "notebooks", "--stack", "staging", "--json")
    assert found["analysis"]["webhookUrl"] == "https://notebooks.example.org/"
    assert found["training"]["listenerService"] == "el-training.training.svc:8080"
    stack.run("preview", "--stack", "staging", "--refresh", "--expect-no-changes")


@pytest.mark.slow
def test_settings_are_updates_of_their_objects_and_a_namespace_replaces_everything(stack: SandboxRunner) -> None:
    def changed(changes: dict[tuple[str, ...], Any]) -> list[tuple[str, str]]:
        return stack.steps(*gke.UP, "--config-file", str(stack.stack_file("Pulumi.staging.yaml", changes)))[1]

    assert changed({(*ON_GKE, "branches"): ["main"]}) == [("update", "analysis-eventlistener")]
    assert sorted(changed({(*ON_GKE, "branches"): ["main"], (*ON_GKE, "timeouts"): {"pipelineMin": 200}})) == [
        ("update", "analysis-triggertemplate")
    ]
    done = changed({(*ON_GKE, "namespace"): "notebooks"})
    assert ("replace", "analysis-pods-namespace") in done
    assert ("replace", "analysis-pipeline") in done
    assert [name for _, name in done if name.startswith("training-")] == []


@pytest.mark.slow
def test_the_pipelines_are_deleted_before_tekton_and_nothing_but_definitions_is_left(stack: SandboxRunner) -> None:
    _, done = stack.steps("destroy", "--stack", "staging", "--yes", "--skip-preview")
    deleted = [name for operation, name in done if operation == "delete"]
    for order in (
        ["analysis-webhook-kernels", "analysis-eventlistener", "analysis-pipeline", "analysis-execute"],
        ["analysis-pipeline", "analysis-pods-namespace", "gke-ci-tekton-config", "gke-ci-tekton-release"],
        ["training-pods-namespace", "example-ci-tekton-config", "example-ci-tekton-release"],
    ):
        assert sorted(order, key=deleted.index) == order
    definitions = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
    assert [row["name"] for row in stack.world() if not row["type"].startswith(definitions)] == []


@pytest.mark.slow
def test_a_secret_of_a_pipeline_is_nowhere_in_plain_text(shared: Path, tmp_path: Path) -> None:
    with closing(SandboxRunner(project=project(shared), folder=tmp_path / "a sandbox")) as runner:
        traffic = tmp_path / "traffic.json"
        output, commands = watched(runner, *gke.UP, "--diff", PULUMI_DEBUG_GRPC=str(traffic))
        messages = [json.loads(line) for line in traffic.read_text().splitlines()]
        for value in SECRETS.values():
            assert any(value in json.dumps(message) for message in messages), "the secret was not on its way"
        open_ones = {message["method"].rpartition("/")[2] for message in messages if any(unsealed(message, PLANTED))}
        assert open_ones <= CONFIGURING
        traffic.unlink()
        preview = runner.run("preview", "--stack", "staging", "--diff")
        kept = [file for file in runner.folder.rglob("*") if file.is_file()]
        assert len(kept) > 10, "there was nothing to search"
        assert [str(file) for file in kept if PLANTED.encode() in file.read_bytes()] == []
        said = [output, preview.output, str(runner.state("staging")), *commands]
        assert [text for text in said if PLANTED in text] == []
