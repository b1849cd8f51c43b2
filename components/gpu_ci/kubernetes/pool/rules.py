"""The room that a node of a pool has for pods, and the checks that the runners of the pool fit on its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_catalog import Machine
from pydantic_core import InitErrorDetails

from ...errors import at_path, invalid, raise_problems
from ..scale_set import storage
from ..scale_set.args import KubernetesNovolume, RunnerChoices


@dataclass(frozen=True)
class Node:
    """The smallest node of a pool, on which every runner must fit."""

    machine: Machine
    cpus: int
    """The CPUs that all pods of the node can use."""
    memory_gib: int
    """The memory that all pods of the node can use."""
    disk_gib: int | None
    """The size of the disk with the images and the files of pods. None if the fields of the pool are invalid."""
    free_disk_gib: int | None
    """The part of the disk that all pods of the node can use."""
    type_noun: str
    """The cloud's term for a machine type, for hints."""
    larger_disk: str = "a larger diskGib"
    """What gives pods more disk, for hints."""

    @property
    def devices(self) -> int:
        """The number of devices that the device plugin advertises. A fraction of a GPU counts as one device."""
        return int(max(self.machine.gpu_count, 1))

    def runners(self, runner: RunnerChoices) -> int:
        """Return the number of runners that fit on the node, at least one."""
        return max(1, min(self.runners_by_field(runner).values()))

    def runners_by_field(self, runner: RunnerChoices) -> dict[str, int]:
        """Return the number of runners that fit, by the field of a runner that requests the resource."""
        found = {
            "gpus": self.devices // runner.gpus,
            "cpus": self.cpus // runner.cpus,
            "memoryGib": self.memory_gib // runner.memory_gib,
        }
        if self.free_disk_gib is not None:
            requested_gib = storage.requested_disk_gib(runner.ephemeral_storage_gib, runner.scratch)
            found["ephemeralStorageGib"] = self.free_disk_gib // requested_gib
        return found


def runner(value: RunnerChoices, node: Node | None, others: Mapping[str, Any]) -> RunnerChoices:
    """Return the runner settings. Raise an error if a runner does not fit on the smallest node of the pool."""
    if node is None:
        return value
    machine = node.machine
    wanted = [
        ("cpus", value.cpus, node.cpus, "CPUs"),
        ("memoryGib", value.memory_gib, node.memory_gib, "GiB"),
    ]
    problems = [
        at_path(
            invalid(
                f"is more than the {free} {unit} that {machine.machine_type} has for pods, so no runner would start",
                "too-large-for-node",
                hint=f"{key}: {free}, or a larger {node.type_noun}",
            ),
            requested,
            key,
        )
        for key, requested, free, unit in wanted
        if requested > free
    ]
    problems += _disk_problems(value, node)
    if value.gpus > machine.gpu_count >= 1:
        error = invalid(
            f"is more than the {machine.gpu_count:g} of {machine.machine_type}, so no runner would start",
            "too-large-for-node",
            hint=f"gpus: {machine.gpu_count:g}, or another {node.type_noun} with more GPUs",
        )
        problems.append(at_path(error, value.gpus, "gpus"))
    if not problems:
        problems += _cache_problems(value, node, others.get("max"))
    raise_problems(problems)
    return value


def idle_gpus(path: str, node: Node, runner: RunnerChoices) -> Iterator[str]:
    """Yield a warning if some GPUs of a node never get a job, because runners need too much of something else."""
    fit = node.runners_by_field(runner)
    field, runners = min(fit.items(), key=lambda each: each[1])
    if runners < fit["gpus"]:
        disk = field == "ephemeralStorageGib"
        larger = node.larger_disk if disk else f"another {node.type_noun}"
        smaller = f"a smaller {field}{' or scratch' if disk and runner.scratch else ''}"
        yield (
            f"{path}.runner.{field}: a node has room for {runners} of {fit['gpus']} runners, so jobs use "
            f"{runners * runner.gpus} of its {node.devices} GPUs; hint: {smaller}, or {larger}"
        )


