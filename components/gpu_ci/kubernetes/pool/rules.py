"""Checks that the runners of a pool fit on its nodes. The validators of RunnerPoolArgs call these functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_core import InitErrorDetails

from ...errors import at_path, invalid, raise_problems
from ..scale_set import storage
from ..scale_set.args import KubernetesNovolume, RunnerChoices
from .node import Node


def runner(
    value: RunnerChoices | Mapping[str, Any], node: Node | None, others: Mapping[str, Any]
) -> RunnerChoices | Mapping[str, Any]:
    """Return the runner settings. Raise an error if a runner does not fit on the smallest node of the pool.

    `value` is a map instead of a model if the settings have other errors.
    """
    if node is None:
        return value
    machine = node.machine
    problems = []
    for key, free, unit in (("cpus", node.cpus, "CPUs"), ("memoryGib", node.memory_gib, "GiB")):
        if (requested := _requested(value, key)) > free:
            error = invalid(
                f"is more than the {free} {unit} that {machine.machine_type} has for pods, so no runner would start",
                hint=f"{key}: {free}, or a larger {node.type_noun}",
            )
            problems.append(at_path(error, requested, key))
    problems += _disk_problems(value, node)
    if (requested := _requested(value, "gpus")) > machine.gpu_count >= 1:
        error = invalid(
            f"is more than the {machine.gpu_count:g} of {machine.machine_type}, so no runner would start",
            hint=f"gpus: {machine.gpu_count:g}, or another {node.type_noun} with more GPUs",
        )
        problems.append(at_path(error, requested, "gpus"))
    if not problems and isinstance(value, RunnerChoices):
        problems += _cache_problems(value, node, others.get("max"))
    raise_problems(problems)
    return value


def _disk_problems(value: RunnerChoices | Mapping[str, Any], node: Node) -> list[InitErrorDetails]:
    """Return the problem of a runner whose files do not fit on the disk of the node, as a list of at most one."""
    free, requested = node.free_disk_gib, _requested(value, "ephemeralStorageGib")
    if free is None:
        return []
    limit = f"more than the {free} GiB that a disk of {node.disk_gib} GiB has for pods, so no runner would start"
    if requested > free:
        error = invalid(f"is {limit}", hint=f"ephemeralStorageGib: {free}, or {node.larger_disk}")
        return [at_path(error, requested, "ephemeralStorageGib")]
    scratch = value.scratch if isinstance(value, RunnerChoices) else None
    if scratch and requested + scratch.size_gib > free:
        error = invalid(
            f"and ephemeralStorageGib, which is {requested:g}, are together {limit}",
            hint=f"sizeGib: {free - requested:g}, or {node.larger_disk}" if free > requested else node.larger_disk,
        )
        return [at_path(error, scratch.size_gib, "scratch", "sizeGib")]
    return []


def _cache_problems(value: RunnerChoices, node: Node, max_nodes: int | None) -> list[InitErrorDetails]:
    """Return the problem of a volume that all runners of the pool cannot share, as a list of at most one."""
    if max_nodes is None or node.free_disk_gib is None:
        return []  # the number of runners is not known
    why = storage.several_runners(value.cache, max_nodes * node.runners(value))
    error = invalid(why, safe_hint=storage.SEVERAL_RUNNERS_HINT)
    return [at_path(error, getattr(value.cache, "access_mode", None), "cache", "accessMode")] if why else []


def _requested(value: RunnerChoices | Mapping[str, Any], key: str) -> float:
    """Return the amount that a runner requests, or 0 for an invalid value, which is reported elsewhere."""
    name, field = next((name, each) for name, each in RunnerChoices.model_fields.items() if each.alias == key)
    found = getattr(value, name) if isinstance(value, RunnerChoices) else value.get(key, field.default)
    return found if isinstance(found, int | float) else 0


def min_idle(value: int, node: Node | None, others: Mapping[str, Any]) -> int:
    """Return the number of idle runners. Raise an error if it is above the number of runners that fit on all nodes.

    If the settings of the runner or the disk are invalid, each GPU counts as one runner.
    """
    max_nodes, runner = others.get("max"), cast("Any", others.get("runner"))
    if node is not None and max_nodes:
        is_valid = isinstance(runner, RunnerChoices) and node.free_disk_gib is not None
        capacity = max_nodes * (node.runners(runner) if is_valid else node.devices)
        if value > capacity:
            raise invalid(
                f"is more than the {capacity} runners that fit on {max_nodes} nodes", hint="lower minIdle, or raise max"
            )
    return value


def smoke(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the settings of the smoke check. Raise an error if they need more nodes than the pool may have."""
    max_nodes = others.get("max")
    nodes = value.get("nodes") if isinstance(value, Mapping) else value.nodes
    if max_nodes and isinstance(nodes, int) and nodes > max_nodes:
        error = invalid(
            f"is more than the pool's maximum of {max_nodes} nodes, so the check could never pass",
            hint=f"nodes: {max_nodes}, which is the whole pool, or raise max",
        )
        raise_problems([at_path(error, nodes, "nodes")])
    return value


def pre_pull(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the settings. Raise an error for an image that is listed twice, and if there is no image to pull.

    `value` is a map instead of a model if the settings have other errors.
    """
    runner = others.get("runner")
    if value is None or not isinstance(runner, RunnerChoices):
        return value
    images = (value.get("images") or []) if isinstance(value, Mapping) else value.images
    if _is_elsewhere(runner):
        if not images:
            error = invalid(
                "needs at least one image: with containerMode kubernetes-novolume, the runner's image is not used on "
                "nodes of the pool",
                safe_hint="list the images of container: in workflows, or remove prePull",
            )
            raise_problems([at_path(error, images, "images")])
        return value
    error = invalid("is the runner's image, which nodes pull anyway", safe_hint="remove it")
    raise_problems([at_path(error, each, "images", at) for at, each in enumerate(images) if each == runner.image])
    return value


def pre_pulled_images(runner: RunnerChoices, more: Sequence[str]) -> list[str]:
    """Return the images to pull: the runner's image and `more` images.

    With kubernetes-novolume, the runner's pod is not on a node of the pool. Only the smoke check uses its image there.
    """
    return [*([] if _is_elsewhere(runner) else [runner.image]), *more]


def _is_elsewhere(runner: RunnerChoices) -> bool:
    return isinstance(runner.container_mode, KubernetesNovolume)
