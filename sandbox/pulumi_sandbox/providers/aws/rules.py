"""The rules of each type beyond AWS's schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.aws import iam_schema, types
from pulumi_sandbox.providers.aws.ec2 import instance_types
from pulumi_sandbox.providers.aws.eks import node_group_rules
from pulumi_sandbox.providers.aws.imagebuilder import component_document
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem

MARKETS = {"spot": "SPOT", "capacity-block": "CAPACITY_BLOCK", "on-demand": "ON_DEMAND"}


def rules(token: str, inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    """Check the rules of AWS or its provider that are in no schema."""
    yield from iam_schema.problems(token, inputs)
    match token:
        case types.NODE_GROUP:
            yield from node_group_rules.node_group(inputs, region)
        case types.LAUNCH_TEMPLATE:
            yield from _launch_template(inputs, region)
        case types.IMAGE_COMPONENT:
            yield from component_document.problems(inputs)


def _launch_template(inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    """Check the machine of a launch template."""
    name, market = inputs.get("instanceType"), table(inputs.get("instanceMarketOptions")).get("marketType")
    if not isinstance(name, str) or not name:
        return
    if not instance_types.is_offered_in(name, region):
        # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3648
        text = f"The specified instance type {name} is not valid"
        yield Problem("instanceType", text, instance_types.availability_hint(name, region))
    if market in MARKETS:
        yield from instance_types.check_market(name, MARKETS[market], "instanceType")
    machine = instance_types.offer(name)
    efas = sum(str(table(row).get("interfaceType")).startswith("efa") for row in rows(inputs.get("networkInterfaces")))
    if machine and "efa_interfaces" not in machine.uncertain and efas > machine.efa_interfaces:
        # docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html; gpu_catalog
        yield Problem("networkInterfaces", f"{name} has {machine.efa_interfaces} EFA interfaces, got {efas}")
