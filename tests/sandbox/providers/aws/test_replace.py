"""Changes that replace a resource: by CloudFormation's schema, or by the provider where the provider differs."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.values import Decoded

from tests.sandbox.providers.aws.conftest import Amazon

REPLACED = {
    (types.LAUNCH_TEMPLATE, "name"): True,
    (types.LAUNCH_TEMPLATE, "namePrefix"): True,
    (types.LAUNCH_TEMPLATE, "instanceType"): False,
    (types.LAUNCH_TEMPLATE, "region"): True,
    (types.SECURITY_GROUP, "description"): True,
    (types.SECURITY_GROUP, "ingress[0].fromPort"): False,
    (types.ROLE, "assumeRolePolicy"): False,
    (types.ROLE, "path"): True,
    (types.ROLE_POLICY, "policy"): False,
    (types.ROLE_POLICY, "role"): True,
    (types.POLICY, "description"): True,
    ("aws:iam/instanceProfile:InstanceProfile", "role"): False,
    # Where the provider's word counts and CloudFormation's does not.
    (types.PLACEMENT_GROUP, "tags.a"): False,
    (types.PLACEMENT_GROUP, "strategy"): True,
    (types.NODE_GROUP, "launchTemplate.id"): True,
    (types.CLUSTER, "encryptionConfig"): False,
    ("aws:autoscaling/tag:Tag", "tag.key"): True,
    ("aws:autoscaling/tag:Tag", "tag.value"): False,
}


@pytest.mark.parametrize(("token", "path"), REPLACED, ids=" ".join)
def test_a_change_replaces_what_amazon_cannot_change(amazon: Amazon, token: str, path: str) -> None:
    assert amazon.cloud.replaces(token, path) is REPLACED[token, path]


# Types that are not in the mapping.
DOCUMENTED = {
    ("aws:ec2/vpc:Vpc", "cidrBlock"): True,
    ("aws:ec2/vpc:Vpc", "enableDnsHostnames"): None,
    ("aws:ec2/vpc:Vpc", "region"): True,
    ("aws:ec2/subnet:Subnet", "availabilityZone"): True,
    ("aws:ec2/subnet:Subnet", "mapPublicIpOnLaunch"): None,
    ("aws:sqs/queue:Queue", "name"): True,
    ("aws:sqs/queue:Queue", "visibilityTimeoutSeconds"): None,
    # CloudFormation has no type of these names.
    ("aws:ec2clientvpn/endpoint:Endpoint", "namePrefix"): True,
    ("aws:s3/filesMountTarget:FilesMountTarget", "fileSystemId"): True,
    ("aws:rds/instance:Instance", "allocatedStorage"): None,
}


@pytest.mark.parametrize(("token", "path"), DOCUMENTED)
def test_a_resource_keeps_what_cloudformation_only_creates(amazon: Amazon, token: str, path: str) -> None:
    assert amazon.cloud.replaces_by_documentation(token, path) is DOCUMENTED[token, path]


def test_a_network_of_another_range_is_a_new_one(amazon: Amazon) -> None:
    before, after = (
        {"cidrBlock": each, "enableDnsHostnames": each[3] == "0"} for each in ("10.0.0.0/16", "10.1.0.0/16")
    )
    res = amazon.resource("aws:ec2/vpc:Vpc", "one", after, old_inputs=before)
    changes, _ = amazon.lifecycle.diff(res, Decoded(before), [])
    assert {each.text: amazon.lifecycle.replaces(res, each.text) for each in changes} == {
        "cidrBlock": True,
        "enableDnsHostnames": None,
    }


def moved(amazon: Amazon, token: str, config: dict[str, Any]) -> list[tuple[str, Any, Any, bool]]:
    """Return the changes of a resource without a region after a change of the provider's region."""
    made = amazon.make(token, "one", {})
    amazon.config.update(config)
    after = amazon.resource(token, "one", made.inputs, old_inputs=made.inputs, outputs=made.outputs, id=made.id)
    changes, _ = amazon.lifecycle.diff(after, Decoded(made.inputs), [])
    return [(one.text, one.old, one.new, one.replacing) for one in changes]


def test_another_region_of_the_provider_makes_what_lies_in_it_anew(amazon: Amazon) -> None:
    here = amazon.config["region"]
    assert moved(amazon, "aws:sqs/queue:Queue", {"region": "eu-west-3"}) == [("region", here, "eu-west-3", True)]
