"""Finds the components of this package by reading its source files. A component is imported at its first use.

The kind of a pool is the value of its field `kind` in a stack file. Each folder here is one kind: kind.py has the
`PoolKind`, args.py the fields, and component.py the component. Another package adds a kind with an entry point of the
group `gpu_ci.kinds`, whose value is such an object: `toy = "toy_pools.kind:KIND"`.
The kinds of image pipelines are the values of `IMAGE_KIND`. The kinds of clusters are the values of `CLUSTER_KIND` in
classes that are no components.
"""

from __future__ import annotations

import ast
import importlib.metadata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..extras import EXTRA_OF
from ..pool_kind import PoolKind

if TYPE_CHECKING:
    from ..component import Component
    from ..errors import ArgsError
    from ..kubernetes.cluster import Cluster

_HERE = Path(__file__).parent
_ROOT, _PACKAGE = _HERE.parent, "gpu_ci"

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
        own = {self.cloud} & set(EXTRA_OF.values())  # a rented machine needs the cloud of its mailbox
        return own | {"kubernetes"} if self.on_cluster else own

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


@cache
def pool_kinds() -> dict[str, PoolKind]:
    """Return every kind of pool by its name, of this package and of others, sorted.

    Raises:
        ArgsError: an entry point names no kind, or two packages have one kind.
    """
    own = [importlib.import_module(f"{__name__}.{file.parent.name}.kind").KIND for file in _HERE.glob("*/kind.py")]
    others = [_kind_of(entry) for entry in importlib.metadata.entry_points(group=_GROUP)]
    found: dict[str, PoolKind] = {}
    for kind in sorted([*own, *others], key=lambda kind: str(kind.name)):
        if (other := found.setdefault(kind.name, kind)) is not kind:
            packages = f"{other.package}, {kind.package}"
            raise _error(f"kind {kind.name}", "two packages have it", packages, "each kind in one package")
    return found


def kind_names() -> tuple[str, ...]:
    """Return every `kind` that a stack file can use."""
    return tuple(pool_kinds())


def component_for(kind: str) -> type[Component]:
    """Return the component of a kind. Raise KeyError for an unknown kind."""
    return pool_kinds()[kind].component


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
    """Return every resource class of this package and of packages that add some, sorted by its type token."""
    pools = [
        ComponentInfo(
            kind.resource_type,
            kind.name,
            f"{kind.package}.component",
            kind.resource_type.rpartition(":")[2],
            on_cluster=kind.on_cluster,
            init_options=kind.init_options,
        )
        for kind in pool_kinds().values()
    ]
    found = [*pools, *components_below(_ROOT, _PACKAGE)]
    for entry in importlib.metadata.entry_points(group="gpu_ci.components"):
        spec = importlib.util.find_spec(entry.value)
        for folder in spec.submodule_search_locations or () if spec else ():
            found += components_below(Path(folder), entry.value)
    return tuple(sorted(found, key=lambda component: component.token))


def _kind_of(entry: importlib.metadata.EntryPoint) -> PoolKind:
    """Return the kind of another package. Raise ArgsError if there is none."""
    cause = ""
    try:
        kind = entry.load()
    except (ImportError, AttributeError, ValueError) as error:
        kind, cause = None, f": {error}"
    if not isinstance(kind, PoolKind):
        expected = "a PoolKind, such as `acme_pools.kind:KIND`"
        raise _error(entry.name, "the entry point names no kind of pool", f"{entry.value}{cause}", expected)
    return kind


def _error(path: str, text: str, got: str, expected: str) -> ArgsError:
    from ..errors import ArgsError, Problem  # loads Pulumi

    hint = f"correct or uninstall the package with this entry point of the group {_GROUP}"
    return ArgsError("gpu-ci", [Problem(path, text, got, expected, hint)])


def components_below(folder: Path, package: str) -> tuple[ComponentInfo, ...]:
    """Return every resource class with a literal TYPE in a folder and its subfolders, sorted by its type token."""
    components = [
        ComponentInfo(
            constants["TYPE"],
            "",
            _module(file.relative_to(folder), package),
            node.name,
            constants.get("IMAGE_KIND", ""),
            constants.get("ON_CLUSTER", ""),
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


def _constants(node: ast.ClassDef) -> dict[str, str]:
    """Return the constants of a class that are literal text, such as TYPE."""
    return {
        statement.target.id: statement.value.value
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.target.id.isupper()
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    }
