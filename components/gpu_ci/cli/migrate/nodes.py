"""What a draft takes over for pools on clusters of every cloud: the scale sets that run on nodes of the state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpu_ci.cli.migrate.draft import Draft, Pool
from gpu_ci.cli.migrate.scale_sets import ScaleSet
from gpu_ci.cli.migrate.terraform import Resource

_DIGEST = re.compile(r".+@sha256:[0-9a-f]{64}")
_LONGEST_SET_NAME = 45
_NEW_SET = "-next"


def scale_sets_on(
    sets: Sequence[ScaleSet], name: str, labels: Any, name_label: str, *, is_only: bool
) -> Sequence[ScaleSet | None]:
    """Return the scale sets whose selector names this group of nodes, or labels that its nodes have.

    Args:
        sets: All scale sets of the state.
        name: The name of the group.
        labels: The labels of its nodes.
        name_label: The label in which nodes have the name of their group.
        is_only: True if the state has no other group of nodes. Without a match, the group then has all scale sets.

    Returns:
        The scale sets, or only None if the group has none.
    """
    known = {**(labels if isinstance(labels, Mapping) else {}), name_label: name}
    own = [
        each for each in sets if each.selector and all(known.get(key) == value for key, value in each.selector.items())
    ]
    return own or (sets if is_only else []) or [None]


def new_pool(group: Resource, scale_set: ScaleSet | None, name: str, kind: str, cloud: str) -> Pool:
    """Return a pool for a scale set on a group of nodes, or for a group without one."""
    if scale_set:
        address, was = f"{scale_set.address} on {group.address}", f"scale set on {cloud}"
        return Pool(scale_set.name, address, was, kind)
    return Pool(name or group.title, group.address, f"{cloud} node {'group' if cloud == 'EKS' else 'pool'}", kind)


def scale_sets_without_nodes(scale_sets: Iterable[ScaleSet], kind: str, unknown: Sequence[str], draft: Draft) -> None:
    """Add a pool for each scale set whose nodes are not in the state. `unknown` are the fields about the nodes."""
    for scale_set in scale_sets:
        pool = Pool(scale_set.name, scale_set.address, "scale set", kind)
        pool.missing = dict.fromkeys(unknown, "the state does not have the nodes of the scale set")
        if scale_set.max:
            pool.fields["max"] = scale_set.max
            pool.notes["max"] = "was maxRunners; here it is the number of nodes"
        else:
            pool.missing["max"] = "the scale set has no maxRunners"
        take_over_runner(pool, scale_set)
        draft.pools.append(pool)


def take_over_runner(pool: Pool, scale_set: ScaleSet | None) -> None:
    """Set the runner. Its scale set gets a name of its own, because both exist during the migration."""
    runner: dict[str, Any] = {}
    if scale_set and _DIGEST.fullmatch(scale_set.image):
        runner["image"] = scale_set.image
    else:
        was = f"{scale_set.image} has no digest" if scale_set and scale_set.image else "the state names no image"
        pool.missing["runner.image"] = f"{was}; jobs need CUDA, torch and GitHub's runner in it"
    if scale_set:
        runner["scaleSetName"] = f"{scale_set.name[: _LONGEST_SET_NAME - len(_NEW_SET)]}{_NEW_SET}"
        pool.notes["runner.scaleSetName"] = f"{scale_set.name} is free only after the old release is deleted"
        pool.runner_group = scale_set.group
        if scale_set.gpus:
            runner["gpus"] = scale_set.gpus
        if scale_set.min:
            pool.fields["minIdle"] = scale_set.min
        if scale_set.container_mode:
            pool.notes["runner.containerMode"] = f"was {scale_set.container_mode}; compare the choices in the reference"
        if scale_set.unread:
            pool.notes["Helm values"] = scale_set.unread
    if runner:
        pool.fields["runner"] = runner
