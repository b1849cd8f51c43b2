"""Valid arguments of the GitHub identities of both clouds. tests/mistakes has the invalid ones."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.args import Args
from gpu_ci.aws.github_identity import GithubIdentityArgs as OfAws
from gpu_ci.gcp.github_identity import GithubIdentityArgs as OfGoogle

GOOD: dict[str, Any] = {"purpose": "deploy", "ownerId": "9919", "repositoryId": "1296269", "environment": "production"}
GOOGLE = GOOD | {"project": "example-ci"}


@pytest.mark.parametrize(("model", "good"), [(OfGoogle, GOOGLE), (OfAws, GOOD)])
def test_what_is_good_is_taken(model: type[Args], good: dict[str, Any]) -> None:
    assert model(**good).model_dump()["events"] == ["push", "schedule", "workflow_dispatch"]
    numbers = model(**{**good, "ownerId": 9919, "repositoryId": 1296269.0}).model_dump()
    assert (numbers["owner_id"], numbers["repository_id"]) == ("9919", "1296269")
