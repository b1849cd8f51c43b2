"""What each identity of bootstrap/ can read, bucket by bucket, and what it can give itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli.init.repository import ADMIN_APP, MANAGER_APP, RUNNER_APP
from gpu_ci.component import Component
from gpu_ci.gcp import bootstrap_roles
from gpu_ci.gcp.github_identity import GithubIdentity
from gpu_ci.gcp.vertex_endpoint import VertexEndpoint
from gpu_common import aws_permissions, google_permissions
from gpu_common.google_permissions import CUSTOM_ROLE, PROJECT_MEMBER
from pulumi_sandbox.providers.aws import permissions as of_aws
from pulumi_sandbox.providers.aws import types as aws_types
from pulumi_sandbox.providers.gcp import permissions as of_google
from pulumi_sandbox.providers.gcp.permissions import Asked, holds
from pulumi_sandbox.world.store import Record, World

from bootstrap import google
from tests.bootstrap.stacks import staging_with
from tests.bootstrap.test_roles import bootstrapped, rows_of, statements_of
from tests.gpu_ci import support
from tests.gpu_ci.harness import Row
from tests.gpu_ci.identity.cel import cel, recursion_limit  # noqa: F401 - a fixture
from tests.gpu_ci.program.test_program import run
from tests.gpu_ci.support import COMPONENTS

pytestmark = pytest.mark.usefixtures("short_definitions")

STATE, KEY = "acme-ci-pulumi-state", "the key of the state"
OBJECTS = {
    (STATE, ".pulumi/stacks/gpu-ci/prod.json"),
    ("gpu-tests-builds-1", "bridge.json"),
    ("gpu-tests-builds-1", "program/0123456789abcdef/gpu_bridge.zip"),
    ("gpu-tests-builds-1", "builds/7f2c/a1-1/request.json"),
    ("gpu-tests-builds-1", "sources/0123.tar.gz"),
    ("manager-state-1", "configuration.json"),
    ("manager-state-1", "state.json"),
    ("mailbox-1", "dev/payloads/0123"),
    ("mailbox-1", "dev/templates/0123.json"),
    ("mailbox-1", "dev/mail/0123/key"),
}
# Google Cloud documentation "IAM roles for Cloud Storage" and "Permissions and roles" of Cloud KMS.
READ_STATE = {"roles/storage.objectUser", "roles/storage.objectViewer"}
DECRYPT = {"roles/cloudkms.cryptoKeyDecrypter", "roles/cloudkms.cryptoKeyEncrypterDecrypter"}


def reads(purpose: str) -> set[tuple[str, str]]:
    """Return the objects that an identity can read; and the key, if it can decrypt."""
    rows = {row.name: row.inputs for row in bootstrapped()}
    roles = {name.removesuffix("-role"): row["permissions"] for name, row in rows.items() if name.endswith("-role")}
    found = set()
    for name, inputs in rows.items():
        if not name.startswith(purpose) or "member" not in inputs:
            continue
        allowed = google_permissions.READ_OBJECT in roles.get(name.removesuffix("-role-stack"), ())
        for bucket, path in OBJECTS:
            asked = Asked(f"projects/_/buckets/{bucket}/objects/{path}")
            limit = inputs.get("condition")
            of_bucket = inputs.get("bucket") is not None and bucket == STATE and inputs["role"] in READ_STATE
            if of_bucket or (allowed and (not limit or holds(limit["expression"], asked))):
                found.add((bucket, path))
        if inputs["role"] in DECRYPT:
            found.add((KEY, ""))
    return found


def test_the_deployer_reads_every_object_and_decrypts_the_state() -> None:
    assert reads("deploy") == OBJECTS | {(KEY, "")}


def test_the_preview_reads_the_state_and_the_objects_of_stacks_but_no_data_of_builds() -> None:
    hidden = {each for each in OBJECTS if each[1].startswith(("builds/", "sources/", "state.json", "dev/mail/"))}
    assert len(hidden) == 4
    assert reads("preview") == (OBJECTS - hidden) | {(KEY, "")}


def test_no_pull_request_and_no_branch_gets_the_identity_that_decrypts() -> None:
    [provider] = [row.inputs for row in bootstrapped() if row.name == "preview-provider"]
    claims = {"repository_owner_id": "9919", "repository_id": "1296269", "environment": "preview"}
    trusted = {
        (event, ref): cel(provider["attributeCondition"], {**claims, "event_name": event, "ref": ref})
        for event in ("schedule", "push", "pull_request", "merge_group", "workflow_dispatch")
        for ref in ("refs/heads/main", "refs/heads/mine", "refs/pull/1/merge", "refs/heads/gh-readonly-queue/main/pr-1")
    }
    # The ref of a pull request is never that of a branch.
    assert {ref for (_, ref), found in trusted.items() if found} == {"refs/heads/main"}


def test_the_objects_of_stacks_are_those_that_the_components_create() -> None:
    rows = [row for each in COMPONENTS.values() for row in rows_of(each)]
    names = {row.inputs["name"] for row in rows if row.type == "gcp:storage/bucketObject:BucketObject"}
    assert len(names) == 8
    [expression] = google_permissions.names_start_with(google_permissions.OBJECTS)
    found = {name for name in names if holds(expression, Asked(f"projects/_/buckets/b/objects/{name}"))}
    assert found == names


# Permissions by which an account gets others: it changes a role or a policy, or acts as an account.
GROWS = re.compile(r"\.setIamPolicy$|^iam\.roles\.(create|undelete|update)$|\.(actAs|getAccessToken|signJwt|signBlob)$")


def test_the_preview_on_google_can_give_itself_nothing() -> None:
    assert [each for each in google.PERMISSIONS["preview"] if GROWS.search(each)] == []


def test_the_deployer_on_google_changes_no_role_and_no_policy_of_the_project() -> None:
    found = {each for each in google.PERMISSIONS["deploy"] if GROWS.search(each)}
    # The page says what remains: accounts and resources of the project.
    assert {each for each in found if each.startswith(("iam.", "resourcemanager."))} == {
        "iam.serviceAccounts.actAs",
        "iam.serviceAccounts.setIamPolicy",
    }
    assert [each for role in bootstrap_roles.ROLES.values() for each in role if GROWS.search(each)] == []


def components(*types: str, rows_of: Callable[[type[Component]], list[Row]] = rows_of) -> list[Row]:
    """What the components of stack files for Google Cloud register of some types.

    An owner deploys identities, and the endpoints of programs.
    """
    rows = [
        row
        for token, each in COMPONENTS.items()
        if token.startswith("gpu-ci:gcp:") and each not in (GithubIdentity, VertexEndpoint)
        for row in rows_of(each)
    ]
    return [row for row in rows if row.type in types]


def test_bootstrap_makes_the_roles_that_the_components_would_create() -> None:
    created = {tuple(row.inputs["permissions"]) for row in components(CUSTOM_ROLE)}
    assert created == {tuple(each) for each in bootstrap_roles.ROLES.values()}


def test_the_components_create_no_roles_and_grant_in_the_project_what_the_deployer_may_grant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(support.WIRING, "bootstrap_roles", True)
    monkeypatch.setitem(support.GKE_WIRING, "image_streaming", True)
    # The wiring is another one, so nothing that was registered before is of use.
    rows = components(CUSTOM_ROLE, PROJECT_MEMBER, rows_of=rows_of.__wrapped__)
    granted = {row.inputs["role"].replace(f"projects/{row.inputs['project']}/", "projects/acme-ci/") for row in rows}
    assert granted == set(bootstrap_roles.granted("acme-ci"))
    # The most that one condition can name.
    assert len(granted) == 10


def test_a_stack_with_bootstrap_roles_creates_and_grants_one_role_for_attestations_and_no_other() -> None:
    """Only an owner may do both: bootstrap/ makes no role for attestations."""
    config = staging_with("manager", "attested images")
    config["gpu-ci:site"]["bootstrapRoles"] = True
    rows = {row.name: row for row in run(config).rows if row.type in (CUSTOM_ROLE, PROJECT_MEMBER)}
    assert [name for name, row in rows.items() if row.type == CUSTOM_ROLE] == ["runner-attest-role"]
    allowed = bootstrap_roles.granted(config["gcp:project"])
    granted = {name: row.inputs["role"] for name, row in rows.items() if row.type == PROJECT_MEMBER}
    assert [name for name, role in granted.items() if role not in allowed] == ["runner-attest"]


ON_ACME = "projects/acme-ci/roles/gpu_ci_"
ROLE = f"{ON_ACME}deploy"
GRANTS = {
    **dict.fromkeys(["roles/logging.logWriter", f"{ON_ACME}manager_machines"], True),
    **dict.fromkeys(["roles/owner", "roles/cloudkms.admin", "roles/iam.serviceAccountTokenCreator"], False),
    **dict.fromkeys([f"{ON_ACME}deploy_grants", f"{ON_ACME}manager_state", "projects/acme-ci/roles/other"], False),
}


def google_deployer(world: World) -> of_google.Caller:
    """The deployer's account on Google Cloud, with its grants in the project."""
    rows = {row.name: row.inputs for row in bootstrapped()}
    for name, role in {"deploy-role-stack": "deploy", "deploy-grants": "deploy_grants"}.items():
        made = rows[f"{role.replace('_', '-')}-role"]
        world.insert(Record(CUSTOM_ROLE, f"{ON_ACME}{role}", role, inputs=made))
        world.insert(Record(PROJECT_MEMBER, name, name, inputs={**rows[name], "role": f"{ON_ACME}{role}"}))
    return of_google.Caller(world, "gh-deploy-stack@acme-ci.iam.gserviceaccount.com")


