"""The rule that EC2 machines require a session token for their metadata service (IMDSv2)."""

from __future__ import annotations

from collections.abc import Iterator

from .properties import UNKNOWN, at, number
from .rule import Resource, Rule, RuleContext

MACHINES = {
    "aws:ec2/instance:Instance",
    "aws:ec2/launchConfiguration:LaunchConfiguration",
    "aws:ec2/launchTemplate:LaunchTemplate",
}


def imds_v1_allowed(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if not has_metadata_service(resource):
        return
    tokens = at(resource.props, "metadataOptions", "httpTokens")
    if tokens is not UNKNOWN and tokens != "required":
        yield f"metadataOptions.httpTokens is {tokens or 'not set'}, and has to be required"


def hop_limit_problems(resource: Resource, context: RuleContext) -> Iterator[str]:
    limit, allowed = at(resource.props, "metadataOptions", "httpPutResponseHopLimit"), context.settings["maxHops"]
    if not has_metadata_service(resource) or limit is UNKNOWN:
        return
    hops = number(limit)
    if hops is None:
        yield f"metadataOptions.httpPutResponseHopLimit is not set, and has to be at most {allowed:.0f}"
    elif hops > allowed:
        yield f"metadataOptions.httpPutResponseHopLimit is {hops:.0f}, and has to be at most {allowed:.0f}"


def has_metadata_service(resource: Resource) -> bool:
    """Return True if the resource is a machine whose metadata service is not disabled and not unknown."""
    endpoint = at(resource.props, "metadataOptions", "httpEndpoint")
    return resource.type in MACHINES and endpoint is not UNKNOWN and endpoint != "disabled"


SOURCE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html"

RULES = (
    Rule(
        name="imds-v2",
        title="The metadata service of an EC2 instance requires a session (IMDSv2).",
        why="Without a session, a forged request that a job sends can return the credentials of the instance.",
        fix='Set metadataOptions.httpTokens to "required".',
        sources=(SOURCE,),
        check=imds_v1_allowed,
    ),
    Rule(
        name="imds-hop-limit",
        title="Pods cannot reach the metadata service of their EC2 instance.",
        why="With two hops, every container can use the role of the instance. Without a value, the account or the "
        "image decides, and an image that requires IMDSv2 gets two hops.",
        fix="Set metadataOptions.httpPutResponseHopLimit to 1.",
        sources=(
            "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-IMDS-new-instances.html",
            "https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html",
        ),
        check=hop_limit_problems,
        settings={"maxHops": {"type": "integer", "minimum": 1, "default": 1, "description": "Maximum number of hops."}},
    ),
)
