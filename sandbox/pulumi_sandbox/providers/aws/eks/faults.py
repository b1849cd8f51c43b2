"""The effect of planted faults on resources of EKS, with the messages in errors.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.ec2 import instance_types
from pulumi_sandbox.providers.aws.eks import errors as eks_errors
from pulumi_sandbox.providers.aws.world import CloudContext
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.faults import Fault


def node_group(res: Resource, around: CloudContext, identity: str, region: str) -> Iterator[str]:
    """Yield the error of a fault at the launch of the first machines. A group of size 0 needs no stock and no quota."""
    if not table(res.inputs.get("scalingConfig")).get("desiredSize"):
        return
    if met := launch(around, res.name, res.inputs, identity, region):
        yield eks_errors.failed(identity, f"eks-{identity.partition(':')[2]}", met[1])


def launch(
    around: CloudContext, name: str, inputs: Mapping[str, Any], identity: str, region: str
) -> tuple[Fault, str] | None:
    """Return the fault that applies to the launch of a node group's machine, with EC2's message, or None."""
    zones = around.zones(inputs.get("subnetIds"), region)
    for kind in ("quota", "stockout"):
        for zone in zones or [""]:
            place = {"zone": zone} if zone else {}
            fault = around.world.take_fault(kind, types.NODE_GROUP, name, id=identity, **place)
            if fault is None:
                continue
            if fault.message:
                return fault, fault.message
            if kind == "quota":
                return fault, eks_errors.quota(str(inputs.get("capacityType") or "ON_DEMAND"))
            return fault, _sold_out(inputs, around, zone, [one for one in _zones(around, region) if one != zone])
    return None


def _sold_out(inputs: Mapping[str, Any], around: CloudContext, zone: str, others: list[str]) -> str:
    if inputs.get("capacityType") == "SPOT":
        return eks_errors.NO_SPOT
    template = around.template(inputs.get("launchTemplate"))
    held = template.inputs.get("instanceType") if template else None
    given = rows(inputs.get("instanceTypes"))
    return eks_errors.sold_out(str(given[0] if given else held or instance_types.DEFAULT), zone, others)


def _zones(around: CloudContext, region: str) -> list[str]:
    return [str(one) for one in table(table(around.values.get("regions")).get(region)).get("names") or []]


def text(fault: Fault, res: Resource) -> str:
    """Return the message for the delete of a busy node group, or an empty string for any other fault."""
    if res.token == types.NODE_GROUP and fault.kind == "busy":
        refusal = "ResourceInUseException: Nodegroup cannot be deleted while it is being updated (a planted fault)"
        return f"deleting EKS Node Group ({res.id}): operation error EKS: DeleteNodegroup, {refusal}"
    return ""