def test_the_deployer_on_google_grants_the_roles_of_gpu_ci_alone_and_changes_none(tmp_path: Path) -> None:
    deployer = google_deployer(World(tmp_path / "world.sqlite"))
    create = (PROJECT_MEMBER, "create", "acme-ci", "projects/acme-ci")
    assert {role: [*deployer.operation(*create, role=role)] == [] for role in GRANTS} == GRANTS
    for operation in ("create", "update", "delete"):
        denied = {str(each): each.hint for each in deployer.operation(CUSTOM_ROLE, operation, "acme-ci", ROLE)}
        [hint] = [hint for error, hint in denied.items() if f"iam.roles.{operation}" in error]
        assert "gpu-ci:site.bootstrapRoles" in hint
        assert "sign.attestor" in hint


@pytest.fixture
def deployer(tmp_path: Path) -> of_aws.Caller:
    """The deployer's role on AWS."""
    world = World(tmp_path / "world.sqlite")
    policy = {"role": "deploy", "policy": statements_of("deploy")}
    world.insert(Record(aws_types.ROLE_POLICY, "deploy:stack", "stack", inputs=policy))
    return of_aws.Caller(world, "123456789012", "deploy")


NODES, ADMIN = "l4-nodes-role-1a2b3c4", "admin"
AWS = "arn:aws:iam::aws:policy"
ATTACHMENT, ROLE, PROFILE = aws_types.ATTACHMENT, aws_types.ROLE, "aws:iam/instanceProfile:InstanceProfile"
TRUST = {"assumeRolePolicy": "EC2"}
RECIPE = "aws:imagebuilder/imageRecipe:ImageRecipe"
TRIES: dict[str, tuple[bool, str, str, dict[str, Any], str]] = {
    "a role of nodes": (True, ROLE, "create", {}, NODES),
    "its policy": (True, ATTACHMENT, "create", {"role": NODES, "policyArn": f"{AWS}/AmazonEKSWorkerNodePolicy"}, ""),
    "its description": (True, ROLE, "update", {**TRUST, "description": "x"}, NODES),
    "whom it trusts": (False, ROLE, "update", {"assumeRolePolicy": "another account"}, NODES),
    "another role": (False, ROLE, "create", {}, ADMIN),
    "the description of another role": (False, ROLE, "update", TRUST, ADMIN),
    "an administrator": (False, ATTACHMENT, "create", {"role": NODES, "policyArn": f"{AWS}/AdministratorAccess"}, ""),
    "itself": (False, ATTACHMENT, "create", {"role": "deploy", "policyArn": f"{AWS}/AmazonEKSWorkerNodePolicy"}, ""),
    "machines with a role of nodes": (True, PROFILE, "create", {"role": "x-build-role-1"}, "x-build-1"),
    "machines with another role": (False, PROFILE, "create", {"role": ADMIN}, "x-build-1"),
    "an image of AWS": (True, RECIPE, "create", {"parentImage": "ssm:/aws/service/eks/optimized-ami/image_id"}, ""),
    "a parameter of the account": (False, RECIPE, "create", {"parentImage": "ssm:/prod/database"}, ""),
    "nodes with another role": (
        False,
        aws_types.NODE_GROUP,
        "create",
        {"nodeRoleArn": f"arn:aws:iam::1:role/{ADMIN}"},
        "",
    ),
}


