"""The bootstrap program under the real engine, and staging with the deployer's identity alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_common import google_permissions
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT, lay_out
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow]

UP = ("up", "--stack", "staging", "--yes", "--skip-preview")
DEPLOYER = "gh-deploy-staging@example-ci-staging.iam.gserviceaccount.com"
ROLE = "projects/example-ci-staging/roles/gpu_ci_deploy"
CUSTOM_ROLE = "gcp:projects/iAMCustomRole:IAMCustomRole"


def lay_out_both(folder: Path) -> None:
    """This project with its bootstrap program, its staging stack without EKS, and a trigger of builds."""
    folder.mkdir()
    lay_out(folder)
    shutil.copytree(ROOT / "bootstrap", folder / "bootstrap", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "sandbox.yaml", folder)
    stack = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())
    config = stack["config"]
    config["gpu-ci:pools"] = {name: config["gpu-ci:pools"][name] for name in ("l4", "builds")}
    config["gpu-ci:pools"]["builds"]["triggers"] = {
        "main": {
            "repository": "acme/kernels",
            "event": {"kind": "push", "branch": "^main$"},
            "build": {"kind": "file", "filename": "cloudbuild.yaml"},
        }
    }
    config["gpu-ci:site"]["networks"] = {"us-central1": {"ipRange": "10.10.0.0/20"}}
    del config["gpu-ci:site"]["subnetworks"]
    del config["gpu-ci:clusters"]
    (folder / "Pulumi.staging.yaml").write_text(yaml.safe_dump(stack, sort_keys=False))


@pytest.fixture(scope="module")
def bootstrapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `project`, and `sandbox` in which bootstrap is up; tests take a copy of the sandbox."""
    folder = tmp_path_factory.mktemp("bootstrapped")
    lay_out_both(folder / "project")
    runner = SandboxRunner(project=folder / "project" / "bootstrap", folder=folder / "sandbox")
    runner.run(*UP)
    runner.close()
    return folder


