"""The effect of planted faults on resources of EKS, with the messages in errors.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks import errors as eks_errors
from pulumi_sandbox.providers.aws.eks.outputs import INSTANCE_TYPE
from pulumi_sandbox.providers.aws.world import ExistingResources
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.faults import Fault


def node_group(res: Resource, existing: ExistingResources, group_id: str, region: str) -> Iterator[str]:
    """Yield the error of a fault at the launch of the first machines. A group of size 0 needs no stock and no quota."""
    if not table(res.inputs.get("scalingConfig")).get("desiredSize"):
        return
    if launch_error := launch(existing, res.name, res.inputs, group_id, region):
        yield eks_errors.failed(group_id, f"eks-{group_id.partition(':')[2]}", launch_error[1])


def launch(
    existing: ExistingResources, name: str, inputs: Mapping[str, Any], group_id: str, region: str
) -> tuple[Fault, str] | None:
    """Return the fault that applies to the launch of a node group's machine, with EC2's message, or None."""
    zones = existing.zones(inputs.get("subnetIds"), region)
    for kind in ("quota", "stockout"):
        for zone in zones or [""]:
            place = {"zone": zone} if zone else {}
            fault = existing.world.take_fault(kind, types.NODE_GROUP, name, id=group_id, **place)
            if fault is None:
                continue
            if fault.message:
                return fault, fault.message
            if kind == "quota":
                return fault, eks_errors.quota(str(inputs.get("capacityType") or "ON_DEMAND"))
            return fault, _sold_out(inputs, existing, zone, [one for one in _zones(existing, region) if one != zone])
    return None


def _sold_out(inputs: Mapping[str, Any], existing: ExistingResources, zone: str, others: list[str]) -> str:
    if inputs.get("capacityType") == "SPOT":
        return eks_errors.NO_SPOT
    template = existing.template(inputs.get("launchTemplate"))
    type_of_template = template.inputs.get("instanceType") if template else None
    types = rows(inputs.get("instanceTypes"))
    return eks_errors.sold_out(str(types[0] if types else type_of_template or INSTANCE_TYPE), zone, others)


def _zones(existing: ExistingResources, region: str) -> list[str]:
    return [str(one) for one in table(table(existing.values.get("regions")).get(region)).get("names") or []]