@pytest.mark.parametrize(("allowed", "token", "operation", "inputs", "name"), TRIES.values(), ids=TRIES)
def test_the_deployer_on_aws_gives_roles_of_stacks_their_policies_and_nothing_else(
    deployer: of_aws.Caller, allowed: bool, token: str, operation: str, inputs: dict[str, Any], name: str
) -> None:
    denied = list(deployer.operation(token, operation, inputs, name, TRUST if operation == "update" else None))
    assert (denied == []) is allowed, [each.action for each in denied]


GET_SECRET = "aws:secretsmanager/getSecretVersion:getSecretVersion"
SECRETS = "arn:aws:secretsmanager:us-east-1:123456789012:secret:"


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("github-admin-app-key", True),
        ("github-runner-app-key-AbC123", True),
        ("github-token", False),
        ("database", False),
    ],
)
def test_the_deployer_on_aws_reads_the_keys_of_apps_and_no_other_secret(
    deployer: of_aws.Caller, name: str, allowed: bool
) -> None:
    denied = [*deployer.lookup(GET_SECRET, {"secretId": f"{SECRETS}{name}"})]
    assert (denied == []) is allowed
    assert [f'"Resource":"{SECRETS}{name}"' in each.with_hint() for each in denied] == [True] * (not allowed)


