"""What the GitHub identities ask Google and AWS for."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.aws import github_identity as of_aws
from gpu_ci.gcp import github_identity as of_google

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED


def aws(**changes: Any) -> Deployment:
    args = {**of_aws.GithubIdentity.EXAMPLE, **changes}
    return deploy(lambda: of_aws.GithubIdentity("deploy", of_aws.GithubIdentityArgs(**args)), computed=COMPUTED)


@pytest.mark.parametrize("name", ["a", "a" * 40])
def test_the_names_fit_googles_limits(name: str) -> None:
    args = of_google.GithubIdentityArgs(**of_google.GithubIdentity.EXAMPLE, project="example-ci")
    made = deploy(lambda: of_google.GithubIdentity(name, args), computed=COMPUTED)
    assert 4 <= len(made.one(":WorkloadIdentityPool").inputs["workloadIdentityPoolId"]) <= 32
    assert 6 <= len(made.one(":Account").inputs["accountId"]) <= 30
