"""no-public-ip."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN

from .support import LAUNCH_TEMPLATE, TEMPLATE, found

INSTANCE, SUBNET = "aws:ec2/instance:Instance", "aws:ec2/subnet:Subnet"


@pytest.mark.parametrize(
    ("kind", "props", "violations"),
    [
        (
            TEMPLATE,
            {"networkInterfaces": [{"subnetwork": "s"}, {"accessConfigs": [{"networkTier": "PREMIUM"}]}]},
            ["networkInterfaces[1].accessConfigs gives the machine a public address"],
        ),
        (
            "gcp:compute/instance:Instance",
            {"networkInterfaces": [{"accessConfigs": [{}], "ipv6AccessConfigs": [{"networkTier": "PREMIUM"}]}]},
            [
                "networkInterfaces[0].accessConfigs gives the machine a public address",
                "networkInterfaces[0].ipv6AccessConfigs gives the machine a public address",
            ],
        ),
        (INSTANCE, {"associatePublicIpAddress": True}, ["associatePublicIpAddress gives machines a public address"]),
        (SUBNET, {"mapPublicIpOnLaunch": True}, ["mapPublicIpOnLaunch gives machines a public address"]),
        (
            LAUNCH_TEMPLATE,
            {"networkInterfaces": [{"associatePublicIpAddress": "true"}]},
            ["networkInterfaces[0].associatePublicIpAddress gives machines a public address"],
        ),
    ],
)
def test_a_public_address_is_reported_by_its_path(kind: str, props: dict[str, Any], violations: list[str]) -> None:
    assert found("no-public-ip", kind, props) == violations


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (TEMPLATE, {"networkInterfaces": [{"subnetwork": "s"}]}),
        (TEMPLATE, {"networkInterfaces": [{"subnetwork": "s", "accessConfigs": []}]}),
        (TEMPLATE, {"networkInterfaces": UNKNOWN}),
        (TEMPLATE, {"networkInterfaces": [{"accessConfigs": UNKNOWN}]}),
        (INSTANCE, {"associatePublicIpAddress": False}),
        (INSTANCE, {"associatePublicIpAddress": UNKNOWN}),
        (SUBNET, {}),
        (LAUNCH_TEMPLATE, {"networkInterfaces": [{"associatePublicIpAddress": "false"}]}),
        ("gcp:compute/network:Network", {"networkInterfaces": [{"accessConfigs": [{}]}]}),
    ],
)
def test_a_machine_without_one_or_whose_address_is_unknown_passes(kind: str, props: dict[str, Any]) -> None:
    assert found("no-public-ip", kind, props) == []
