"""The sizes of a node group after an update.

Sources:

- botocore 1.44.5, eks, NodegroupScalingConfig: an update may leave out any of the three sizes.
- terraform-provider-aws, internal/service/eks/node_group.go (at 012e0a32), resourceNodeGroupUpdate: a change of any
  size sends all three, and desired_size also if it is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.aws.eks import errors
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import Record, World

Sizes = dict[str, int]
SIZES = ("minSize", "desiredSize", "maxSize")


def name_of(group: Record) -> str:
    return str(group.outputs.get("nodeGroupName"))


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
        return errors.MIN_ABOVE
    if desired_size is not None and max_size is not None and desired_size > max_size:
        return errors.DESIRED_ABOVE
    return ""


def refusals(world: World, res: Resource) -> Iterator[str]:
    """Yield EKS's refusal of an update that changes the sizes."""
    group, sizes = world.get(res.token, res.id), sizes_to_send(res)
    if group and sizes and (problem := refusal({**current_sizes(group), **sizes})):
        yield errors.creating(res.id, errors.INVALID, problem, "updating", "UpdateNodegroupConfig")


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
