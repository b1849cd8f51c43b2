"""Checks the image pipelines in a stack file, and finds the images that pools pin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import Problem
from ..kinds import image_component_for, image_kind_names
from ..validation_errors import join
from . import clusters
from .entries import Family, Spec, check_entry, needed_extras
from .hints import shape

IMAGES = "gpu-ci:images"
FAMILY = Family(
    IMAGES,
    "image pipeline",
    "runner",
    "container",
    "docs/reference/image-pipelines.md",
    image_kind_names,
    image_component_for,
    lambda info: info.image_kind,
)
_SHAPE = "image pipelines by name, each with a kind and the fields of that kind"


@dataclass(frozen=True)
class PipelineSpec(Spec):
    """One image pipeline of the stack file, of a known kind."""

    @property
    def path(self) -> str:
        return join(IMAGES, self.name)

    @property
    def regions(self) -> list[str]:
        return [self.region]


def check(
    value: Any, described: Any = None, readable: bool = True, more_extras: Collection[str] = ()
) -> tuple[list[PipelineSpec], list[Problem]]:
    """Return every pipeline of a known kind, and every problem, sorted by the names of the pipelines.

    Args:
        value: The value of gpu-ci:images.
        described: The value of gpu-ci:clusters. It may be invalid.
        readable: False if gpu-ci:clusters cannot be read, because it is secret.
        more_extras: The extras that other keys of the stack need, for the hint of a missing package.
    """
    if value is None:
        return [], []
    if not isinstance(value, Mapping):
        example = f"{FAMILY.example_name}: {{kind: {FAMILY.example_kind}, …}}"
        hint = f"{'write each pipeline under its name, ' if isinstance(value, list) else ''}such as {example}"
        return [], [Problem(IMAGES, "must be a map", shape(value), _SHAPE, hint)]
    specs: list[PipelineSpec] = []
    problems: list[Problem] = []
    needed = needed_extras(FAMILY, value).union(more_extras)
    known = clusters.known(described)
    for name, entry in sorted(value.items()):
        spec = check_entry(FAMILY, PipelineSpec, name, entry, problems, needed, known, readable)
        if spec is not None:
            specs.append(spec)
    return specs, problems


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
