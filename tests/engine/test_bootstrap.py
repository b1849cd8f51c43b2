"""The bootstrap program in empty accounts, and staging and the workflows with what it creates alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci.github_trust import ISSUER
from gpu_common import aws_permissions, google_permissions
from gpu_common.google_permissions import CUSTOM_ROLE, PROJECT_MEMBER
from pulumi_sandbox.providers.gcp.permissions import Caller
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.bootstrap.stacks import staging_with
from tests.conftest import ROOT, lay_out, once, with_fake_torch
from tests.gpu_ci.identity.cel import cel
from tests.gpu_ci.identity.iam import assume
from tests.gpu_ci.identity.test_claims import templated
from tests.gpu_ci.identity.tokens import job
from tests.sandbox_runner import SandboxRunner
from tests.test_docs import fences

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]


def up(stack: str) -> tuple[str, ...]:
    return ("up", "--stack", stack, "--yes", "--skip-preview")


UP = up("staging")
DEPLOYER = "gh-deploy-staging@example-ci-staging.iam.gserviceaccount.com"
ROLE = "projects/example-ci-staging/roles/gpu_ci_deploy"
SUBNET = "subnet-0a1b2c3d4e5f60001"
SIGNING_KEY = "projects/example-ci-staging/locations/us-central1/keyRings/r/cryptoKeys/k"


def lay_out_both(folder: Path) -> None:
    """This project with its bootstrap program, prod, and staging with every option that needs further permissions."""
    folder.mkdir()
    lay_out(folder)
    shutil.copytree(ROOT / "bootstrap", folder / "bootstrap", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Pulumi.prod.yaml", folder)
    (folder / "sandbox.yaml").write_text(with_fake_torch((ROOT / "sandbox.yaml").read_text()))
    write_staging(folder, ipRange="10.10.0.0/20", flowLogs=True)
    whole = yaml.safe_load((ROOT / "bootstrap" / "Pulumi.staging.yaml").read_text())
    staging = folder / "bootstrap" / "Pulumi.staging.yaml"
    settings = {**whole["config"]["gpu-ci-bootstrap:settings"], "signingKeys": [SIGNING_KEY]}
    staging.write_text(yaml.safe_dump({**whole, "config": {**whole["config"], "gpu-ci-bootstrap:settings": settings}}))
    (folder / "bootstrap" / "Pulumi.again.yaml").write_text(yaml.safe_dump(whole))
    settings = {name: whole["config"]["gpu-ci-bootstrap:settings"][name] for name in ("github", "aws")}
    alone = {"config": {"gpu-ci-bootstrap:settings": settings}}
    (folder / "bootstrap" / "Pulumi.alone.yaml").write_text(yaml.safe_dump(alone))
    whole["config"]["gcp:project"] = "example-ci-prod"
    # The AWS account has the roles of staging.
    del whole["config"]["gpu-ci-bootstrap:settings"]["aws"]
    whole["config"]["gpu-ci-bootstrap:settings"]["github"] |= {
        "deploy": {"environment": "prod"},
        "preview": {"environment": "prod-read"},
    }
    (folder / "bootstrap" / "Pulumi.prod.yaml").write_text(yaml.safe_dump(whole))


def write_staging(folder: Path, **network: Any) -> None:
    """Write the stack file of staging, with its own network, triggers, and a manager with alerts."""
    stack = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())
    stack["config"] = staging_with("networks", "triggers", "alerts", "signed images")
    stack["config"]["gpu-ci:site"] |= {"networks": {"us-central1": network}, "bootstrapRoles": True}
    (folder / "Pulumi.staging.yaml").write_text(yaml.safe_dump(stack, sort_keys=False))


@pytest.fixture(scope="module")
def bootstrapped(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `project`, and `sandbox` in which bootstrap is up; tests take a copy of the sandbox."""
    made = shared / "bootstrapped"

    def make() -> None:
        lay_out_both(made / "project")
        with closing(SandboxRunner(project=made / "project" / "bootstrap", folder=made / "sandbox")) as runner:
            assert "+ 65 to create" in runner.run("up", "--stack", "staging", "--yes").output
            runner.run(*up("prod"))

    folder = tmp_path_factory.mktemp("worker") / "bootstrapped"
    return shutil.copytree(once(made, make), folder, symlinks=True, ignore=shutil.ignore_patterns("ports.json"))


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


