"""EKS's rules for the launch template of a node group.

Sources of the rules:

- docs.aws.amazon.com/eks/latest/userguide/launch-templates.html ("Launch template configuration basics"),
- botocore's service model of EKS (CreateNodegroupRequest, LaunchTemplateSpecification),
- for reservations: docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html.

The message of FORBIDDEN is quoted from these documents. The other messages are our own, unless a comment
names a source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.aws.ec2 import instance_types
from pulumi_sandbox.providers.aws.eks import errors as eks_errors
from pulumi_sandbox.providers.aws.eks.node_group_rules import architectures
from pulumi_sandbox.providers.inputs import rows, table

Inputs = dict[str, Any]
FORBIDDEN = (
    "The launch template can't include SubnetId, IamInstanceProfile, RequestSpotInstances, HibernationOptions, or "
    "TerminateInstances, or the node group deployment or update will fail."
)


def refusals(group: Inputs, template: Inputs) -> Iterator[tuple[str, str]]:
    """Yield the code and message of each refusal."""
    for name in forbidden(template):
        yield eks_errors.INVALID, f"{FORBIDDEN}\n  got: {name}"
    if template.get("vpcSecurityGroupIds") and template.get("networkInterfaces"):
        # EC2's message (RunInstances, InvalidParameterCombination).
        text = "Network interfaces and an instance-level security groups may not be specified on the same request"
        yield eks_errors.REFUSED, text
    if template.get("instanceType") and group.get("instanceTypes"):
        yield eks_errors.REFUSED, eks_errors.TYPES_TWICE
    if template.get("imageId"):
        if group.get("amiType") not in (None, "", "CUSTOM"):
            yield eks_errors.INVALID, eks_errors.AMI_TWICE
        if group.get("version") or group.get("releaseVersion"):
            yield eks_errors.INVALID, eks_errors.VERSION_TWICE
    elif group.get("amiType") == "CUSTOM":
        # The message is our own. Source of the rule: botocore, AMITypes.
        yield eks_errors.INVALID, "AMI type CUSTOM requires an image id in the launch template"
    yield from capacity(group, template)
    yield from machines(group, template)


def forbidden(template: Inputs) -> Iterator[str]:
    if template.get("iamInstanceProfile"):
        yield "iamInstanceProfile"
    if table(template.get("hibernationOptions")).get("configured"):
        yield "hibernationOptions"
    if any(table(row).get("subnetId") for row in rows(template.get("networkInterfaces"))):
        yield "networkInterfaces[].subnetId"
    if table(template.get("instanceMarketOptions")).get("marketType") == "spot":
        yield "instanceMarketOptions.marketType spot; set capacityType to SPOT on the node group"


def capacity(group: Inputs, template: Inputs) -> Iterator[tuple[str, str]]:
    is_block = group.get("capacityType") == "CAPACITY_BLOCK"
    market = table(template.get("instanceMarketOptions")).get("marketType")
    target = table(table(template.get("capacityReservationSpecification")).get("capacityReservationTarget"))
    if is_block:
        needed = {
            "instanceType": template.get("instanceType"),
            'instanceMarketOptions.marketType "capacity-block"': market == "capacity-block",
            "capacityReservationSpecification.capacityReservationTarget.capacityReservationId": target.get(
                "capacityReservationId"
            ),
        }
        if missing := [name for name, value in needed.items() if not value]:
            text = "a launch template for CAPACITY_BLOCK must name the instance type, the market and the reservation"
            yield eks_errors.INVALID, f"{text}\n  got: no {', no '.join(missing)}"
    elif market == "capacity-block":
        capacity_type = group.get("capacityType") or "ON_DEMAND"
        text = f"the launch template is for a Capacity Block, but capacityType is {capacity_type}"
        yield eks_errors.INVALID, f"{text}\n  expected: CAPACITY_BLOCK"


def machines(group: Inputs, template: Inputs) -> Iterator[tuple[str, str]]:
    name = template.get("instanceType")
    if not isinstance(name, str) or not name:
        name = (
            instance_types.DEFAULT
            if not group.get("instanceTypes") and not template.get("instanceRequirements")
            else ""
        )
    if not name:
        return
    for problem in architectures([name], group.get("amiType"), "instanceType"):
        yield eks_errors.INVALID, problem.text
    for problem in instance_types.check_market(name, str(group.get("capacityType") or "ON_DEMAND"), "instanceType"):
        yield eks_errors.INVALID, problem.text
