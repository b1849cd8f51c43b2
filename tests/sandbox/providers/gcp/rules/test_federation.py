"""Workload identity pools: what Google takes, what it refuses, and that the id of a deleted pool stays in use."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.gcp.conftest import Google

POOL: dict[str, Any] = {"workloadIdentityPoolId": "github"}
PROVIDER: dict[str, Any] = {
    "workloadIdentityPoolId": "github",
    "workloadIdentityPoolProviderId": "actions",
    "attributeMapping": {"google.subject": "assertion.sub"},
    "attributeCondition": 'assertion.repository_owner_id == "9919"',
    "oidc": {"issuerUri": "https://token.actions.githubusercontent.com"},
}

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "three letters": (types.POOL, {"workloadIdentityPoolId": "git"}, "workloadIdentityPoolId"),
    "33 letters": (types.POOL, {"workloadIdentityPoolId": "g" * 33}, "workloadIdentityPoolId"),
    "upper case": (types.POOL, {"workloadIdentityPoolId": "GitHub"}, "workloadIdentityPoolId"),
    "a reserved id": (types.POOL, {"workloadIdentityPoolId": "gcp-github"}, "workloadIdentityPoolId"),
    "a long title": (types.POOL, {**POOL, "displayName": "g" * 33}, "displayName"),
    "a provider of one letter": (
        types.POOL_PROVIDER,
        {**PROVIDER, "workloadIdentityPoolProviderId": "a"},
        "workloadIdentityPoolProviderId",
    ),
    "no condition": (types.POOL_PROVIDER, {**PROVIDER, "attributeCondition": ""}, "attributeCondition"),
    "a condition without a claim": (
        types.POOL_PROVIDER,
        {**PROVIDER, "attributeCondition": "true"},
        "attributeCondition",
    ),
    "a long condition": (
        types.POOL_PROVIDER,
        {**PROVIDER, "attributeCondition": "assertion.ref == '" + "r" * 4096 + "'"},
        "attributeCondition",
    ),
    "no subject": (
        types.POOL_PROVIDER,
        {**PROVIDER, "attributeMapping": {"attribute.ref": "assertion.ref"}},
        "attributeMapping",
    ),
    "an attribute in upper case": (
        types.POOL_PROVIDER,
        {**PROVIDER, "attributeMapping": {"google.subject": "assertion.sub", "attribute.Ref": "assertion.ref"}},
        "attributeMapping",
    ),
}


@pytest.mark.parametrize(("token", "inputs", "path"), REFUSED.values(), ids=REFUSED)
def test_what_google_refuses_is_named(google: Google, token: str, inputs: dict[str, Any], path: str) -> None:
    [problem] = google.problems(token, inputs)
    assert problem.startswith(f"{path}: ")


@pytest.mark.parametrize(("token", "inputs"), [(types.POOL, POOL), (types.POOL_PROVIDER, PROVIDER)])
def test_what_google_takes_has_no_problem(google: Google, token: str, inputs: dict[str, Any]) -> None:
    assert list(google.problems(token, inputs)) == []


def test_another_issuer_needs_no_condition(google: Google) -> None:
    alone = {**PROVIDER, "attributeCondition": "", "oidc": {"issuerUri": "https://login.example.com"}}
    assert list(google.problems(types.POOL_PROVIDER, alone)) == []


def test_names_have_the_number_of_the_project(google: Google) -> None:
    pool = google.make(types.POOL, "pool", POOL)
    assert pool.id == "projects/ci-project/locations/global/workloadIdentityPools/github"
    number = pool.outputs["name"].split("/")[1]
    assert number.isdigit()
    provider = google.make(types.POOL_PROVIDER, "provider", PROVIDER)
    assert provider.outputs["name"] == f"{pool.outputs['name']}/providers/actions"


def test_a_provider_and_a_member_need_their_pool(google: Google) -> None:
    with pytest.raises(Refused, match="Error 404: Requested entity was not found"):
        google.make(types.POOL_PROVIDER, "provider", PROVIDER)
    number = google.make(types.POOL, "other", {"workloadIdentityPoolId": "other"}).outputs["name"].split("/")[1]
    account = google.make(types.ACCOUNT, "account", {"accountId": "deployer"})
    start = f"principalSet://iam.googleapis.com/projects/{number}/locations/global/workloadIdentityPools"
    grant = {"serviceAccountId": account.id, "role": "roles/iam.workloadIdentityUser"}
    google.make(types.ACCOUNT_MEMBER, "good", {**grant, "member": f"{start}/other/attribute.repository_id/1"})
    with pytest.raises(
        Refused, match=r"Identity Pool does not exist \(locations/global/workloadIdentityPools/github\)"
    ):
        google.make(types.ACCOUNT_MEMBER, "bad", {**grant, "member": f"{start}/github/attribute.repository_id/1"})


def test_the_id_of_a_deleted_pool_stays_in_use(google: Google) -> None:
    google.delete(google.make(types.POOL, "pool", POOL))
    with pytest.raises(Refused, match="Error 409: Requested entity already exists") as refused:
        google.make(types.POOL, "pool", POOL)
    assert "Google keeps its id for 30 days" in str(refused.value)
    google.make(types.POOL, "pool", {"workloadIdentityPoolId": "github-2"})
