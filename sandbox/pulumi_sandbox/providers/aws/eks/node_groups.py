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

from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import Record, World

INVALID, NOT_FOUND = "InvalidParameterException", "ResourceNotFoundException"
# https://github.com/sassoftware/viya4-iac-aws/issues/298
MIN_ABOVE = "minSize can't be greater than desiredSize"
# https://github.com/ministryofjustice/cloud-platform-infrastructure/pull/4595
DESIRED_ABOVE = "desiredSize can't be greater than maxSize"
# https://github.com/terraform-aws-modules/terraform-aws-eks/issues/793
NO_CLUSTER = "No cluster found for name: {}."
Sizes = dict[str, int]
SIZES = ("minSize", "desiredSize", "maxSize")


def refused(group: str, code: str, message: str, doing: str = "creating", operation: str = "CreateNodegroup") -> str:
    """Format a refusal of the API in the form of pulumi-aws."""
    return (
        f"{doing} EKS Node Group ({group}): operation error EKS: {operation}, https response error StatusCode: "
        f"{404 if code == NOT_FOUND else 400}, {code}: {message}"
    )


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


def sizes_to_send(res: Resource) -> Sizes:
    """Return the sizes that the provider sends with an update, or an empty dict if no size changed."""
    before, after = (_sizes((inputs or {}).get("scalingConfig")) for inputs in (res.old_inputs, res.inputs))
    return after if before != after else {}


def refusal(sizes: Mapping[str, int]) -> str:
    """Return EKS's refusal of these sizes, or an empty string."""
    min_size, desired_size, max_size = (sizes.get(name) for name in SIZES)
    if min_size is not None and desired_size is not None and min_size > desired_size:
        return MIN_ABOVE
    if desired_size is not None and max_size is not None and desired_size > max_size:
        return DESIRED_ABOVE
    return ""


def refusals(world: World, res: Resource) -> Iterator[str]:
    """Yield EKS's refusal of an update that changes the sizes."""
    group, sizes = world.get(res.token, res.id), sizes_to_send(res)
    if group and sizes and (problem := refusal({**current_sizes(group), **sizes})):
        yield refused(res.id, INVALID, problem, "updating", "UpdateNodegroupConfig")


def after_update(world: World, res: Resource) -> Sizes:
    """Return the sizes after an update, which the provider then reads."""
    group = world.get(res.token, res.id)
    return {**current_sizes(group), **sizes_to_send(res)} if group else {}


def set_sizes(world: World, group: Record, sizes: Mapping[str, int]) -> None:
    """Set the sizes of a group outside of a stack."""
    inputs, outputs = ({**values, "scalingConfig": dict(sizes)} for values in (group.inputs, group.outputs))
    world.update(group.type, group.id, inputs=inputs, outputs=outputs, note=f"scaled to {sizes}")


def _sizes(given: Any) -> Sizes:
    return {name: int(size) for name, size in table(given).items() if name in SIZES and isinstance(size, int | float)}
