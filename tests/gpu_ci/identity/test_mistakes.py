"""What the GitHub identities of both clouds refuse, with path, problem and what to do."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from gpu_ci.args import Args
from gpu_ci.aws.github_identity import GithubIdentityArgs as OfAws
from gpu_ci.errors import ArgsError
from gpu_ci.gcp.github_identity import GithubIdentityArgs as OfGoogle

from tests.gpu_ci.support import run

GOOD: dict[str, Any] = {"purpose": "deploy", "ownerId": "9919", "repositoryId": "1296269", "environment": "production"}
GOOGLE = GOOD | {"project": "example-ci"}


@pytest.mark.parametrize(("model", "good"), [(OfGoogle, GOOGLE), (OfAws, GOOD)])
def test_what_is_good_is_taken(model: type[Args], good: dict[str, Any]) -> None:
    assert model(**good).model_dump()["events"] == ["push", "schedule", "workflow_dispatch"]
    numbers = model(**{**good, "ownerId": 9919, "repositoryId": 1296269.0}).model_dump()
    assert (numbers["owner_id"], numbers["repository_id"]) == ("9919", "1296269")


def test_a_basic_role_that_comes_later_is_named_too() -> None:
    async def settle() -> None:
        await OfGoogle(**GOOGLE, roles={"all": pulumi.Output.from_input("roles/editor")}).settle()

    with pytest.raises(ArgsError) as caught:
        run(settle())
    assert [problem.path for problem in caught.value.problems] == ["roles.all"]
