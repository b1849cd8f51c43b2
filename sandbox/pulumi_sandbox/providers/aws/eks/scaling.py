"""The effect of a node group's update on its nodes.

Sources:

- botocore 1.44.5, eks, NodegroupScalingConfig: nodes above a smaller desiredSize are terminated. An update may leave
  out any of the three sizes.
- terraform-provider-aws, internal/service/eks/node_group.go (at 012e0a32), resourceNodeGroupUpdate: a change of any
  size sends all three, and desired_size also if it is 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.aws.eks import errors
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.node_pods import POD, end_pods, node_number
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import Record, World

Sizes = dict[str, int]
SIZES = ("minSize", "desiredSize", "maxSize")
# The inputs whose change replaces the nodes of a group: resourceNodeGroupUpdate, UpdateNodegroupVersion.
VERSION = ("launchTemplate", "releaseVersion", "version")


def name_of(group: Record) -> str:
    return str(group.outputs.get("nodeGroupName"))


def current_sizes(world: World, group: Record) -> Sizes:
    """Return the sizes of a group in EKS.

    A node that was started for a pod counts in desiredSize, because the autoscaler requested it.
    """
    sizes = _sizes(group.inputs.get("scalingConfig"))
    sizes_with_pods = [number + 1 for number in _numbers_with_pods(world, name_of(group))]
    return {**sizes, "desiredSize": max(sizes.get("desiredSize", 0), *sizes_with_pods, 0)}


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
    if group and sizes and (problem := refusal({**current_sizes(world, group), **sizes})):
        yield errors.creating(res.id, errors.INVALID, problem, "updating", "UpdateNodegroupConfig")


def after_update(world: World, res: Resource) -> Sizes:
    """Return the sizes after an update, which the provider then reads."""
    group = world.get(res.token, res.id)
    return {**current_sizes(world, group), **sizes_to_send(res)} if group else {}


def apply_sizes(world: World, group: Record, sizes: Mapping[str, int], *, replace_all: bool = False) -> None:
    """Set the sizes of a group, and terminate the surplus nodes with their pods.

    With `replace_all`, all nodes are terminated. The row of the group then has the sizes that EKS would return.
    """
    remaining = 0 if replace_all else sizes.get("desiredSize", 0)
    terminate_nodes(
        world, name_of(group), [number for number in _numbers_with_pods(world, name_of(group)) if number >= remaining]
    )
    inputs, outputs = ({**values, "scalingConfig": dict(sizes)} for values in (group.inputs, group.outputs))
    world.update(group.type, group.id, inputs=inputs, outputs=outputs, note=f"scaled to {sizes}")


def updated(world: World, res: Resource) -> None:
    """Apply an update by the provider to the nodes. The row already has the new inputs."""
    group, before = world.get(res.token, res.id), res.old_inputs or {}
    if group is None:
        return
    replace_all = any(before.get(name) != res.inputs.get(name) for name in VERSION)
    apply_sizes(world, group, _sizes(res.outputs.get("scalingConfig")), replace_all=replace_all)


def terminate_nodes(world: World, group: str, numbers: Collection[int]) -> None:
    """Terminate nodes. Their pods are deleted, and the jobs of runners among them are lost."""
    pods = [row for row in world.find(POD) if node_number(row, group) in numbers]
    end_pods(world, pods, f"{group}: the node ended")


def _numbers_with_pods(world: World, group: str) -> set[int]:
    """Return the numbers of the nodes with running pods."""
    return {
        number
        for row in world.find(POD)
        if table(row.outputs.get("status")).get("phase") not in ("Succeeded", "Failed")
        and (number := node_number(row, group)) is not None
    }


def _sizes(given: Any) -> Sizes:
    return {name: int(size) for name, size in table(given).items() if name in SIZES and isinstance(size, int | float)}