def test_the_names_of_keys_that_init_chooses_are_those_that_the_deployer_reads() -> None:
    names = [each.secret for each in (ADMIN_APP, MANAGER_APP, RUNNER_APP)]
    assert [each for each in names if not fnmatchcase(each, aws_permissions.APP_KEYS)] == []


def test_the_deployer_on_aws_writes_no_policy_and_changes_no_other_iam() -> None:
    written = re.compile(r"iam:(Put|Create|Set).*Policy|iam:.*(User|Group|AccessKey|LoginProfile|SAML|OpenID)")
    assert [each for each in aws_permissions.deployer() if written.match(each)] == []


def test_the_roles_and_policies_of_stacks_are_those_that_the_deployer_may_use() -> None:
    rows = run(staging_with("ami", "efa")).rows
    roles = [f"{row.name}-1a2b3c4" for row in rows if row.type == ROLE]
    assert len(roles) == 4
    assert [each for each in roles if not any(fnmatchcase(each, form) for form in aws_permissions.ROLES)] == []
    profiles = [f"{row.name}-1a2b3c4" for row in rows if row.type == PROFILE]
    forms = aws_permissions.INSTANCE_PROFILES
    assert [any(fnmatchcase(each, form) for form in forms) for each in profiles] == [True]
    policies = {row.inputs["policyArn"].partition(":policy/")[2] for row in rows if row.type == ATTACHMENT}
    optional = {
        "AmazonEKS_CNI_Policy",
        "AmazonSSMManagedInstanceCore",
        "service-role/AmazonECSTaskExecutionRolePolicy",
    }
    assert policies | optional == set(aws_permissions.ATTACHED)
