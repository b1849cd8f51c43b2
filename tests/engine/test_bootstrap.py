"""The bootstrap program under the real engine, and staging and prod with the deployer's identity alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_common import aws_permissions, google_permissions
from pulumi_sandbox.providers.aws.provider import Aws
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.gcp.provider import Gcp
from pulumi_sandbox.providers.lifecycle import Lifecycle
from pulumi_sandbox.providers.resource import Context, Refused, Resource
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World

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
        assert "+ 46 to create" in preview.output
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


def test_bootstrap_is_deployed_again_after_its_key_is_imported(bootstrapped: Path, tmp_path: Path) -> None:
    """As docs/start/bootstrap.md says."""
    project = tmp_path / "project"
    shutil.copytree(bootstrapped / "project", project, symlinks=True)
    shutil.copytree(bootstrapped / "sandbox", tmp_path / "sandbox", symlinks=True)
    runner = SandboxRunner(project=project / "bootstrap", folder=tmp_path / "sandbox")
    try:
        before = {(row["type"], row["name"]) for row in runner.world()}
        runner.run("destroy", "--stack", "staging", "--yes")
        file = project / "bootstrap" / "Pulumi.staging.yaml"
        stack = yaml.safe_load(file.read_text())
        github = stack["config"]["gpu-ci-bootstrap:settings"]["github"]
        for purpose in ("deploy", "preview"):
            github[purpose]["poolId"] = f"gh-{purpose}-2"
        file.write_text(yaml.safe_dump(stack))
        ring = "projects/example-ci-staging/locations/us-central1/keyRings/pulumi"
        for kind, name, identity in (
            ("gcp:kms/keyRing:KeyRing", "keys", ring),
            ("gcp:kms/cryptoKey:CryptoKey", "secrets", f"{ring}/cryptoKeys/pulumi-secrets"),
        ):
            imported = ("import", "--stack", "staging", "--yes", "--protect=false", "--generate-code=false")
            runner.run(*imported, kind, name, identity)
        runner.run(*UP)
        runner.run(*UP, "--expect-no-changes")
        world = runner.world()
        assert {(row["type"], row["name"]) for row in world} == before
        pools = [row["id"] for row in world if row["type"] == "gcp:iam/workloadIdentityPool:WorkloadIdentityPool"]
        place = "projects/example-ci-staging/locations/global/workloadIdentityPools"
        assert {f"{place}/gh-deploy-2", f"{place}/gh-preview-2"} <= set(pools)
        [key] = [row for row in world if row["type"] == "gcp:kms/cryptoKey:CryptoKey" and ring in row["id"]]
        assert [each["state"] for each in key["outputs"]["primaries"]] == ["ENABLED"]
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


def test_prod_is_previewed_deployed_and_destroyed_with_its_deployers_identity_alone(staging: SandboxRunner) -> None:
    before = {row["id"] for row in staging.world()}
    identity = {"PULUMI_SANDBOX_GOOGLE_ACCOUNT": DEPLOYER.replace("staging", "prod")}
    assert staging.run("preview", "--stack", "prod", **identity).has("to create")
    staging.run(*up("prod"), **identity)
    pools = staging.json("stack", "output", "--stack", "prod", "--json")["pools"]
    assert {name: pool["verdict"] for name, pool in pools.items()} == dict.fromkeys(
        ("l4", "t4", "a100", "h100"), "pass"
    )
    staging.run("destroy", "--stack", "prod", "--yes", **identity)
    assert {row["id"] for row in staging.world()} == before


def test_the_previews_identity_creates_nothing(staging: SandboxRunner) -> None:
    before = {row["id"] for row in staging.world()}
    preview = DEPLOYER.replace("deploy", "preview", 1)
    failed = staging.run(*UP, ok=False, PULUMI_SANDBOX_GOOGLE_ACCOUNT=preview)
    assert "secretmanager.versions.access" in failed.output
    assert {row["id"] for row in staging.world()} == before


# Removed permission -> operation, and the resource of staging whose operation needs it.
REMOVED = {
    "artifactregistry.repositories.create": ("create", "builds-registry"),
    "artifactregistry.repositories.downloadArtifacts": ("create", "manager-workers"),
    "artifactregistry.repositories.setIamPolicy": ("create", "builds-account-registry-writer"),
    "cloudbuild.builds.create": ("create", "builds-trigger-main"),
    "cloudbuild.operations.get": ("create", "builds-workers"),
    "cloudbuild.workerpools.update": ("update", "builds-workers"),
    "compute.firewalls.delete": ("delete", "runners-us-central1-deny"),
    "compute.globalOperations.get": ("create", "runners-us-central1-network"),
    "compute.images.useReadOnly": ("create", "t4-group"),
    "compute.instanceGroupManagers.create": ("create", "l4-group"),
    "compute.instanceTemplates.get": ("read", "l4-template"),
    "compute.networks.update": ("update", "runners-us-central1-network"),
    "compute.networks.updatePolicy": ("create", "runners-us-central1-deny"),
    "compute.routers.update": ("update", "runners-us-central1-nat"),
    "compute.subnetworks.expandIpCidrRange": ("update", "runners-us-central1-subnetwork"),
    "compute.subnetworks.setPrivateIpGoogleAccess": ("update", "runners-us-central1-subnetwork"),
    "iam.roles.undelete": ("create", "manager-machines-role"),
    "iam.serviceAccounts.actAs": ("create", "l4-template"),
    "iam.serviceAccounts.setIamPolicy": ("delete", "manager-l4-user"),
    "logging.logMetrics.update": ("update", "manager-jobs-late"),
    "monitoring.alertPolicies.create": ("create", "manager-stalled"),
    "resourcemanager.projects.setIamPolicy": ("create", "builds-account-log-writer"),
    "run.workerpools.update": ("update", "manager-workers"),
    "secretmanager.secrets.setIamPolicy": ("create", "manager-app-key-reader"),
    "storage.buckets.getIamPolicy": ("read", "manager-state-writer"),
    "storage.objects.list": ("delete", "manager-state"),
}


def test_more_than_twenty_permissions_are_removed() -> None:
    assert len(REMOVED) == 26
    # Nothing changes a network in place, so the role never has this permission.
    assert REMOVED.keys() - set(google_permissions.deployer()) == {"compute.networks.update"}


@dataclass
class Provider:
    """A provider of the sandbox over a copy of the emulated cloud state, run as the deployer."""

    world: World
    lifecycle: Lifecycle

    def repeat(self, operation: str, row: Record) -> None:
        """Repeat an operation on a resource of staging."""
        values = {"id": row.id, "outputs": row.outputs}
        match operation:
            case "create":
                self.world.delete(row.type, row.id)
                self.lifecycle.create(self._resource(row, seed=b"seed"))
            case "read":
                self.lifecycle.read(row.type, row.id, (Decoded(row.outputs), Decoded(row.inputs)))
            case "update":
                self.lifecycle.update(self._resource(row, old_inputs=row.inputs, **values), Decoded(row.outputs))
            case "delete":
                self.lifecycle.delete(self._resource(row, **values))

    def _resource(self, row: Record, **more: Any) -> Resource:
        return self.lifecycle.resource(row.urn, Decoded(dict(row.inputs)), **more)

    def of_staging(self, name: str) -> Record:
        [row] = [row for row in self.world.find() if row.name == name and "::gpu-ci::" in row.urn]
        return row

    def set_permissions(self, permissions: list[str]) -> None:
        role = self.world.get(CUSTOM_ROLE, ROLE)
        assert role is not None
        self.world.update(CUSTOM_ROLE, ROLE, inputs={**role.inputs, "permissions": permissions}, outputs=role.outputs)


def set_actions(world: World, actions: list[str]) -> str:
    """Change the policy of the deployer's role on AWS, and return the role's name."""
    [policy] = [row for row in world.find("aws:iam/rolePolicy:RolePolicy") if row.name.startswith("aws-deploy-")]
    document = json.loads(policy.inputs["policy"])
    document["Statement"][0]["Action"] = actions
    inputs = {**policy.inputs, "policy": json.dumps(document)}
    world.update(policy.type, policy.id, inputs=inputs, outputs=policy.outputs)
    return str(policy.inputs["role"])


@pytest.fixture
def start(
    deployed: Path, bootstrapped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Provider]]:
    """Start the provider of a cloud over a copy of the emulated cloud state, run as the deployer."""
    for file in deployed.glob("world.db*"):
        shutil.copy(file, tmp_path)
    workspace = Workspace(tmp_path, bootstrapped / "project")
    world = World(workspace.world)
    [role] = [row.id for row in world.find("aws:iam/role:Role") if row.name == "aws-deploy-role"]
    monkeypatch.setenv("PULUMI_SANDBOX_GOOGLE_ACCOUNT", DEPLOYER)
    monkeypatch.setenv("PULUMI_SANDBOX_AWS_ROLE", role)

    def started(cloud: Cloud, **config: str) -> Provider:
        cloud.__dict__["shapes"] = shapes(cloud.package)
        cloud.start(Context(workspace, world, config))
        return Provider(world, Lifecycle(cloud, cloud.context))

    yield started
    world.close()


@cache
def shapes(package: str) -> Shapes:
    return Shapes.for_package(package)


@pytest.mark.parametrize(("permission", "operation", "name"), [(one, *each) for one, each in REMOVED.items()])
def test_a_permission_that_the_role_lacks_is_named_with_the_role_and_the_command(
    start: Callable[..., Provider], permission: str, operation: str, name: str
) -> None:
    provider = start(Gcp(), project="example-ci-staging", region="us-central1")
    row = provider.of_staging(name)
    full = google_permissions.deployer()
    provider.set_permissions([one for one in full if one != permission])
    with pytest.raises(Refused) as refused:
        provider.repeat(operation, row)
    error, _, hint = str(refused.value).partition("\n")
    assert f"'{permission}'" in error
    assert hint == (
        f"  hint: {ROLE}, the role of {DEPLOYER}, lacks the permission; to add it: gcloud iam roles update "
        f"gpu_ci_deploy --project example-ci-staging --add-permissions {permission}"
    )
    provider.set_permissions([*full, permission])
    if operation == "create":
        provider.world.insert(row)
    provider.repeat(operation, row)


# Removed action -> operation, and the resource of staging whose operation needs it.
REMOVED_ON_AWS = {
    "autoscaling:CreateOrUpdateTags": ("create", "a10g-nodes-asg-owned"),
    "autoscaling:DeleteTags": ("delete", "a10g-nodes-asg-taint"),
    "ec2:CreateTags": ("create", "a10g-nodes-template"),
    "ec2:DescribeLaunchTemplateVersions": ("read", "a10g-nodes-template"),
    "ec2:DescribeSubnets": ("create", "a10g-nodes-nodes"),
    "ec2:ModifyLaunchTemplate": ("update", "a10g-nodes-template"),
    "ec2:RunInstances": ("create", "a10g-nodes-nodes"),
    "eks:DeleteNodegroup": ("delete", "a10g-nodes-nodes"),
    "eks:UpdateNodegroupConfig": ("update", "a10g-nodes-nodes"),
    "iam:CreateRole": ("create", "a10g-nodes-role"),
    "iam:DetachRolePolicy": ("delete", "a10g-nodes-may-pull"),
    "iam:PassRole": ("create", "a10g-nodes-nodes"),
}


@pytest.mark.parametrize(("action", "operation", "name"), [(one, *each) for one, each in REMOVED_ON_AWS.items()])
def test_an_action_that_the_role_on_aws_lacks_is_named_with_the_role_and_the_command(
    start: Callable[..., Provider], action: str, operation: str, name: str
) -> None:
    provider = start(Aws(), region="us-east-1")
    # The stack refers to a cluster that it has looked up.
    provider.lifecycle.cloud.invoke("aws:eks/getCluster:getCluster", {"name": "example-ci"})
    row = provider.of_staging(name)
    full = aws_permissions.deployer()
    role = set_actions(provider.world, [one for one in full if one != action])
    with pytest.raises(Refused) as refused:
        provider.repeat(operation, row)
    error, _, hint = str(refused.value).partition("\n")
    assert f"assumed-role/{role}/sandbox is not authorized to perform: {action} because" in error
    assert hint == (
        f"  hint: the role {role} lacks the action; to add it: {aws_permissions.add_to_role(role, [action])}"
    )
    set_actions(provider.world, full)
    if operation == "create":
        provider.world.insert(row)
    provider.repeat(operation, row)


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
