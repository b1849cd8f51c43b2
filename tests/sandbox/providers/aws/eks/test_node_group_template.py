"""EKS refuses node groups with certain settings in their launch template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.aws.conftest import NODE_GROUP, TEMPLATE, Amazon, creating, refused

SUBNET = NODE_GROUP["subnetIds"][0]


@pytest.fixture
def grouped(account: Amazon) -> Callable[..., dict[str, Any]]:
    """A node group's inputs for a launch template with these changes."""

    def make(template: dict[str, Any], **group: Any) -> dict[str, Any]:
        made = account.make(types.LAUNCH_TEMPLATE, "l4", {**TEMPLATE, **template})
        return {**NODE_GROUP, "instanceTypes": None, "launchTemplate": {"id": made.id, "version": "1"}, **group}

    return make


BLOCK = {
    "instanceType": "p5.48xlarge",
    "instanceMarketOptions": {"marketType": "capacity-block"},
    "capacityReservationSpecification": {"capacityReservationTarget": {"capacityReservationId": "cr-1"}},
}
FITTING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the type in the template": ({}, {}),
    "the types in the group": ({"instanceType": None}, {"instanceTypes": ["g6.xlarge", "g5.xlarge"]}),
    "an image of one's own": ({"imageId": "ami-1"}, {"amiType": "CUSTOM"}),
    "an image of one's own, unsaid": ({"imageId": "ami-1"}, {"amiType": None}),
    "a reservation": (BLOCK, {"capacityType": "CAPACITY_BLOCK"}),
    "spot": ({}, {"capacityType": "SPOT"}),
}


@pytest.mark.parametrize(("template", "group"), FITTING.values(), ids=FITTING)
def test_a_launch_template_that_fits_is_taken(
    account: Amazon, grouped: Callable[..., dict[str, Any]], template: dict[str, Any], group: dict[str, Any]
) -> None:
    assert account.make(types.NODE_GROUP, "l4", grouped(template, **group)).id == "ci:l4"


# The template, the node group, and a part of the message.
UNFIT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a profile": ({"iamInstanceProfile": {"name": "p"}}, {}, "got: iamInstanceProfile"),
    "hibernation": ({"hibernationOptions": {"configured": True}}, {}, "got: hibernationOptions"),
    "a subnet": ({"networkInterfaces": [{"subnetId": SUBNET}]}, {}, "got: networkInterfaces[].subnetId"),
    "spot": ({"instanceMarketOptions": {"marketType": "spot"}}, {}, "set capacityType to SPOT on the node group"),
    "types twice": ({}, {"instanceTypes": ["g6.xlarge"]}, "InvalidRequestException: Cannot specify instance types in"),
    "an image twice": ({"imageId": "ami-1"}, {}, "You cannot specify an AMI Type other than CUSTOM"),
    "an image and a release": (
        {"imageId": "ami-1"},
        {"amiType": None, "releaseVersion": "1.34.2-20260714"},
        "You cannot specify a kubernetes version to use when specifying an image id",
    ),
    "custom without an image": ({}, {"amiType": "CUSTOM"}, "AMI type CUSTOM requires an image id"),
    "a block without its reservation": (
        {"instanceType": "p5.48xlarge"},
        {"capacityType": "CAPACITY_BLOCK"},
        "a launch template for CAPACITY_BLOCK must name the instance type, the market and the reservation",
    ),
    "another architecture": ({"instanceType": "g5g.xlarge"}, {}, "[g5g.xlarge] is not a valid instance type"),
    "no type anywhere, which is t3.medium": (
        {"instanceType": None},
        {"amiType": "AL2023_ARM_64_NVIDIA"},
        "[t3.medium] is not a valid instance type",
    ),
}


@pytest.mark.parametrize(("template", "group", "text"), UNFIT.values(), ids=UNFIT)
def test_a_launch_template_that_does_not_fit_is_refused(
    account: Amazon,
    grouped: Callable[..., dict[str, Any]],
    template: dict[str, Any],
    group: dict[str, Any],
    text: str,
) -> None:
    message = refused(account, types.NODE_GROUP, grouped(template, **group))
    assert message.startswith("creating EKS Node Group (ci:l4): operation error EKS: CreateNodegroup")
    assert text in message


def test_a_version_of_a_template_that_is_not_there_is_refused(
    account: Amazon, grouped: Callable[..., dict[str, Any]]
) -> None:
    inputs = grouped({})
    inputs["launchTemplate"]["version"] = "2"
    assert refused(account, types.NODE_GROUP, inputs) == creating(
        f"Could not find launch template version 2 for template {inputs['launchTemplate']['id']}."
    )
    inputs["launchTemplate"]["version"] = "$Latest"
    assert account.make(types.NODE_GROUP, "l4", inputs).id == "ci:l4"


def test_an_update_is_held_to_the_same(account: Amazon, grouped: Callable[..., dict[str, Any]]) -> None:
    group = account.make(types.NODE_GROUP, "l4", grouped({}))
    (template,) = account.world.find(types.LAUNCH_TEMPLATE)
    account.world.update(template.type, template.id, inputs={**template.inputs, "imageId": "ami-1"})
    with pytest.raises(Refused, match="You cannot specify an AMI Type other than CUSTOM"):
        account.change(group, labels={"team": "ci"})
