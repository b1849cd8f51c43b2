"""What the providers bridged from Terraform have in common: how they name, and how tables say what replaces."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.diff import UPDATE, Change
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.sdk.types import Shape
from pulumi_sandbox.providers.values import Path


@dataclass(frozen=True)
class Naming:
    """How one type is named when the program leaves the name open (pulumi-terraform-bridge, AutoNameOptions)."""

    key: str = "name"
    most: int = 255
    separator: str = "-"
    lower: bool = False
    length: int = 7


def autoname(res: Resource, shape: Shape, naming: Naming | None = None) -> None:
    """Name a resource as the bridge's SetAutonaming does: an input `name` that is a text and may be left out.

    An input that the name excludes, `namePrefix`, keeps the provider from choosing one.
    """
    naming = naming or Naming()
    declared = shape.inputs.properties.get(naming.key)
    if declared is None or declared.required or declared.type.kind != "string":
        return
    if res.inputs.get(f"{naming.key}Prefix") is not None:
        return
    if naming.length:
        res.default_name(
            naming.key, separator=naming.separator, length=naming.length, most=naming.most, lower=naming.lower
        )
    else:
        res.set_default(naming.key, lambda: res.name)


def replaces(table: Mapping[str, Collection[str]], token: str, path: str) -> bool | None:
    """Whether a change at a path replaces, by a table of patterns; None when the table does not know the type."""
    patterns = table.get(token)
    if patterns is None:
        return None
    changed = paths.parse(path)
    return any(_touches(changed, paths.parse(pattern)) for pattern in patterns)


def _touches(changed: Path, pattern: Path) -> bool:
    """At the pattern, below it, or above it: a whole block that comes or goes takes its parts along."""
    return paths.inside(changed, pattern) or all(
        wanted in (paths.ANY, step) for wanted, step in zip(pattern, changed, strict=False)
    )


def elsewhere(res: Resource, name: str, here: str) -> Iterator[Change]:
    """A resource that is in another place (`project`, `region`) than the provider's configuration, where its program
    leaves that to the provider: upstream's plan fills it in, and makes the resource anew there."""
    there = res.outputs.get(name)
    if res.inputs.get(name) is None and isinstance(there, str) and there and here and there != here:
        yield Change((name,), UPDATE, there, here, replacing=True)
