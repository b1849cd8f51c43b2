"""Functions common to the providers bridged from Terraform: automatic names, and tables of replacing changes."""

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
    """The automatic name of one type, if the program sets none (pulumi-terraform-bridge, AutoNameOptions)."""

    key: str = "name"
    most: int = 255
    separator: str = "-"
    lower: bool = False
    length: int = 7


def autoname(res: Resource, shape: Shape, naming: Naming | None = None) -> None:
    """Set an optional input `name` of type string, like the bridge's SetAutonaming.

    No name is set if the program sets `namePrefix`, which excludes `name`.
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
    """Return True if a change at a path replaces by the table of patterns, or None for a type not in the table."""
    patterns = table.get(token)
    if patterns is None:
        return None
    changed = paths.parse(path)
    return any(_touches(changed, paths.parse(pattern)) for pattern in patterns)


def _touches(changed: Path, pattern: Path) -> bool:
    """Return True if the change is at, below or above the pattern. An added or removed block includes its values."""
    return paths.inside(changed, pattern) or all(
        wanted in (paths.ANY, step) for wanted, step in zip(pattern, changed, strict=False)
    )


def elsewhere(res: Resource, name: str, here: str) -> Iterator[Change]:
    """Yield a replacing change if the provider's configuration has another place than the resource.

    `name` is `project` or `region`. If the program does not set it, the plan of the upstream provider sets it from the
    configuration and replaces the resource.
    """
    there = res.outputs.get(name)
    if res.inputs.get(name) is None and isinstance(there, str) and there and here and there != here:
        yield Change((name,), UPDATE, there, here, replacing=True)
