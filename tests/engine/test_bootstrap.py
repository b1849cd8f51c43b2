"""The bootstrap program under the real engine, and staging and prod with the deployer's identity alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_common import aws_permissions, google_permissions
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.bootstrap.stacks import staging_with
from tests.conftest import ROOT, lay_out
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]


def up(stack: str) -> tuple[str, ...]:
    return ("up", "--stack", stack, "--yes", "--skip-preview")


UP = up("staging")
DEPLOYER = "gh-deploy-staging@example-ci-staging.iam.gserviceaccount.com"
ROLE = "projects/example-ci-staging/roles/gpu_ci_deploy"
SIGNING_KEY = "projects/example-ci-staging/locations/us-central1/keyRings/r/cryptoKeys/k"
CUSTOM_ROLE = "gcp:projects/iAMCustomRole:IAMCustomRole"


def lay_out_both(folder: Path) -> None:
    """This project with its bootstrap program, prod, and staging with every option that needs further permissions."""
    folder.mkdir()
    lay_out(folder)
    shutil.copytree(ROOT / "bootstrap", folder / "bootstrap", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("sandbox.yaml", "Pulumi.prod.yaml"):
        shutil.copy(ROOT / name, folder)
    write_staging(folder, ipRange="10.10.0.0/20", flowLogs=True)
    whole = yaml.safe_load((ROOT / "bootstrap" / "Pulumi.staging.yaml").read_text())
    staging = folder / "bootstrap" / "Pulumi.staging.yaml"
    settings = {**whole["config"]["gpu-ci-bootstrap:settings"], "signingKeys": [SIGNING_KEY]}
    staging.write_text(yaml.safe_dump({**whole, "config": {**whole["config"], "gpu-ci-bootstrap:settings": settings}}))
    whole["config"]["gcp:project"] = "example-ci-prod"
    # The AWS account has the roles of staging.
    del whole["config"]["gpu-ci-bootstrap:settings"]["aws"]
    (folder / "bootstrap" / "Pulumi.prod.yaml").write_text(yaml.safe_dump(whole))


def write_staging(folder: Path, **network: Any) -> None:
    """Write the stack file of staging, with its own network, triggers, and a manager with alerts."""
    stack = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())
    stack["config"] = staging_with("networks", "triggers", "alerts", "signed images")
    stack["config"]["gpu-ci:site"]["networks"] = {"us-central1": network}
    (folder / "Pulumi.staging.yaml").write_text(yaml.safe_dump(stack, sort_keys=False))


@pytest.fixture(scope="module")
def bootstrapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `project`, and `sandbox` in which bootstrap is up; tests take a copy of the sandbox."""
    folder = tmp_path_factory.mktemp("bootstrapped")
    lay_out_both(folder / "project")
    runner = SandboxRunner(project=folder / "project" / "bootstrap", folder=folder / "sandbox")
    for stack in ("staging", "prod"):
        runner.run(*up(stack))
    runner.close()
    return folder