def identities_of(runner: SandboxRunner, purpose: str) -> dict[str, str]:
    """The identities of staging on both clouds for a purpose, as variables of the sandbox."""
    [role] = [row["id"] for row in runner.world() if row["name"] == f"aws-{purpose}-role"]
    account = DEPLOYER.replace("deploy", purpose, 1)
    return {"PULUMI_SANDBOX_GOOGLE_ACCOUNT": account, "PULUMI_SANDBOX_AWS_ROLE": role}


def deployers(runner: SandboxRunner) -> dict[str, str]:
    return identities_of(runner, "deploy")


def test_bootstrap_changes_nothing_again_and_leaves_only_its_key(bootstrapped: Path, tmp_path: Path) -> None:
    shutil.copytree(bootstrapped / "sandbox", tmp_path / "sandbox", symlinks=True)
    runner = SandboxRunner(project=bootstrapped / "project" / "bootstrap", folder=tmp_path / "sandbox")

    def world() -> list[dict[str, Any]]:
        return [row for row in runner.world() if not row["urn"].startswith("urn:pulumi:prod::")]

    try:
        runner.run(*UP, "--expect-no-changes")
        named = {row["name"]: row for row in world()}
        assert named["state"]["inputs"]["versioning"] == {"enabled": True}
        assert named["state"]["inputs"]["uniformBucketLevelAccess"] is True
        assert named["state"]["inputs"]["publicAccessPrevention"] == "enforced"
        assert named["deploy-role"]["inputs"]["permissions"] == google_permissions.deployer()
        assert named["preview-role"]["inputs"]["permissions"] == google_permissions.reader()
        outputs = runner.json("stack", "output", "--stack", "staging", "--json")
        assert outputs["backend"] == "gs://example-ci-staging-pulumi-state"
        keys = "projects/example-ci-staging/locations/us-central1/keyRings/pulumi/cryptoKeys/pulumi-secrets"
        assert outputs["secretsProvider"] == f"gcpkms://{keys}"
        assert outputs["deploy"]["serviceAccount"] == DEPLOYER
        assert set(outputs["aws"]) == {"deploy", "preview"}
        runner.run("destroy", "--stack", "staging", "--yes", "--skip-preview")
        # Google keeps key rings and keys, and the program keeps the versions of the key.
        ring = keys.rpartition("/cryptoKeys/")[0]
        assert {row["id"] for row in world()} == {ring, keys}
        # Without this option, the first error can end the update before the others.
        again = runner.run(*UP, "--continue-on-error", ok=False)
        assert again.has("Error 409: Requested entity already exists", "Google keeps its id for 30 days")
        assert again.has(f"Error creating KeyRing: googleapi: Error 409: KeyRing {ring} already exists.")
    finally:
        runner.close()


def test_bootstrap_on_aws_alone_creates_the_state_and_leaves_only_its_key(bootstrapped: Path, tmp_path: Path) -> None:
    runner = SandboxRunner(project=bootstrapped / "project" / "bootstrap", folder=tmp_path / "sandbox")
    try:
        runner.run(*up("alone"))
        runner.run(*up("alone"), "--expect-no-changes")
        outputs = runner.json("stack", "output", "--stack", "alone", "--json")
        bucket = f"{outputs['aws']['deploy']['role'].split(':')[4]}-pulumi-state"
        assert outputs["backend"] == f"s3://{bucket}?region=us-east-1&awssdk=v2"
        assert outputs["secretsProvider"] == "awskms://alias/pulumi-secrets?region=us-east-1"
        assert f"PULUMI_BACKEND_STAGING --repo example-org/pools --body '{outputs['backend']}'" in outputs["commands"]
        assert {row["type"].partition(":")[0] for row in runner.world()} == {"aws"}
        runner.run("destroy", "--stack", "alone", "--yes", "--skip-preview")
        assert [row["type"] for row in runner.world()] == ["aws:kms/key:Key"]
    finally:
        runner.close()


