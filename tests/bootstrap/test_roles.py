"""The roles of bootstrap/ have the permissions of what the components create, and of nothing else."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, cast

import pytest
from gpu_ci.aws.resource_names import state_backend
from gpu_ci.component import Component
from gpu_ci.gcp import bootstrap_roles, manager_permissions
from gpu_ci.github_trust import set_subject
from gpu_common import aws_permissions, google_permissions
from gpu_common.google_permissions import CREATE, DELETE, READ, RESOURCES, UPDATE
from pulumi_sandbox.providers.aws import types

from bootstrap import amazon, commands, google
from bootstrap.settings import Aws, Settings
from tests.bootstrap.stacks import WIDE
from tests.gpu_ci.harness import Row, deploy
from tests.gpu_ci.support import CALLS, COMPONENTS, COMPUTED, build

# The bootstrap program itself creates these, as an owner, and other programs the endpoint.
BY_OWNER = {
    "gcp:iam/workloadIdentityPool:WorkloadIdentityPool",
    "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider",
    "gcp:vertex/aiEndpoint:AiEndpoint",
}


pytestmark = pytest.mark.usefixtures("short_definitions")


@cache
def rows_of(component: type[Component]) -> list[Row]:
    """What a component registers for its example."""
    return deploy(lambda: build(component), computed=COMPUTED, calls=CALLS).rows


def made(cloud: str) -> set[str]:
    """The types that the components create from their examples."""
    tokens = {row.type for each in COMPONENTS.values() for row in rows_of(each)}
    return {token for token in tokens if token.startswith(f"{cloud}:")}


def test_every_type_on_google_has_its_permissions() -> None:
    assert made("gcp") - BY_OWNER - RESOURCES.keys() == set()
    # The example of the manager has no metrics, and that of an image pipeline no signature.
    assert RESOURCES.keys() - made("gcp") == {
        "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember",
        "gcp:logging/metric:Metric",
    }


def test_every_operation_reads_what_it_changes() -> None:
    for token, operations in RESOURCES.items():
        assert {CREATE, READ, DELETE} <= operations.keys() <= {CREATE, READ, UPDATE, DELETE}, token
        for operation in operations.values():
            assert set(operations[READ]) <= set(operation), token


def test_every_permission_can_be_in_a_custom_role() -> None:
    wrong = [one for one in WIDE if not re.fullmatch(r"[a-z]\w*\.\w+\.\w+", one)]
    assert wrong == []


def test_the_preview_role_only_reads_and_reads_no_secret() -> None:
    reads = google.PERMISSIONS["preview"]
    assert {one.rpartition(".")[2] for one in reads} == {"get", "getIamPolicy"}
    # The deployer reads the policies of signing keys with a role on these keys.
    assert set(reads) - set(google_permissions.deployer_on_keys()) < set(WIDE)
    assert "secretmanager.versions.access" not in reads
    assert "secretmanager.versions.access" in google.PERMISSIONS["deploy"]


def test_the_gate_and_the_manager_agree_on_the_insert_of_a_machine() -> None:
    insert = "compute.instances.insert"
    ours = set(google_permissions.CALLS[insert]) - {"iam.serviceAccounts.actAs"}
    assert ours == set(manager_permissions.MACHINES[insert])


# The schema of a tag of an Auto Scaling group is that of the group.
SCHEMAS = {
    token: target.schema
    for token, target in types.TARGETS.items()
    if token in aws_permissions.RESOURCES and token != "aws:autoscaling/tag:Tag"
}
# Actions in the schemas that no operation of this package needs: a role has no permissions boundary and no policy of
# its own, node groups have no SSH key, the service-linked roles exist (gpu-ci doctor), and image pipelines have no
# document in S3, no key for their components, no launch template, no topic, no workflow, no container recipe and no
# scan.
NOT_NEEDED = {
    "ec2:DeleteTags", "ec2:DescribeInstances", "ec2:DescribeKeyPairs", "iam:CreateServiceLinkedRole",
    "iam:DeleteRolePermissionsBoundary", "iam:PutRolePermissionsBoundary", "iam:PutRolePolicy",
    "iam:UpdateRole", "ec2:UpdateSecurityGroupRuleDescriptionsEgress", "ec2:UpdateSecurityGroupRuleDescriptionsIngress",
    "autoscaling:DescribeAutoScalingGroups", "ecr:BatchGetRepositoryScanningConfiguration",
    "imagebuilder:GetContainerRecipe", "imagebuilder:GetImage", "imagebuilder:GetWorkflow",
    "inspector2:BatchGetAccountStatus", "kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyPair",
    "kms:GenerateDataKeyPairWithoutPlaintext", "kms:GenerateDataKeyWithoutPlaintext", "s3:GetBucketLocation",
    "s3:GetObject", "s3:HeadBucket", "sns:Publish",
}  # fmt: skip


def test_every_type_on_aws_has_its_actions() -> None:
    own = {"aws:iam/openIdConnectProvider:OpenIdConnectProvider"}
    # The examples have no EFA, and no image of the user's own in a pool.
    options = ("placementGroup:", "securityGroupIngressRule:", "ec2/tag:")
    more = {token for token in aws_permissions.RESOURCES if any(each in token for each in options)}
    assert len(more) == 3
    assert made("aws") - own == aws_permissions.RESOURCES.keys() - more


def test_every_operation_on_aws_reads_what_it_changes() -> None:
    for token, operations in aws_permissions.RESOURCES.items():
        assert {CREATE, READ, DELETE} <= operations.keys() <= {CREATE, READ, UPDATE, DELETE}, token
        for operation in operations.values():
            assert set(operations[READ]) <= set(operation), token


@pytest.mark.parametrize("operation", [CREATE, DELETE])
@pytest.mark.parametrize("token", SCHEMAS)
def test_an_operation_on_aws_has_the_actions_of_its_schema(token: str, operation: str) -> None:
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # it loads sympy

    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", SCHEMAS[token]).schema["handlers"]
    granted = set(aws_permissions.deployer())
    assert set(handlers[operation]["permissions"]) - granted <= NOT_NEEDED


def test_the_preview_of_aws_only_reads() -> None:
    verbs = {re.match(r"[a-z0-9]+:(Describe|Get|List)", action) for action in amazon.ACTIONS["preview"]}
    assert None not in verbs
    assert set(amazon.ACTIONS["preview"]) < set(amazon.ACTIONS["deploy"])
    assert aws_permissions.READ_SECRET not in amazon.ACTIONS["preview"]


def test_the_deployer_changes_the_policy_of_signing_keys_only() -> None:
    assert [each for each in google_permissions.deployer() if each.startswith("cloudkms.")] == []
    key = "projects/acme-ci/locations/us-central1/keyRings/images/cryptoKeys/signer"
    rows = bootstrapped(signingKeys=[key])
    [role] = [row.inputs for row in rows if row.name == "signing-keys-role"]
    assert role["permissions"] == ["cloudkms.cryptoKeys.getIamPolicy", "cloudkms.cryptoKeys.setIamPolicy"]
    [grant] = [row.inputs for row in rows if row.name.startswith("deploy-") and row.inputs.get("cryptoKeyId") == key]
    deployer = "serviceAccount:gh-deploy-stack@acme-ci.iam.gserviceaccount.com"
    assert (grant["role"], grant["member"]) == ("projects/acme-ci/roles/gpu_ci_signing_keys", deployer)
    assert not [row for row in bootstrapped() if "signing" in row.name]


def test_the_key_is_where_cloud_kms_calls_the_location_of_the_bucket() -> None:
    rows = {row.name: row.inputs for row in bootstrapped(location="eu")}
    assert (rows["state"]["location"], rows["keys"]["location"]) == ("eu", "europe")


def test_each_environment_has_an_identity_and_the_project_one_role_and_one_bucket() -> None:
    rows = bootstrapped(deploy=[{"environment": "staging"}, {"environment": "prod"}])
    names = [row.name for row in rows]
    assert sorted(name for name in names if name.endswith("-role") and not name.startswith("api-")) == sorted(
        [
            "deploy-role",
            "preview-role",
            *(f"{name.replace('_', '-')}-role" for name in bootstrap_roles.ROLES),
            "preview-objects-role",
            "deploy-grants-role",
        ]
    )
    assert names.count("state") == 1
    conditions = {row.name: row.inputs["attributeCondition"] for row in rows if row.name.endswith("-provider")}
    assert list(conditions) == ["deploy-provider", "deploy-prod-provider", "preview-provider"]
    assert 'assertion.environment == "staging"' in conditions["deploy-provider"]
    assert 'assertion.environment == "prod"' in conditions["deploy-prod-provider"]
    # A second entry changes nothing of the first.
    alone = {row.name for row in bootstrapped(deploy={"environment": "staging"})}
    assert alone < set(names)


PROVIDER_ARN = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"


def on_aws(**changes: Any) -> list[Row]:
    return amazon_rows(settings_with(aws={"region": "us-east-1", **changes}))


def amazon_rows(settings: Settings) -> list[Row]:
    computed = {**COMPUTED, "aws:s3/bucket:Bucket": {"arn": BUCKET_ARN}, "aws:kms/key:Key": {"arn": KEY_ARN}}
    calls = {"aws:index/getCallerIdentity:getCallerIdentity": lambda _: {"accountId": "111122223333"}}
    return deploy(lambda: amazon.build(settings, cast(Aws, settings.aws)), computed=computed, calls=calls).rows


BUCKET_ARN, KEY_ARN = "arn:aws:s3:::111122223333-pulumi-state", "arn:aws:kms:us-east-1:111122223333:key/k"


def aws_alone() -> list[Row]:
    deployed = [{"environment": "staging"}, {"environment": "prod"}]
    return amazon_rows(settings_with(alone=True, aws={"region": "us-east-1"}, deploy=deployed))


def test_aws_alone_has_one_bucket_which_is_versioned_encrypted_and_closed() -> None:
    rows = {row.type.rpartition(":")[2]: row for row in aws_alone() if row.type.startswith(("aws:s3/", "aws:kms/"))}
    assert rows["Bucket"].inputs["bucket"] == "111122223333-pulumi-state"
    assert rows["BucketVersioning"].inputs["versioningConfiguration"] == {"status": "Enabled"}
    [rule] = rows["BucketServerSideEncryptionConfiguration"].inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": KEY_ARN}
    blocked = rows["BucketPublicAccessBlock"].inputs
    assert [blocked.pop("bucket"), set(blocked.values())] == ["state-id", {True}]
    [statement] = json.loads(rows["BucketPolicy"].inputs["policy"])["Statement"]
    assert (statement["Effect"], statement["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert rows["Alias"].inputs["name"] == "alias/pulumi-secrets"
    assert [row.name for row in rows.values() if row.request.retainOnDelete] == ["secrets"]
    assert rows["Key"].request.retainOnDelete
    # With a Google Cloud project, the state is there.
    assert [row.type for row in on_aws() if row.type.startswith(("aws:s3/", "aws:kms/"))] == []


def test_deployers_on_aws_alone_use_the_state_and_the_preview_decrypts_nothing() -> None:
    policies = {row.name: row.inputs["policy"] for row in aws_alone() if row.type.endswith(":RolePolicy")}
    states = {f"aws-{name}-policy-state" for name in ("deploy", "deploy-prod")}
    assert {name for name in policies if name.endswith("-state")} == states
    for name in states:
        allowed = {each["Resource"]: each["Action"] for each in json.loads(policies[name])["Statement"]}
        assert allowed == {
            BUCKET_ARN: ["s3:ListBucket"],
            f"{BUCKET_ARN}/*": ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            KEY_ARN: ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
        }
    preview = policies["aws-preview-policy-stack"]
    assert not re.search(r"kms:|s3:Put|secretsmanager:", preview)
    [objects] = [each for each in json.loads(preview)["Statement"] if "s3:GetObject" in each["Action"]]
    # Not the state, and no mail of machines.
    own = ("*/payloads/*", "*/templates/*", "*/state/configuration.json")
    assert objects["Resource"] == [f"arn:*:s3:::mailbox-*/{keys}" for keys in own]


def test_an_account_with_a_provider_for_github_keeps_it() -> None:
    new, kept = (
        [row.type.rpartition(":")[2] for row in on_aws(**changes)] for changes in ({}, {"providerArn": PROVIDER_ARN})
    )
    assert (new.count("OpenIdConnectProvider"), kept.count("OpenIdConnectProvider")) == (1, 0)
    assert new.count("Role") == kept.count("Role") == 2


def test_a_role_can_trust_githubs_own_subject() -> None:
    roles = [row.inputs for row in on_aws(subjectClaim="immutable") if row.type.endswith(":Role")]
    policies = [role["assumeRolePolicy"] for role in roles]
    assert ["repo:acme@9919/kernels@1296269:environment:prod" in each for each in policies] == [True, False]


def test_the_commands_set_the_variables_of_the_workflow_and_the_subject() -> None:
    identity = {"serviceAccount": "a@acme-ci.iam.gserviceaccount.com", "workloadIdentityProvider": "projects/1/p"}
    outputs = {"backend": "gs://b", "deploy": identity, "preview": identity, "aws": {"deploy": {"role": "arn:d"}}}
    settings = settings_with(aws={"region": "us-east-1"})
    found = [*commands.lines(settings, outputs)]
    assert found[:4] == [
        "gh variable set PULUMI_BACKEND_PROD --repo acme/kernels --body gs://b",
        "gh variable set GOOGLE_PROVIDER_PROD --repo acme/kernels --body projects/1/p",
        "gh variable set GOOGLE_SERVICE_ACCOUNT_PROD --repo acme/kernels --body a@acme-ci.iam.gserviceaccount.com",
        "gh variable set AWS_ROLE_PROD --repo acme/kernels --body arn:d",
    ]
    assert found[-1] == set_subject("acme/kernels")
    assert len(found) == 8
    immutable = settings_with(aws={"region": "us-east-1", "subjectClaim": "immutable"})
    assert set_subject("acme/kernels") not in [*commands.lines(immutable, outputs)]


def test_the_commands_of_aws_alone_quote_the_backend_and_set_nothing_of_google() -> None:
    settings = settings_with(alone=True, aws={"region": "us-east-1"})
    backend = state_backend("b", "us-east-1")
    found = [*commands.lines(settings, {"backend": backend, "aws": {"deploy": {"role": "arn:d"}}})]
    assert found[:2] == [
        f"gh variable set PULUMI_BACKEND_PROD --repo acme/kernels --body '{backend}'",
        "gh variable set AWS_ROLE_PROD --repo acme/kernels --body arn:d",
    ]
    assert not [each for each in found if "GOOGLE" in each]


def statements_of(purpose: str) -> str:
    """The policy of a role on AWS."""
    [policy] = [row.inputs["policy"] for row in on_aws() if row.name == f"aws-{purpose}-policy-stack"]
    return str(policy)


def settings_with(**changes: Any) -> Settings:
    deployed = changes.pop("deploy", {"environment": "prod"})
    github = {
        "repository": "acme/kernels",
        "ownerId": "9919",
        "repositoryId": "1296269",
        "deploy": deployed,
        "preview": {"environment": "preview"},
    }
    google = {} if changes.pop("alone", False) else {"project": "acme-ci", "location": "us-central1"}
    return Settings(**{**google, "github": github, **changes})


def bootstrapped(**changes: Any) -> list[Row]:
    """The resources of the bootstrap program."""
    settings = settings_with(**changes)
    computed = {
        **COMPUTED,
        "gcp:serviceaccount/account:Account": {"email": "gh-deploy-stack@acme-ci.iam.gserviceaccount.com"},
        "gcp:projects/iAMCustomRole:IAMCustomRole": {"name": "projects/acme-ci/roles/gpu_ci_signing_keys"},
    }
    return deploy(lambda: google.build(settings), computed=computed).rows