def _disk_problems(value: RunnerChoices, node: Node) -> list[InitErrorDetails]:
    """Return the problem of a runner whose files do not fit on the disk of the node, as a list of at most one."""
    free, requested, scratch = node.free_disk_gib, value.ephemeral_storage_gib, value.scratch
    if free is None:
        return []
    limit = f"more than the {free} GiB that a disk of {node.disk_gib} GiB has for pods, so no runner would start"
    if requested > free:
        hint = f"ephemeralStorageGib: {free}, or {node.larger_disk}"
        error = invalid(f"is {limit}", "too-large-for-node", hint=hint)
        return [at_path(error, requested, "ephemeralStorageGib")]
    if scratch and requested + scratch.size_gib > free:
        error = invalid(
            f"and ephemeralStorageGib, which is {requested}, are together {limit}",
            "too-large-for-node",
            hint=f"sizeGib: {free - requested}, or {node.larger_disk}" if free > requested else node.larger_disk,
        )
        return [at_path(error, scratch.size_gib, "scratch", "sizeGib")]
    return []


def _cache_problems(value: RunnerChoices, node: Node, max_nodes: int | None) -> list[InitErrorDetails]:
    """Return the problem of a volume that all runners of the pool cannot share, as a list of at most one."""
    if max_nodes is None or node.free_disk_gib is None:
        return []  # the number of runners is not known
    why = storage.several_runners(value.cache, max_nodes * node.runners(value))
    error = invalid(why, "one-node-volume", safe_hint=storage.SEVERAL_RUNNERS_HINT)
    return [at_path(error, getattr(value.cache, "access_mode", None), "cache", "accessMode")] if why else []


def min_idle(value: int, node: Node | None, others: Mapping[str, Any]) -> int:
    """Return the number of idle runners. Raise an error if it is above the number of runners that fit on all nodes."""
    max_nodes, runner = others.get("max"), others.get("runner")
    if node is None or node.free_disk_gib is None or not max_nodes or runner is None:
        return value
    capacity = max_nodes * node.runners(runner)
    if value > capacity:
        text = f"is more than the {capacity} runners that fit on {max_nodes} nodes"
        raise invalid(text, "more-than-max", hint="lower minIdle, or raise max")
    return value


def nodes_of_check(nodes: int, others: Mapping[str, Any]) -> None:
    """Raise an error if the smoke check needs more nodes than the pool may have."""
    max_nodes = others.get("max")
    if max_nodes and nodes > max_nodes:
        error = invalid(
            f"is more than the pool's maximum of {max_nodes} nodes, so the check could never pass",
            "more-than-max",
            hint=f"nodes: {max_nodes}, which is the whole pool, or raise max",
        )
        raise_problems([at_path(error, nodes, "nodes")])


def images_to_pull(images: Sequence[str], others: Mapping[str, Any]) -> None:
    """Raise an error for an image that is listed twice, and if there is no image to pull."""
    runner = others.get("runner")
    if runner is None:
        return
    if _is_elsewhere(runner):
        if not images:
            error = invalid(
                "needs at least one image: with containerMode kubernetes-novolume, the runner's image is not used on "
                "nodes of the pool",
                "too-few",
                safe_hint="list the images of container: in workflows, or remove prePull",
            )
            raise_problems([at_path(error, images, "images")])
        return
    error = invalid("is the runner's image, which nodes pull anyway", "duplicate", safe_hint="remove it")
    raise_problems([at_path(error, each, "images", at) for at, each in enumerate(images) if each == runner.image])


def pre_pulled_images(runner: RunnerChoices, more: Sequence[str]) -> list[str]:
    """Return the images to pull: the runner's image and `more` images.

    With kubernetes-novolume, the runner's pod is not on a node of the pool. Only the smoke check uses its image there.
    """
    return [*([] if _is_elsewhere(runner) else [runner.image]), *more]


def _is_elsewhere(runner: RunnerChoices) -> bool:
    return isinstance(runner.container_mode, KubernetesNovolume)