def test_a_project_of_init_without_google_is_deployed_with_the_role_of_bootstrap(tmp_path: Path) -> None:
    """Pools on EC2, their runner manager on ECS, and nothing of Google."""
    lay_out_both(tmp_path / "project")
    bootstrap = SandboxRunner(project=tmp_path / "project" / "bootstrap", folder=tmp_path / "sandbox")
    bootstrap.run(*up("alone"))
    role = bootstrap.json("stack", "output", "--stack", "alone", "--json")["aws"]["deploy"]["role"]
    account = role.split(":")[4]
    bootstrap.close()
    new = tmp_path / "new"
    options = ("--aws-account", account, "--pool", "a10g=g5.xlarge", "--subnet", f"us-east-1a={SUBNET}", "--write")
    command = [Path(sys.executable).parent / "gpu-ci", "init", new, *options, "--organization", "acme"]
    subprocess.run([*command, "--repository", "kernels"], capture_output=True, check=True)
    (new / ".venv").symlink_to(ROOT / ".venv")
    (new / ".venv-torch").symlink_to(ROOT / ".venv-torch")
    (new / "sandbox.yaml").write_text(with_fake_torch((new / "sandbox.yaml").read_text()))
    stack = yaml.safe_load((new / "Pulumi.dev.yaml").read_text())
    assert not [key for key in stack["config"] if key.startswith("gcp")]
    image = f"{account}.dkr.ecr.us-east-1.amazonaws.com/runner-manager@sha256:{'ab' * 32}"
    stack["config"]["gpu-ci:manager"] = {"image": image, "region": "us-east-1", "subnets": [SUBNET]}
    (new / "Pulumi.dev.yaml").write_text(yaml.safe_dump(stack))
    runner = SandboxRunner(project=new, folder=tmp_path / "sandbox")
    try:
        before = {row["id"] for row in runner.world()}
        runner.run(*up("dev"), PULUMI_SANDBOX_AWS_ROLE=role)
        runner.run(*up("dev"), "--expect-no-changes", PULUMI_SANDBOX_AWS_ROLE=role)
        created = [row["type"] for row in runner.world() if row["id"] not in before]
        assert "aws:ecs/service:Service" in created
        assert {token.partition(":")[0] for token in created} <= {"aws", "github", "gpu-ci"}
        outputs = runner.json("stack", "output", "--stack", "dev", "--json")
        assert outputs["runnerManager"]["stateObject"].endswith("/dev/state/state.json")
        [policy] = [row["inputs"]["policyArn"] for row in runner.world() if row["name"] == "manager-task-may-manage"]
        assert policy in before
        runner.run("destroy", "--stack", "dev", "--yes", "--skip-preview", PULUMI_SANDBOX_AWS_ROLE=role)
        # The program keeps the downloads. S3 deletes them with the bucket.
        assert not [row["id"] for row in runner.world() if row["id"] not in before and "/payloads/" not in row["id"]]
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
        assert google_permissions.RESOURCES.keys() - created == {CUSTOM_ROLE}
        ids, roles = ({str(each) for each in found} for found in (
            [row["id"] for row in runner.world()], [row["inputs"].get("role") for row in runner.world()],
        ))  # fmt: skip
        assert {each for each in roles if each.startswith("projects/")} <= ids
        assert runner.json("stack", "output", "--stack", "staging", "--json")["pools"]["l4"]["verdict"] == "pass"
        runner.run("refresh", "--stack", "staging", "--preview-only", "--expect-no-changes",
                   **identities_of(runner, "preview"))  # fmt: skip
        # A larger range and no logs are changes by two methods of the API.
        write_staging(runner.project, ipRange="10.10.0.0/19")
        _, done = runner.steps(*UP, "--refresh", **identities)
        assert sorted(done) == [("update", f"runners-us-central1-{name}") for name in ("deny", "subnetwork")]
        runner.run("destroy", "--stack", "staging", "--yes", **identities)
        bootstrap = SandboxRunner(project=bootstrapped / "project", folder=bootstrapped / "sandbox")
        left = {row["id"] for row in runner.world()} - {row["id"] for row in bootstrap.world()}
        # S3 deletes the downloads and the templates of machines with the bucket.
        left = {each for each in left if "/payloads/" not in each and "/templates/" not in each}
        # ARC's definitions stay in the cluster.
        assert {identity.partition(".")[2] for identity in left} == {"actions.github.com"}
        bootstrap.close()
    finally:
        runner.close()