@pytest.fixture(scope="module")
def deployed(bootstrapped: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sandbox in which the deployers' identities alone have deployed staging."""
    folder = tmp_path_factory.mktemp("deployed") / "sandbox"
    shutil.copytree(bootstrapped / "sandbox", folder, symlinks=True)
    runner = SandboxRunner(project=bootstrapped / "project", folder=folder)
    runner.run(*up("staging"), **deployers(runner))
    runner.close()
    return folder


@pytest.fixture
def staging(bootstrapped: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    shutil.copytree(bootstrapped / "sandbox", tmp_path / "sandbox", symlinks=True)
    runner = SandboxRunner(project=bootstrapped / "project", folder=tmp_path / "sandbox")
    yield runner
    runner.close()


def deployers(runner: SandboxRunner) -> dict[str, str]:
    """The identities of staging on both clouds, as variables of the sandbox."""
    [role] = [row["id"] for row in runner.world() if row["name"] == "aws-deploy-role"]
    return {"PULUMI_SANDBOX_GOOGLE_ACCOUNT": DEPLOYER, "PULUMI_SANDBOX_AWS_ROLE": role}


def test_bootstrap_comes_up_changes_nothing_again_and_leaves_only_its_key(bootstrapped: Path, tmp_path: Path) -> None:
    runner = SandboxRunner(project=bootstrapped / "project" / "bootstrap", folder=tmp_path / "sandbox")
    try:
        preview = runner.run("preview", "--stack", "staging")
        assert "+ 48 to create" in preview.output
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
        # Google keeps key rings and keys, and the program keeps the versions of the key.
        ring = keys.rpartition("/cryptoKeys/")[0]
        assert {row["id"] for row in runner.world()} == {ring, keys}
        # Without this option, the first error can end the update before the others.
        again = runner.run(*UP, "--continue-on-error", ok=False)
        assert again.has("Error 409: Requested entity already exists", "Google keeps its id for 30 days")
        assert again.has(f"Error creating KeyRing: googleapi: Error 409: KeyRing {ring} already exists.")
    finally:
        runner.close()


def test_all_of_staging_is_changed_and_destroyed_with_the_deployers_identities_alone(
    deployed: Path, bootstrapped: Path, tmp_path: Path
) -> None:
    shutil.copytree(bootstrapped / "project", tmp_path / "project", symlinks=True)
    shutil.copytree(deployed, tmp_path / "sandbox", symlinks=True)
    runner = SandboxRunner(project=tmp_path / "project", folder=tmp_path / "sandbox")
    try:
        identities = deployers(runner)
        created = {row["type"] for row in runner.world() if "::gpu-ci::" in row["urn"]}
        assert google_permissions.RESOURCES.keys() - created == set()
        assert runner.json("stack", "output", "--stack", "staging", "--json")["pools"]["l4"]["verdict"] == "pass"
        runner.run(*UP, "--refresh", "--expect-no-changes", **identities)
        readers = {name: each.replace("deploy", "preview", 1) for name, each in identities.items()}
        [readers["PULUMI_SANDBOX_AWS_ROLE"]] = [
            row["id"] for row in runner.world() if row["name"] == "aws-preview-role"
        ]
        runner.run("refresh", "--stack", "staging", "--preview-only", "--expect-no-changes", **readers)
        # A larger range and no logs are changes by two methods of the API.
        write_staging(runner.project, ipRange="10.10.0.0/19")
        _, done = runner.steps(*UP, **identities)
        assert ("update", "runners-us-central1-subnetwork") in done
        runner.run("destroy", "--stack", "staging", "--yes", **identities)
        bootstrap = SandboxRunner(project=bootstrapped / "project", folder=bootstrapped / "sandbox")
        left = {row["id"] for row in runner.world()} - {row["id"] for row in bootstrap.world()}
        # ARC's definitions stay in the cluster.
        assert {identity.partition(".")[2] for identity in left} == {"actions.github.com"}
        bootstrap.close()
    finally:
        runner.close()


def test_the_previews_identity_creates_nothing(staging: SandboxRunner) -> None:
    before = {row["id"] for row in staging.world()}
    preview = DEPLOYER.replace("deploy", "preview", 1)
    failed = staging.run(*UP, ok=False, PULUMI_SANDBOX_GOOGLE_ACCOUNT=preview)
    assert "secretmanager.versions.access" in failed.output
    assert {row["id"] for row in staging.world()} == before


def set_actions(world: World, actions: list[str]) -> str:
    """Change the policy of the deployer's role on AWS, and return the role's name."""
    [policy] = [row for row in world.find("aws:iam/rolePolicy:RolePolicy") if row.name.startswith("aws-deploy-")]
    document = json.loads(policy.inputs["policy"])
    document["Statement"][0]["Action"] = actions
    inputs = {**policy.inputs, "policy": json.dumps(document)}
    world.update(policy.type, policy.id, inputs=inputs, outputs=policy.outputs)
    return str(policy.inputs["role"])


def test_the_cli_names_permission_resource_role_and_command(staging: SandboxRunner) -> None:
    """For operations of the providers of both clouds, and for a call of the smoke check."""
    missing = ["cloudbuild.operations.get", "compute.instances.setLabels", "ec2:CreateLaunchTemplate"]
    world = World(Workspace(staging.folder).world)
    role = world.get(CUSTOM_ROLE, ROLE)
    assert role is not None
    left = [one for one in google_permissions.deployer() if one not in missing]
    world.update(CUSTOM_ROLE, ROLE, inputs={**role.inputs, "permissions": left}, outputs=role.outputs)
    on_aws = set_actions(world, [one for one in aws_permissions.deployer() if one not in missing])
    world.close()
    failed = staging.run(*UP, "--continue-on-error", ok=False, **deployers(staging))
    add = [google_permissions.add_to_role("gpu_ci_deploy", "example-ci-staging", [one]) for one in missing[:2]]
    hints = [
        ("builds-workers", f"{ROLE}, the role of {DEPLOYER}, lacks the permission; to add it: {add[0]}"),
        ("t4-gate", f"if bootstrap/ created the deployer's role gpu_ci_deploy, add the permission: {add[1]}"),
        (
            "a10g-nodes-template",
            f"the role {on_aws} lacks the action; to add it: {aws_permissions.add_to_role(on_aws, missing[2:])}",
        ),
    ]
    text = " ".join(failed.output.split())
    for one, (resource, hint) in zip(missing, hints, strict=True):
        assert any(resource in line for line in failed.output.splitlines() if one in line), failed.output
        assert f"hint: {hint}" in text
