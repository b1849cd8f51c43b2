"""What the GitHub identities ask Google and AWS for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_ci.aws import github_identity as of_aws
from gpu_ci.gcp import github_identity as of_google

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED

POOL = "projects/123456789012/locations/global/workloadIdentityPools/gh-pool-stack"
PROVIDER = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"


def google(**changes: Any) -> Deployment:
    args = {**of_google.GithubIdentity.EXAMPLE, "project": "example-ci", **changes}
    return deploy(lambda: of_google.GithubIdentity("deploy", of_google.GithubIdentityArgs(**args)), computed=COMPUTED)


def aws(**changes: Any) -> Deployment:
    args = {**of_aws.GithubIdentity.EXAMPLE, **changes}
    return deploy(lambda: of_aws.GithubIdentity("deploy", of_aws.GithubIdentityArgs(**args)), computed=COMPUTED)


def test_google_gets_these_resources_and_no_others() -> None:
    made = google(roles={"stack": "projects/example-ci/roles/deployer", "secrets": "roles/secretmanager.viewer"})
    assert sorted(row.name for row in made.rows) == [
        "deploy",
        "deploy-account",
        "deploy-pool",
        "deploy-provider",
        "deploy-role-secrets",
        "deploy-role-stack",
        "deploy-user",
    ]
    assert made.one(":WorkloadIdentityPoolProvider").inputs == {
        "project": "example-ci",
        "workloadIdentityPoolId": "gh-deploy-stack",
        "workloadIdentityPoolProviderId": "github",
        "displayName": "GitHub Actions",
        "attributeMapping": {
            "google.subject": 'assertion.repository_id + ":" + assertion.run_id',
            "attribute.repository_id": "assertion.repository_id",
            "attribute.repository_owner_id": "assertion.repository_owner_id",
        },
        "attributeCondition": 'assertion.repository_owner_id == "9919" && assertion.repository_id == "1296269" && '
        'assertion.environment == "production" && assertion.event_name in ["push", "schedule", "workflow_dispatch"]',
        "oidc": {"issuerUri": "https://token.actions.githubusercontent.com"},
    }
    grants = {row.name: (row.inputs["role"], row.inputs["member"]) for row in made.of(":IAMMember")}
    account = "serviceAccount:gpu-l4@p.iam.gserviceaccount.com"
    assert grants == {
        "deploy-role-secrets": ("roles/secretmanager.viewer", account),
        "deploy-role-stack": ("projects/example-ci/roles/deployer", account),
        "deploy-user": (
            "roles/iam.workloadIdentityUser",
            f"principalSet://iam.googleapis.com/{POOL}/attribute.repository_id/1296269",
        ),
    }
    assert made.outputs[made.rows[0].urn] == {
        "workloadIdentityProvider": f"{POOL}/providers/github",
        "serviceAccountEmail": "gpu-l4@p.iam.gserviceaccount.com",
        "condition": made.one(":WorkloadIdentityPoolProvider").inputs["attributeCondition"],
    }


def test_an_organization_is_bound_by_the_id_of_its_owner() -> None:
    args = {name: value for name, value in of_google.GithubIdentity.EXAMPLE.items() if name != "repositoryId"}
    whole = of_google.GithubIdentityArgs(**args, project="example-ci", allowOrganization=True)
    made = deploy(lambda: of_google.GithubIdentity("deploy", whole), computed=COMPUTED)
    assert (
        made.one("serviceaccount/iAMMember:IAMMember").inputs["member"].endswith("/attribute.repository_owner_id/9919")
    )


@pytest.mark.parametrize("name", ["a", "a" * 40])
def test_the_names_fit_googles_limits(name: str) -> None:
    args = of_google.GithubIdentityArgs(**of_google.GithubIdentity.EXAMPLE, project="example-ci")
    made = deploy(lambda: of_google.GithubIdentity(name, args), computed=COMPUTED)
    assert 4 <= len(made.one(":WorkloadIdentityPool").inputs["workloadIdentityPoolId"]) <= 32
    assert 6 <= len(made.one(":Account").inputs["accountId"]) <= 30


def test_aws_gets_a_provider_and_a_role_with_its_policies() -> None:
    document = json.dumps({"Version": "2012-10-17", "Statement": []})
    made = aws(policies={"eks": document}, tags={"team": "ml"})
    assert sorted(row.name for row in made.rows) == ["deploy", "deploy-policy-eks", "deploy-provider", "deploy-role"]
    assert made.one(":OpenIdConnectProvider").inputs == {
        "url": "https://token.actions.githubusercontent.com",
        "clientIdLists": ["sts.amazonaws.com"],
        "tags": {"gpu-ci-pool": "deploy", "team": "ml"},
    }
    [statement] = json.loads(made.one(":Role").inputs["assumeRolePolicy"])["Statement"]
    prefix = "token.actions.githubusercontent.com"
    assert statement == {
        "Effect": "Allow",
        "Principal": {"Federated": PROVIDER},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {
                f"{prefix}:aud": "sts.amazonaws.com",
                f"{prefix}:repository_id": "1296269",
                f"{prefix}:environment": "production",
                f"{prefix}:sub": [
                    f"repository_owner_id:9919:repository_id:1296269:event_name:{event}"
                    for event in ("push", "schedule", "workflow_dispatch")
                ],
            }
        },
    }


@pytest.mark.parametrize(("purpose", "session_sec"), [("deploy", 7200), ("preview", None)])
def test_only_a_deployment_has_a_session_of_two_hours(purpose: str, session_sec: int | None) -> None:
    assert aws(purpose=purpose).one(":Role").inputs.get("maxSessionDuration") == session_sec


def test_a_second_identity_uses_the_accounts_provider() -> None:
    made = aws(provider_arn=PROVIDER)
    assert sorted(row.name for row in made.rows) == ["deploy", "deploy-role"]
    assert made.outputs[made.rows[0].urn]["providerArn"] == PROVIDER