def test_the_deployer_grants_the_roles_of_gpu_ci_and_cannot_make_itself_owner(bootstrapped: Path) -> None:
    deployer = Caller(World(Workspace(bootstrapped / "sandbox").world), DEPLOYER)
    project = "example-ci-staging"
    tries = {"roles/logging.logWriter": True, f"projects/{project}/roles/gpu_ci_manager_machines": True,
             "roles/owner": False, "roles/cloudkms.admin": False, ROLE: False, f"{ROLE}_grants": False}  # fmt: skip
    for role, allowed in tries.items():
        denied = [*deployer.operation(PROJECT_MEMBER, "create", project, f"projects/{project}", role=role)]
        assert (denied == []) is allowed, role
    for operation in ("create", "update", "delete"):
        assert [*deployer.operation(CUSTOM_ROLE, operation, project, ROLE)]


def test_the_previews_identity_creates_nothing(staging: SandboxRunner) -> None:
    before = {row["id"] for row in staging.world()}
    preview = DEPLOYER.replace("deploy", "preview", 1)
    failed = staging.run(*UP, ok=False, PULUMI_SANDBOX_GOOGLE_ACCOUNT=preview)
    assert "secretmanager.versions.access" in failed.output
    assert {row["id"] for row in staging.world()} == before


def test_a_second_bootstrap_in_a_project_is_refused(bootstrapped: Path, tmp_path: Path) -> None:
    shutil.copytree(bootstrapped / "sandbox", tmp_path / "sandbox", symlinks=True)
    runner = SandboxRunner(project=bootstrapped / "project" / "bootstrap", folder=tmp_path / "sandbox")
    try:
        failed = runner.run(*up("again"), "--continue-on-error", ok=False)
        # The role, the bucket and the OIDC provider exist once. A list in github.deploy is the way out.
        for name in (ROLE, "example-ci-staging-pulumi-state", f"https://{ISSUER}"):
            assert re.search(rf"{name}\S* already exists", failed.output), failed.output
    finally:
        runner.close()


def workflows() -> Iterator[dict[Any, Any]]:
    """The workflows of the pages and of `gpu-ci init` that call deploy-stack."""
    for page in ("deploy-on-github", "drift"):
        yield from (yaml.safe_load(text) for kind, text in fences(ROOT / f"docs/guides/{page}.md") if kind == "yml")
    subnet = ("--subnet", "us-east-1a=subnet-0a1b2c3d4e5f60001", "--cluster", "ci")
    image = ("--runner-image", f"ghcr.io/acme/runner@sha256:{'0' * 64}")
    package = ("--package", f"git+https://github.com/example-org/gpu-ci@{'1f' * 20}", "--json")
    for stack, pools in (("staging", ("--pool", "a10g=g5.2xlarge", *subnet, *image)), ("prod", ())):
        options = ("--stack", stack, "--project", f"example-ci-{stack}", "--pool", "l4=g2-standard-8", *pools)
        command = [Path(sys.executable).parent / "gpu-ci", "init", "new", *options, "--organization", "acme"]
        made = subprocess.run([*command, "--repository", "kernels", *package], capture_output=True, check=True)
        yield yaml.safe_load(json.loads(made.stdout)["files"][".github/workflows/deploy.yaml"])


