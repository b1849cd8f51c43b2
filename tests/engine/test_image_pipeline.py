"""A container image pipeline in the sandbox: deployed, changed by a pool that pins its image, and destroyed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT, lay_out, with_fake_torch
from tests.engine.compute_pool import UP
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]

PROJECT = "example-ci-staging"
IMAGE = f"us-central1-docker.pkg.dev/{PROJECT}/images-runner-staging/gpu-runner"
DIGEST = "sha256:" + "1" * 64
PIPELINE = {
    "kind": "container",
    "region": "us-central1",
    "source": {"repository": "acme/images"},
    "build": {"image": "gpu-runner", "dockerfile": "images/runner/Dockerfile"},
    "registry": {"keepMostRecent": 2, "deleteAfterDays": 30},
    "sign": {"kmsKeyVersion": f"projects/{PROJECT}/locations/us-central1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1"},
    "schedule": "0 4 * * 1",
}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    folder = tmp_path_factory.mktemp("images")
    found = SandboxRunner(project=folder / "project", folder=folder / "sandbox")
    found.project.mkdir()
    lay_out(found.project)
    (found.project / "sandbox.yaml").write_text(with_fake_torch((ROOT / "sandbox.yaml").read_text()))
    builds = {"kind": "cloud-build", "region": "us-central1"}
    write(found, {"gpu-ci:images": {"runner": PIPELINE}, "gpu-ci:pools": {"builds": builds}})
    yield found
    found.close()


def stack_file(runner: SandboxRunner) -> Path:
    return runner.project / "Pulumi.staging.yaml"


def write(runner: SandboxRunner, config: dict[str, Any]) -> None:
    document = {"config": {"gcp:project": PROJECT, "gpu-ci:site": {}, **config}}
    stack_file(runner).write_text(yaml.safe_dump(document, sort_keys=False))


def policies(runner: SandboxRunner) -> dict[str, Any]:
    world = World(Workspace(runner.folder).world)
    [repository] = [each for each in world.find(types.REPOSITORY) if "images-runner" in each.id]
    world.close()
    return {each["id"]: each for each in repository.inputs["cleanupPolicies"]}


def test_a_pipeline_keeps_the_image_that_a_pool_pins(runner: SandboxRunner) -> None:
    runner.run("stack", "init", "staging")
    preview = runner.run("preview", "--stack", "staging")
    assert "gpu-ci:images.runner.source: acme/images must be connected to Cloud Build" in preview.output
    runner.run(*UP)
    outputs = runner.json("stack", "output", "images", "--json", "--stack", "staging")["runner"]
    assert (outputs["kind"], outputs["image"]) == ("container", IMAGE)
    assert "keep-pinned" not in policies(runner)

    # A pool pins the first image, so the next update keeps its digest. Only a preview: no VM of the sandbox runs a
    # container.
    pool = {
        "kind": "gce-runners",
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b"],
        "market": "spot",
        "max": 1,
        "image": "projects/cos-cloud/global/images/family/cos-stable",
        "driver": {"source": "cos", "checkImage": f"{IMAGE}@{DIGEST}"},
    }
    site = {"networks": {"us-central1": {"ipRange": "10.10.0.0/20"}}}
    write(runner, {"gpu-ci:site": site, "gpu-ci:images": {"runner": PIPELINE}, "gpu-ci:pools": {"cos": pool}})
    steps = runner.json("preview", "--stack", "staging", "--json")["steps"]
    [registry] = [each for each in steps if each["urn"].endswith("::runner-registry")]
    kept = {each["id"]: each for each in registry["newState"]["inputs"]["cleanupPolicies"]}["keep-pinned"]
    assert kept["condition"]["versionNamePrefixes"] == [DIGEST]
    runner.run("destroy", "--stack", "staging", "--yes", "--skip-preview")
    assert [row["id"] for row in runner.world() if row["type"].startswith("gcp:")] == []
