"""Finds the components of this package by reading its source files. A component is imported at its first use.

The kind of a pool is the value of its field `kind` in a stack file. The component of a kind is the class with this
value in `KIND`: gce-runners is RunnerPool in gcp/runner_pool.py. The same file has the fields of the kind.
The kinds of image pipelines are the values of `IMAGE_KIND`.
"""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .args import Args
    from .component import Component


@dataclass(frozen=True)
class ComponentInfo:
    """A resource class of this package: a class that sets TYPE to a text."""

    token: str
    kind: str
    module: str
    name: str
    image_kind: str = ""

    @property
    def cloud(self) -> str:
        """The cloud in the type token."""
        return self.token.split(":")[1]

    def load(self) -> type[Component]:
        """Import the class, and with it the Pulumi package of its cloud."""
        loaded: type[Component] = getattr(importlib.import_module(self.module), self.name)
        return loaded


def kind_names() -> tuple[str, ...]:
    """Return every `kind` that a stack file can use."""
    return tuple(sorted(each.kind for each in catalog() if each.kind))


def component_for(kind: str) -> type[Component]:
    """Return the component of a kind. Raise KeyError for an unknown kind."""
    return {each.kind: each for each in catalog() if each.kind}[kind].load()


def image_kind_names() -> tuple[str, ...]:
    """Return every `kind` that an image pipeline of a stack file can have."""
    return tuple(sorted(each.image_kind for each in catalog() if each.image_kind))


def image_component_for(kind: str) -> type[Component]:
    """Return the component of a kind of image pipeline. Raise KeyError for an unknown kind."""
    return {each.image_kind: each for each in catalog() if each.image_kind}[kind].load()


def args_for(kind: str) -> type[Args]:
    """Return the arguments of a kind. Raise KeyError for an unknown kind."""
    return component_for(kind).ARGS


def kinds() -> dict[str, type[Component]]:
    """Return every kind with its component. This imports the Pulumi packages of all clouds."""
    return {kind: component_for(kind) for kind in kind_names()}


@cache
def catalog() -> tuple[ComponentInfo, ...]:
    """Return every resource class of this package, sorted by its type token."""
    return components_below(Path(__file__).parent, __package__)


def components_below(folder: Path, package: str) -> tuple[ComponentInfo, ...]:
    """Return every resource class in a folder and its subfolders, sorted by its type token."""
    components = [
        ComponentInfo(
            constants["TYPE"],
            constants.get("KIND", ""),
            _module(file.relative_to(folder), package),
            node.name,
            constants.get("IMAGE_KIND", ""),
        )
        for file in folder.rglob("*.py")
        if "gpu-ci:" in (text := file.read_text(encoding="utf-8"))
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and "TYPE" in (constants := _constants(node))
    ]
    return tuple(sorted(components, key=lambda component: component.token))


def _module(file: Path, package: str) -> str:
    return ".".join((package, *file.with_suffix("").parts))


def _constants(node: ast.ClassDef) -> dict[str, str]:
    """Return the constants of a class that are literal text, such as TYPE and KIND."""
    return {
        statement.target.id: statement.value.value
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    }