@pytest.fixture
def staging(bootstrapped: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    shutil.copytree(bootstrapped / "sandbox", tmp_path / "sandbox", symlinks=True)
    runner = SandboxRunner(project=bootstrapped / "project", folder=tmp_path / "sandbox")
    yield runner
    runner.close()


def remove(runner: SandboxRunner, permission: str) -> None:
    """Take a permission from the deployer's role, as an owner of the project could."""
    world = World(Workspace(runner.folder).world)
    row = world.get(CUSTOM_ROLE, ROLE)
    assert row is not None
    assert row.inputs["permissions"] == google_permissions.deployer()
    left = [one for one in row.inputs["permissions"] if one != permission]
    world.update(CUSTOM_ROLE, ROLE, inputs={**row.inputs, "permissions": left}, outputs=row.outputs)
    world.close()


def types(rows: list[dict[str, Any]]) -> set[str]:
    return {row["type"] for row in rows}


def test_bootstrap_comes_up_changes_nothing_again_and_leaves_nothing(bootstrapped: Path, tmp_path: Path) -> None:
    runner = SandboxRunner(project=bootstrapped / "project" / "bootstrap", folder=tmp_path / "sandbox")
    try:
        preview = runner.run("preview", "--stack", "staging")
        assert "+ 44 to create" in preview.output
        assert runner.world() == []
        runner.run(*UP)
        runner.run(*UP, "--expect-no-changes")
        world = {row["name"]: row for row in runner.world()}
        assert world["state"]["inputs"]["versioning"] == {"enabled": True}
        assert world["state"]["inputs"]["uniformBucketLevelAccess"] is True
        assert world["state"]["inputs"]["publicAccessPrevention"] == "enforced"
        assert world["deploy-role"]["inputs"]["permissions"] == google_permissions.deployer()
        assert world["preview-role"]["inputs"]["permissions"] == google_permissions.reader()
        outputs = runner.json("stack", "output", "--stack", "staging", "--json")
        assert outputs["backend"] == "gs://example-ci-staging-pulumi-state"
        keys = "projects/example-ci-staging/locations/us-central1/keyRings/pulumi/cryptoKeys/pulumi-secrets"
        assert outputs["secretsProvider"] == f"gcpkms://{keys}"
        assert outputs["deploy"]["serviceAccount"] == DEPLOYER
        assert set(outputs["aws"]) == {"deploy", "preview"}
        runner.run("destroy", "--stack", "staging", "--yes")
        assert runner.world() == []
        again = runner.run(*UP, ok=False)
        assert again.has("Error 409: Requested entity already exists", "Google keeps its id for 30 days")
    finally:
        runner.close()


def test_staging_comes_up_and_goes_with_the_deployers_identity_alone(staging: SandboxRunner) -> None:
    before = {row["id"] for row in staging.world()}
    staging.run(*UP, PULUMI_SANDBOX_GOOGLE_ACCOUNT=DEPLOYER)
    staging.run(*UP, "--refresh", "--expect-no-changes", PULUMI_SANDBOX_GOOGLE_ACCOUNT=DEPLOYER)
    outputs = staging.json("stack", "output", "--stack", "staging", "--json")
    assert outputs["pools"]["l4"]["verdict"] == "pass"
    staging.run("destroy", "--stack", "staging", "--yes", PULUMI_SANDBOX_GOOGLE_ACCOUNT=DEPLOYER)
    assert {row["id"] for row in staging.world()} == before


def test_the_previews_identity_creates_nothing(staging: SandboxRunner) -> None:
    before = {row["id"] for row in staging.world()}
    preview = DEPLOYER.replace("deploy", "preview", 1)
    failed = staging.run(*UP, ok=False, PULUMI_SANDBOX_GOOGLE_ACCOUNT=preview)
    assert "secretmanager.versions.access" in failed.output
    assert {row["id"] for row in staging.world()} == before


# A permission that is removed -> the resource whose error names it. Several may need it; any can be the first.
REMOVED = {
    "artifactregistry.repositories.create": "builds-registry",
    "artifactregistry.repositories.setIamPolicy": "builds-account-registry-writer",
    "cloudbuild.builds.create": "builds-trigger-main",
    "cloudbuild.operations.get": "builds-workers",
    "cloudbuild.workerpools.create": "builds-workers",
    "compute.firewalls.create": "us-central1-deny",
    "compute.globalOperations.get": "us-central1-network",
    "compute.instanceGroupManagers.create": "l4-group",
    "compute.instanceTemplates.create": "l4-template",
    "compute.instances.list": "l4-gate",
    "compute.instances.setLabels": "l4-gate",
    "compute.networks.create": "us-central1-network",
    "compute.networks.updatePolicy": "us-central1-deny",
    "compute.routers.create": "us-central1-router",
    "compute.routers.update": "us-central1-nat",
    "compute.subnetworks.create": "us-central1-subnetwork",
    "iam.serviceAccounts.actAs": "l4-template|builds-trigger-main",
    "iam.serviceAccounts.create": "l4-account|builds-account",
    "resourcemanager.projects.setIamPolicy": "builds-account-|l4-",
    "secretmanager.versions.access": "projects/example-ci-staging/secrets/github-admin-app-key",
}


def test_twenty_permissions_are_removed() -> None:
    assert len(REMOVED) == 20
    assert REMOVED.keys() <= set(google_permissions.deployer())


@pytest.mark.parametrize(("permission", "resource"), REMOVED.items(), ids=REMOVED)
def test_a_permission_that_the_role_lacks_is_named_with_the_resource(
    staging: SandboxRunner, permission: str, resource: str
) -> None:
    remove(staging, permission)
    failed = staging.run(*UP, ok=False, PULUMI_SANDBOX_GOOGLE_ACCOUNT=DEPLOYER)
    naming = [line for line in failed.output.splitlines() if f"'{permission}'" in line]
    assert any(re.search(resource, line) for line in naming), failed.output
