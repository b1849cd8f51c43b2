"""The rule that no machine has a public address."""

from __future__ import annotations

from collections.abc import Iterator

from .properties import at, boolean, entries, is_list
from .rule import Resource, Rule, RuleContext

GCP_MACHINES = {
    "gcp:compute/instance:Instance",
    "gcp:compute/instanceFromTemplate:InstanceFromTemplate",
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
}
# AWS: the path of the setting in each resource.
AWS_SWITCHES = {
    "aws:ec2/instance:Instance": "associatePublicIpAddress",
    "aws:ec2/launchConfiguration:LaunchConfiguration": "associatePublicIpAddress",
    "aws:ec2/subnet:Subnet": "mapPublicIpOnLaunch",
    "aws:ec2/defaultSubnet:DefaultSubnet": "mapPublicIpOnLaunch",
}


def public_addresses(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type in GCP_MACHINES:
        for index, interface in enumerate(entries(resource.props, "networkInterfaces")):
            for key in ("accessConfigs", "ipv6AccessConfigs"):
                found = at(interface, key)
                if is_list(found) and len(found):
                    yield f"networkInterfaces[{index}].{key} gives the machine a public address"
    switch = AWS_SWITCHES.get(resource.type, "")
    if switch and boolean(at(resource.props, switch)) is True:
        yield f"{switch} gives machines a public address"
    if resource.type == "aws:ec2/launchTemplate:LaunchTemplate":
        for index, interface in enumerate(entries(resource.props, "networkInterfaces")):
            if boolean(at(interface, "associatePublicIpAddress")) is True:
                yield f"networkInterfaces[{index}].associatePublicIpAddress gives machines a public address"


RULES = (
    Rule(
        name="no-public-ip",
        title="Machines have no public address.",
        why="A runner runs the code of any workflow author. No service on the internet needs to reach it.",
        fix="Remove accessConfigs (Google Cloud). Set associatePublicIpAddress and mapPublicIpOnLaunch to false (AWS). "
        "For outgoing connections, use a NAT gateway.",
        sources=(
            "https://docs.cloud.google.com/compute/docs/ip-addresses/configure-static-external-ip-address",
            "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-instance-addressing.html",
        ),
        check=public_addresses,
    ),
)
