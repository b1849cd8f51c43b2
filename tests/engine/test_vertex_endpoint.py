"""Tests VertexEndpoint with the real engine: an `up` during a canary, a replacement, and a deletion with models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.sandbox_runner import SandboxRunner

UP = ("up", "--stack", "dev", "--yes", "--skip-preview")
DESTROY = ("destroy", "--stack", "dev", "--yes", "--skip-preview")
pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[SandboxRunner]:
    project = ROOT / "tests" / "programs" / "vertex_endpoint"
    with closing(SandboxRunner(project=project, folder=tmp_path / "sandbox")) as runner:
        yield runner


def deploy_models(runner: SandboxRunner) -> None:
    """Change the endpoint as a rollout does: two models, the split and the labels."""
    split = json.dumps({"5001": 90, "5002": 10})  # the provider's property is a JSON text
    labels = {"team": "vision", "gpu-ci-rollout": "5002", "gpu-ci-status": "open"}
    models = [{"id": "5001", "displayName": "scan-3"}, {"id": "5002", "displayName": "gpu-ci-5002-4"}]
    values = {"trafficSplit": split, "labels": labels, "deployedModels": models}
    runner.run("world", "edit", "scan-endpoint", *(f"{name}={json.dumps(value)}" for name, value in values.items()))


def test_up_during_a_canary_changes_nothing_and_the_deletion_undeploys(runner: SandboxRunner) -> None:
    runner.run(*UP)
    assert "/endpoints/" in runner.json("stack", "output", "--stack", "dev", "--json")["endpoint"]
    deploy_models(runner)
    _, done = runner.steps(*UP, "--refresh")
    assert done == []
    # Another change of the stack leaves them alone, too.
    _, done = runner.steps(*UP, "--refresh", SCAN_MAX_ERROR_RATIO="0.2")
    assert done == [("update", "scan-errors")]
    [endpoint] = [row for row in runner.world() if row["name"] == "scan-endpoint"]
    assert json.loads(endpoint["outputs"]["trafficSplit"]) == {"5001": 90, "5002": 10}

    refused = runner.run(*DESTROY, ok=False)
    assert "5001 (90 %), 5002 (10 %)" in refused.output
    assert "forceDestroy: true" in refused.output
    [endpoint] = [row for row in runner.world() if row["name"] == "scan-endpoint"]
    assert [each["id"] for each in endpoint["outputs"]["deployedModels"]] == ["5001", "5002"]

    runner.run("world", "edit", "scan-endpoint", f"trafficSplit={json.dumps('{}')}")
    runner.run(*DESTROY)
    assert runner.world() == []


def test_forced_deletion_undeploys_models_with_traffic(runner: SandboxRunner) -> None:
    runner.run(*UP, SCAN_FORCE_DESTROY="true")
    deploy_models(runner)
    runner.run(*DESTROY)
    assert runner.world() == []


def test_preview_of_another_location_replaces_the_endpoint(runner: SandboxRunner) -> None:
    runner.run(*UP)
    _, done = runner.steps("preview", "--stack", "dev", SCAN_LOCATION="us-central1")
    assert ("replace", "scan-endpoint") in done
