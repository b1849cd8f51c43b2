"""Chooses and validates the images that the nodes of a runner pool pull before a job needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import at_path, invalid, raise_problems
from ..kubernetes.scale_set.args import KubernetesNovolume, RunnerChoices


def pre_pulled_images(runner: RunnerChoices, more: Sequence[str]) -> list[str]:
    """Return the images to pull: the runner's image and `more` images.

    With kubernetes-novolume, the runner's pod is not on a node of the pool. Only the smoke check uses its image there.
    """
    return [*([] if _is_elsewhere(runner) else [runner.image]), *more]


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


def _is_elsewhere(runner: RunnerChoices) -> bool:
    return isinstance(runner.container_mode, KubernetesNovolume)
