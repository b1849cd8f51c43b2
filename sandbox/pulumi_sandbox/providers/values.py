"""The plain values of hooks. Classes stand for values that JSON does not have: unknowns and assets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from gpu_common.pulumi_wire import ARCHIVE, SIGNATURE

# Replaces a secret that was removed from an imported state. It equals any secret at the same path.
STRIPPED = "[secret taken out of the state]"

Path = tuple[str | int, ...]
Secrets = frozenset[Path]
NO_SECRETS: Secrets = frozenset()


class Unknown(Enum):
    """A value that a preview cannot know. Its only member is `UNKNOWN`; compare with `is`."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return self.name


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True, eq=False)
class Asset:
    """A file or an archive, stored as the engine sent it. Two assets are equal if their content hashes are equal."""

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
class Decoded:
    """Plain values and the paths of the secret ones."""

    values: dict[str, Any]
    secrets: Secrets = NO_SECRETS


def drop_nested(paths: Collection[Path]) -> Secrets:
    """Drop every path below another path, because a secret includes all values in it."""
    return frozenset(one for one in paths if not any(one[:length] in paths for length in range(1, len(one))))


def is_at_or_below(path: Path, paths: Collection[Path]) -> bool:
    """Return True if a path is one of `paths` or is below one of them."""
    return any(path[:length] in paths for length in range(1, len(path) + 1))


def replaced(tree: Any, replace: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Return a tree with other values instead of some objects: those for which `replace` does not return None."""
    if isinstance(tree, Mapping):
        new = replace(tree)
        return {name: replaced(inner, replace) for name, inner in tree.items()} if new is None else new
    return [replaced(inner, replace) for inner in tree] if isinstance(tree, list) else tree


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value in a tree that is not a list or an object, with its path."""
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
    """Return the value at a path, or the default if the path does not exist."""
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
