"""The sizes of a node group, and the messages with which EKS refuses a node group.

Sources:

- botocore 1.44.5, eks, NodegroupScalingConfig: an update may leave out any of the three sizes.
- terraform-provider-aws, internal/service/eks/node_group.go (at 012e0a32), resourceNodeGroupUpdate: a change of any
  size sends all three, and desired_size also if it is 0.
- The common format of errors: https://github.com/pulumi/pulumi-eks/issues/1283. The request id is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.aws.world import ExistingResources, hint
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import Record, World

INVALID, NOT_FOUND = "InvalidParameterException", "ResourceNotFoundException"
# https://github.com/ministryofjustice/cloud-platform-infrastructure/pull/4595
DESIRED_ABOVE = "desiredSize can't be greater than maxSize"
# https://github.com/terraform-aws-modules/terraform-aws-eks/issues/793
NO_CLUSTER = "No cluster found for name: {}."
Sizes = dict[str, int]
SIZES = ("minSize", "desiredSize", "maxSize")


def refused(group: str, code: str, message: str) -> str:
    """Format a refusal of a new node group in the form of pulumi-aws."""
    return (
        f"creating EKS Node Group ({group}): operation error EKS: CreateNodegroup, https response error StatusCode: "
        f"{404 if code == NOT_FOUND else 400}, {code}: {message}"
    )


def missing_references(existing: ExistingResources, inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the refusals of a node group because of its cluster and its subnets."""
    cluster, group = text_of(inputs, "clusterName"), text_of(inputs, "nodeGroupName")
    if not existing.has_cluster(cluster):
        yield f"{refused(f'{cluster}:{group}', NOT_FOUND, NO_CLUSTER.format(cluster))}{hint(f'cluster/{cluster}')}"
    for subnet in rows(inputs.get("subnetIds")):
        if not existing.exists(subnet):
            text = f"The subnet ID '{subnet}' does not exist"
            yield f"{refused(f'{cluster}:{group}', INVALID, text)}{hint(subnet)}"


def scaling_groups(outputs: Mapping[str, Any]) -> list[str]:
    """Return the names of the Auto Scaling groups of a node group."""
    return [
        str(table(one).get("name"))
        for resource in rows(outputs.get("resources"))
        for one in rows(table(resource).get("autoscalingGroups"))
    ]


def current_sizes(group: Record) -> Sizes:
    """Return the sizes of a group in EKS."""
    return _sizes(group.outputs.get("scalingConfig"))


def after_update(world: World, res: Resource) -> Sizes:
    """Return the sizes after an update, which the provider then reads."""
    group = world.get(res.token, res.id)
    before, after = (_sizes((inputs or {}).get("scalingConfig")) for inputs in (res.old_inputs, res.inputs))
    return {**current_sizes(group), **(after if before != after else {})} if group else {}


def set_sizes(world: World, group: Record, sizes: Mapping[str, int]) -> None:
    """Set the sizes of a group outside of a stack."""
    inputs, outputs = ({**values, "scalingConfig": dict(sizes)} for values in (group.inputs, group.outputs))
    world.update(group.type, group.id, inputs=inputs, outputs=outputs, note=f"scaled to {sizes}")


def _sizes(given: Any) -> Sizes:
    return {name: int(size) for name, size in table(given).items() if name in SIZES and isinstance(size, int | float)}
