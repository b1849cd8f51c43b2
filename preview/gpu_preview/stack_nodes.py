"""A stack file of the head as YAML's nodes, which know their lines; refused before it can do harm to who reads it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

# The largest stack file one would write is a tenth of it, and PyYAML takes seconds for a megabyte.
_LARGEST_BYTES = 256 * 1024
# Aliases let a few lines stand for billions of values, and whoever reads the values would count them one by one.
_MOST_NODES = 100_000
# Of what is no number, date or map, PyYAML's constructors raise whatever int(), re and a table of theirs do.
_NO_VALUE = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


class UnfitError(Exception):
    """A file that is not to be read; the text says why, and holds none of its content."""


def fit(path: Path) -> yaml.Node | None:
    """The nodes of a plain file of moderate size; None for an empty one. UnfitError for any other, and for no YAML.

    A pull request brings the file, so it may as well be a link to something else, a pipe that never ends, or a few
    aliases that stand for more values than memory holds.
    """
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise UnfitError("is no plain file")
        if found.st_size > _LARGEST_BYTES:
            raise UnfitError(f"has {found.st_size} bytes, and no stack file has more than {_LARGEST_BYTES}")
        node = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    except OSError as error:
        raise UnfitError(f"cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UnfitError("is no YAML") from None
    except RecursionError:
        raise UnfitError("is nested without an end") from None
    if node is not None and _size(node) > _MOST_NODES:
        raise UnfitError(f"stands for more than {_MOST_NODES} values by its aliases")
    return node


def loaded(path: Path) -> Any:
    """What the file says, as maps, lists and plain values; None for an empty one. UnfitError as above."""
    node = fit(path)
    try:
        return None if node is None else SafeConstructor().construct_document(node)
    except _NO_VALUE:
        raise UnfitError("has a value that is none") from None


def children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _size(root: yaml.Node) -> int:
    """How many nodes there are with every alias written out; more than any limit where one holds itself."""
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    left = [(root, False)]
    while left:
        node, done = left.pop()
        if done:
            sizes[id(node)] = 1 + sum(sizes[id(each)] for each in children(node))
            continue
        if id(node) in sizes:
            continue
        if id(node) in entered:
            return _MOST_NODES + 1
        entered.add(id(node))
        left.append((node, True))
        left += [(each, False) for each in children(node)]
    return sizes[id(root)]
