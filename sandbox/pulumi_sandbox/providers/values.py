"""The plain values hooks work with, and what JSON has no word for: unknowns, assets, references, secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_common.pulumi_wire import ARCHIVE, REFERENCE, SIGNATURE

# Stands as a secret in an imported state for one that was taken out of it, and is the same as any secret in its place.
STRIPPED = "[secret taken out of the state]"

Path = tuple[str | int, ...]
Secrets = frozenset[Path]
NO_SECRETS: Secrets = frozenset()


class Unknown:
    """A value that a preview cannot know yet. There is one, `UNKNOWN`; compare with `is`."""

    _one: Unknown | None = None

    def __new__(cls) -> Unknown:
        cls._one = cls._one or super().__new__(cls)
        return cls._one

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __copy__(self) -> Unknown:
        return self

    def __deepcopy__(self, memo: object) -> Unknown:
        return self

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, eq=False)
class Asset:
    """A file or an archive, kept as the engine sent it; equal when the contents' hashes are."""

    wire: Mapping[str, Any]

    @property
    def is_archive(self) -> bool:
        return bool(self.wire.get(SIGNATURE) == ARCHIVE)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Asset) or self.is_archive != other.is_archive:
            return False
        mine, theirs = self.wire.get("hash"), other.wire.get("hash")
        return mine == theirs if mine and theirs else self.wire == other.wire

    def __hash__(self) -> int:
        return hash(self.is_archive)


@dataclass(frozen=True)
class ResourceReference:
    """Another resource as a value. Without an id it is a component; an unknown id is `UNKNOWN`."""

    urn: str
    id: str | Unknown | None = None
    version: str = ""

    def wire(self) -> dict[str, Any]:
        known = {"packageVersion": self.version} if self.version else {}
        if self.id is not None:
            # An empty id stands for one that is not known yet.
            known["id"] = "" if isinstance(self.id, Unknown) else self.id
        return {SIGNATURE: REFERENCE, "urn": self.urn, **known}


@dataclass(frozen=True)
class Decoded:
    """Plain values, and the paths of those that are secret."""

    values: dict[str, Any]
    secrets: Secrets = NO_SECRETS


def drop_nested(paths: Collection[Path]) -> Secrets:
    """Without the paths that lie inside another one: a secret hides all that is in it."""
    return frozenset(one for one in paths if not any(one[:length] in paths for length in range(1, len(one))))


def covered(path: Path, paths: Collection[Path]) -> bool:
    """Whether a path is one of these or lies inside one."""
    return any(path[:length] in paths for length in range(1, len(path) + 1))


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value in a tree that is no list and no object, with its path."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from leaves(inner, (*path, at))
    else:
        yield path, value


_MISSING: Final = object()


def at(tree: Any, path: Path, default: Any = None) -> Any:
    """What is at a path, or the default where the path leads nowhere."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(tree, list | tuple) or not 0 <= step < len(tree):
                return default
            tree = tree[step]
        else:
            tree = tree.get(step, _MISSING) if isinstance(tree, Mapping) else _MISSING
            if tree is _MISSING:
                return default
    return tree
