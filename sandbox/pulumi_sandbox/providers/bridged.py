"""Functions of the bridged providers (gcp, aws, github): automatic names, and tables of replacing changes.

A *bridged* provider is a Terraform provider that pulumi-terraform-bridge converts. *Upstream* means that Terraform
provider.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_common.suggest import closest

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.diff import UPDATE, Change
from pulumi_sandbox.providers.resource import Problem, Resource
from pulumi_sandbox.providers.sdk.types import Shape
from pulumi_sandbox.providers.values import Path

# The number of allowed values that a message lists.
CHOICES_SHOWN = 30


@dataclass(frozen=True)
class Naming:
    """The automatic name of one type, if the program sets none (pulumi-terraform-bridge, AutoNameOptions)."""

    key: str = "name"
    max_length: int = 255
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
            naming.key,
            separator=naming.separator,
            length=naming.length,
            max_length=naming.max_length,
            lower=naming.lower,
        )
    else:
        res.set_default(naming.key, lambda: res.name)


def replaces(table: Mapping[str, Collection[str]], token: str, path: str) -> bool | None:
    """Return True if a table of patterns says that a change at a path replaces, or None for a type not in the table."""
    patterns = table.get(token)
    if patterns is None:
        return None
    changed_path = paths.parse(path)
    return any(_affects(changed_path, paths.parse(pattern)) for pattern in patterns)


def _affects(changed: Path, pattern: Path) -> bool:
    """Return True if the change is at, below or above the pattern. An added or removed block includes its values."""
    return paths.inside(changed, pattern) or all(
        wanted in (paths.ANY, step) for wanted, step in zip(pattern, changed, strict=False)
    )


def location_changes(res: Resource, name: str, configured: str) -> Iterator[Change]:
    """Yield a replacing change if the provider is now configured for another project, region or zone than the resource.

    `name` is `project`, `region` or `zone`. `configured` is its value in the provider's configuration. If the program
    does not set the input, the upstream provider takes the configured value, and replaces the resource.
    """
    stored = res.outputs.get(name)
    if res.inputs.get(name) is None and isinstance(stored, str) and stored and configured and stored != configured:
        yield Change((name,), UPDATE, stored, configured, replacing=True)


def not_one_of(path: str, name: str, value: Any, allowed: Iterable[str]) -> Problem:
    """Return a problem with the message of the Terraform SDK (validation.StringInSlice)."""
    choices = list(allowed)
    similar = closest(str(value).lower(), [one.lower() for one in choices])
    suggestion = next((one for one in choices if one.lower() == similar), "")
    quoted = " ".join(f'"{one}"' for one in choices[:CHOICES_SHOWN])
    quoted += f" and {len(choices) - CHOICES_SHOWN} more" if choices[CHOICES_SHOWN:] else ""
    hint = f"did you mean {suggestion}?" if suggestion else ""
    return Problem(path, f"expected {name} to be one of [{quoted}], got {value}", hint)
