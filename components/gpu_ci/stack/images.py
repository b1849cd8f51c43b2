"""Checks the image pipelines in a stack file, and finds the images that pools pin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import extras
from ..component import Component
from ..errors import Problem
from ..kinds import catalog, image_component_for, image_kind_names
from ..validation_errors import join
from . import clusters
from .entries import Family, choice_problems, kind_of, name_problems
from .hints import shape
from .pools import region_of_choices

IMAGES = "gpu-ci:images"
FAMILY = Family(
    "image pipeline",
    "runner",
    "container",
    "docs/reference/image-pipelines.md",
    image_kind_names,
    image_component_for,
)
_SHAPE = "image pipelines by name, each with a kind and the fields of that kind"


@dataclass(frozen=True)
class PipelineSpec:
    """One image pipeline of the stack file, of a known kind."""

    name: str
    kind: str
    choices: dict[str, Any]
    component: type[Component]
    known_wiring: Mapping[str, Any] = field(default_factory=dict)
    """The wiring that is known before deployment: values of the cluster of the pipeline."""

    @property
    def path(self) -> str:
        return join(IMAGES, self.name)

    @property
    def cloud(self) -> str:
        """The cloud in the component's type token."""
        return self.component.TYPE.split(":")[1]

    @property
    def regions(self) -> list[str]:
        return [self.region]

    @property
    def region(self) -> str:
        known = self.choices.get("region") or self.known_wiring.get("region")
        return region_of_choices({**self.choices, "region": known})


def needed_extras(value: Any) -> set[str]:
    """Return the extras of this package that the kinds of these pipelines need. The value may be invalid."""
    given = value.values() if isinstance(value, Mapping) else ()
    kinds = [each.get("kind") for each in given if isinstance(each, Mapping)]
    clouds = {each.cloud for each in catalog() if each.image_kind and each.image_kind in kinds}
    return {extra for cloud in clouds for extra in extras.OF_CLOUD.get(cloud, ())}


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
    needed = needed_extras(value).union(more_extras)
    known = clusters.known_wiring(described)
    for name, entry in sorted(value.items()):
        path = join(IMAGES, name)
        problems += [problem.under(path) for problem in name_problems(FAMILY, name)]
        found = kind_of(FAMILY, path, entry, problems, needed)
        if found is None:
            continue
        given = {key: each for key, each in entry.items() if key != found.key}
        cluster = given.get("clusterName")
        of_cluster = known.get(cluster, {}) if isinstance(cluster, str) else {}
        known_wiring = {key: each for key, each in of_cluster.items() if key in found.component.ARGS.WIRING}
        problems += clusters.unknown(path, given, known) if readable else []
        wrong = choice_problems(found.component, given, known_wiring)
        problems += [each.under(path) for each in wrong if found.sure or each.got != "nothing"]
        kind = next(each.image_kind for each in catalog() if each.token == found.component.TYPE)
        specs.append(PipelineSpec(name, kind, given, found.component, known_wiring))
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
