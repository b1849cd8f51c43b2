"""Finds the components of this package by reading its source files. A component is imported at its first use.

The kind of a pool is the value of its field `kind` in a stack file. The component of a kind is the class with this
value in `KIND`: gce-runners is RunnerPool in kinds/gce/component.py, and args.py next to it has its fields. Another
package adds kinds with an entry point of the group `gpu_ci.kinds`, whose value is a package with components.
The kinds of image pipelines are the values of `IMAGE_KIND`. The kinds of clusters are the values of `CLUSTER_KIND` in
classes that are no components.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..component import Component
    from ..errors import ArgsError
    from ..kubernetes.cluster import Cluster


_ROOT, _PACKAGE = Path(__file__).parents[1], "gpu_ci"

_GROUP = "gpu_ci.kinds"


@dataclass(frozen=True)
class ComponentInfo:
    """A resource class of this package: a class that sets TYPE to a text."""

    token: str
    kind: str
    module: str
    name: str
    image_kind: str = ""
    on_cluster: str = ""
    """The kind of cluster that its pools or image pipelines need; empty if they need none."""
    init_options: tuple[str, ...] = ()
    """The options of `gpu-ci init` that its pools need."""

    @property
    def cloud(self) -> str:
        """The cloud in the type token."""
        return self.token.split(":")[1]

    @property
    def extras(self) -> set[str]:
        """The extras of this package that the component needs. A pool on a cluster creates Kubernetes objects."""
        return {self.cloud, "kubernetes"} if self.on_cluster else {self.cloud}

    def load(self) -> type[Component]:
        """Import the class, and with it the Pulumi package of its cloud."""
        loaded: type[Component] = getattr(importlib.import_module(self.module), self.name)
        return loaded


def kind_for(machine_cloud: str, clusters: Collection[str]) -> ComponentInfo:
    """Return the kind of pool that `gpu-ci init` writes for machines of a cloud.

    Args:
        machine_cloud: The cloud of the machine type: aws or gcp.
        clusters: The kinds of the existing clusters. A pool is on a cluster if one of them has machines of this cloud.
    """
    kinds = [each for each in catalog() if each.init_options and each.cloud == machine_cloud]
    return min(kinds, key=lambda each: 0 if each.on_cluster in clusters else 2 if each.on_cluster else 1)


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


def cluster_kind_names() -> tuple[str, ...]:
    """Return every `kind` that a cluster of a stack file can have."""
    return tuple(sorted(_clusters()))


def cluster_for(kind: str) -> type[Cluster]:
    """Return the model of a kind of cluster. Raise KeyError for an unknown kind."""
    module, name = _clusters()[kind]
    loaded: type[Cluster] = getattr(importlib.import_module(module), name)
    return loaded


@cache
def _clusters() -> dict[str, tuple[str, str]]:
    return clusters_below(_ROOT, _PACKAGE)


def kinds() -> dict[str, type[Component]]:
    """Return every kind with its component. This imports the Pulumi packages of all clouds."""
    return {kind: component_for(kind) for kind in kind_names()}


@cache
def catalog() -> tuple[ComponentInfo, ...]:
    """Return every resource class of this package and of packages that add kinds, sorted by its type token.

    Raises:
        ArgsError: an entry point names no package with components, or two components have one kind.
    """
    found = list(components_below(_ROOT, _PACKAGE))
    for entry in importlib.metadata.entry_points(group=_GROUP):
        found += _added_by(entry)
    by_kind: dict[tuple[str, str], ComponentInfo] = {}
    for each in found:
        for field, kind in (("KIND", each.kind), ("IMAGE_KIND", each.image_kind)):
            if kind and (other := by_kind.setdefault((field, kind), each)) is not each:
                expected = "each kind in one package"
                raise _error(f"{field} {kind}", "two components have it", f"{other.module}, {each.module}", expected)
    return tuple(sorted(found, key=lambda component: component.token))


def _added_by(entry: importlib.metadata.EntryPoint) -> list[ComponentInfo]:
    """Return the components of another package. Raise ArgsError if it has none."""
    try:
        spec = importlib.util.find_spec(entry.value)
    except (ImportError, ValueError):
        spec = None
    folders = spec.submodule_search_locations or () if spec else ()
    found = [each for folder in folders for each in components_below(Path(folder), entry.value)]
    if not found:
        expected = "a package with a component, which sets TYPE and KIND"
        raise _error(entry.name, "the entry point names no package with components", entry.value, expected)
    return found


def _error(path: str, text: str, got: str, expected: str) -> ArgsError:
    from ..errors import ArgsError, Problem  # loads Pulumi

    hint = f"correct or uninstall the package with this entry point of the group {_GROUP}"
    return ArgsError("gpu-ci", [Problem(path, text, got, expected, hint)])


def components_below(folder: Path, package: str) -> tuple[ComponentInfo, ...]:
    """Return every resource class in a folder and its subfolders, sorted by its type token."""
    components = [
        ComponentInfo(
            constants["TYPE"],
            constants.get("KIND", ""),
            _module(file.relative_to(folder), package),
            node.name,
            constants.get("IMAGE_KIND", ""),
            constants.get("ON_CLUSTER", ""),
            constants.get("INIT_OPTIONS", ()),
        )
        for file, node in _classes_below(folder, "gpu-ci:")
        if "TYPE" in (constants := _constants(node))
    ]
    return tuple(sorted(components, key=lambda component: component.token))


def clusters_below(folder: Path, package: str) -> dict[str, tuple[str, str]]:
    """Return module and name of the class of each kind of cluster in a folder and its subfolders."""
    return {
        constants["CLUSTER_KIND"]: (_module(file.relative_to(folder), package), node.name)
        for file, node in _classes_below(folder, "CLUSTER_KIND")
        if "CLUSTER_KIND" in (constants := _constants(node))
    }


def _classes_below(folder: Path, needed: str) -> Iterator[tuple[Path, ast.ClassDef]]:
    """Yield the classes of every file with this text. Other files are not parsed, because that takes long."""
    for file in folder.rglob("*.py"):
        if needed in (text := file.read_text(encoding="utf-8")):
            yield from ((file, node) for node in ast.parse(text).body if isinstance(node, ast.ClassDef))


def _module(file: Path, package: str) -> str:
    return ".".join((package, *file.with_suffix("").parts))


def _constants(node: ast.ClassDef) -> dict[str, Any]:
    """Return the constants of a class that are literal text or tuples, such as TYPE and INIT_OPTIONS."""
    return {
        statement.target.id: ast.literal_eval(statement.value)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.target.id.isupper()
        and isinstance(statement.value, ast.Constant | ast.Tuple)
        and not any(isinstance(part, ast.Name) for part in ast.walk(statement.value))
    }
