"""Checks the image pipelines in a stack file, and finds the images that pools pin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..kinds import image_component_for, image_kind_names
from .entries import Family

IMAGES = "gpu-ci:images"
FAMILY = Family(
    IMAGES,
    "image pipeline",
    "runner",
    "container",
    "docs/reference/image-pipelines.md",
    image_kind_names,
    image_component_for,
)


def pinned(
    pools: Iterable[tuple[str, Any]], fields: Collection[tuple[str, ...]]
) -> dict[tuple[str, tuple[str, ...]], str]:
    """Return the texts of these fields, by pool and keys below the pool. The values of pools may be invalid."""
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for name, pool in pools:
        for keys in fields:
            value: Any = pool
            for key in keys:
                value = value.get(key) if isinstance(value, Mapping) else None
            if isinstance(value, str):
                found[str(name), keys] = value
    return found
