"""A node group refers to other resources, which must exist."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.aws.conftest import NODE_GROUP, Amazon, listing, refused

SUBNET = NODE_GROUP["subnetIds"][0]


def test_a_node_group_of_what_is_listed_and_looked_up_comes_up(account: Amazon) -> None:
    assert account.make(types.NODE_GROUP, "l4", NODE_GROUP).id == "ci:l4"


MISSING: dict[str, tuple[str, dict[str, Any], str]] = {
    "the cluster": (types.NODE_GROUP, {**NODE_GROUP, "clusterName": "other"}, "cluster/other"),
    "a subnet": (types.NODE_GROUP, {**NODE_GROUP, "subnetIds": [SUBNET, "subnet-1"]}, "subnet-1"),
}


@pytest.mark.parametrize(("token", "inputs", "path"), MISSING.values(), ids=MISSING)
def test_what_is_missing_is_refused_with_how_to_list_it(
    account: Amazon, token: str, inputs: dict[str, Any], path: str
) -> None:
    assert refused(account, token, inputs).endswith(listing(path))


def test_an_account_has_one_provider_for_an_issuer(amazon: Amazon) -> None:
    github = {"url": "https://token.actions.githubusercontent.com", "clientIdLists": ["sts.amazonaws.com"]}
    made = amazon.make(types.OIDC_PROVIDER, "one", github)
    assert (
        made.id == made.outputs["arn"] == "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"
    )
    with pytest.raises(Refused, match=r"EntityAlreadyExists: Provider with url https://token\.actions"):
        amazon.make(types.OIDC_PROVIDER, "two", github)