def test_each_job_of_the_workflows_signs_in_and_reaches_its_state(bootstrapped: Path) -> None:
    """For each event: the variables exist, and the identities trust the job and may use backend and key."""
    runner = SandboxRunner(project=bootstrapped / "project" / "bootstrap", folder=bootstrapped / "sandbox")
    outputs = {
        stack: runner.json("stack", "output", "--stack", stack, "--json", "--show-secrets")
        for stack in ("staging", "prod")
    }
    world = runner.world()
    runner.close()
    commands = "\n".join(each["commands"] for each in outputs.values())
    variables = dict(re.findall(r"gh variable set (\w+) --repo example-org/pools --body (\S+)", commands))
    template = re.findall(r"include_claim_keys\[\]=(\w+)", commands)
    reusable = (ROOT / ".github/workflows/deploy-stack.yaml").read_text()
    [sessions] = re.findall(r"role-duration-seconds: .* inputs.command == 'up' && '(\d+)' \|\| '(\d+)' ", reusable)
    signed_in = []
    for workflow in workflows():
        for each in workflow["jobs"].values():
            given = {
                name: re.sub(r"\$\{\{ vars\.(\w+) \}\}", lambda found: variables[found[1]], str(value))
                for name, value in each["with"].items()
            }
            writes = given.get("command", "up") == "up"
            for event in workflow[True]:  # YAML 1.1 reads `on` as a boolean
                claims = job(event_name=event, environment=given["environment"]).claims()
                reaches_state(world, given, claims, outputs[given["stack"]]["secretsProvider"], writes)
                if arn := given.get("aws-role"):
                    [role] = [row["inputs"] for row in world if row["id"] == arn.rpartition("/")[2]]
                    [provider] = [row["id"] for row in world if row["id"].endswith(f"oidc-provider/{ISSUER}")]
                    session_sec = int(sessions[not writes])
                    assert assume(role, templated(claims, template), provider, session_sec) == ""
                signed_in.append((given["stack"], given["environment"], event, bool(arn)))
    on_main = ("push", "workflow_dispatch")
    assert sorted(signed_in) == sorted(
        [
            *((stack, stack, event, False) for stack in outputs for event in on_main),
            *((stack, f"{stack}-read", event, False) for stack in outputs for event in ("schedule", on_main[1])),
            *((stack, stack, event, stack == "staging") for stack in outputs for event in on_main),
        ]
    )


def reaches_state(world: list[dict[str, Any]], given: dict[str, str], claims: Any, key: str, writes: bool) -> None:
    """Evaluate the sign-in of google-github-actions/auth, and the grants on the state and on its key."""
    rows = {kind: [row["inputs"] for row in world if row["type"].endswith(f":{kind}")] for kind in KINDS}
    pool = given["google-provider"].split("/")[-3]
    [trusted] = [each for each in rows["WorkloadIdentityPoolProvider"] if each["workloadIdentityPoolId"] == pool]
    assert cel(trusted["attributeCondition"], claims)
    assert not cel(trusted["attributeCondition"], {**claims, "environment": "other"})
    account = given["google-service-account"]
    project = account.partition("@")[2].partition(".")[0]
    [user] = [each["member"] for each in rows["IAMMember"] if f"/{account}" in each.get("serviceAccountId", "")]
    assert user.endswith(f"/workloadIdentityPools/{pool}/attribute.repository_id/{claims['repository_id']}")
    member = f"serviceAccount:{account}"
    on_bucket = [each["role"] for each in rows["BucketIAMMember"]
                 if (f"gs://{each['bucket']}", each["member"]) == (given["backend"], member)]  # fmt: skip
    on_key = [each["role"] for each in rows["CryptoKeyIAMMember"]
              if (f"gcpkms://{each['cryptoKeyId']}", each["member"]) == (key, member)]  # fmt: skip
    assert on_bucket == ["roles/storage.objectUser" if writes else "roles/storage.objectViewer"]
    assert on_key == [f"roles/cloudkms.cryptoKey{'EncrypterDecrypter' if writes else 'Decrypter'}"]
    enabled = {each["service"] for each in rows["Service"] if each["project"] == project}
    assert {"sts.googleapis.com", "iamcredentials.googleapis.com"} <= enabled


KINDS = (
    "WorkloadIdentityPoolProvider",
    "IAMMember",
    "BucketIAMMember",
    "CryptoKeyIAMMember",
    "Service",
)


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
