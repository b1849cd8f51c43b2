"""A stack file of the head as YAML's nodes, which know their lines; refused before it can do harm to who reads it."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

# The largest stack file one would write is a tenth of it, and PyYAML takes seconds for a megabyte.
_LARGEST_BYTES = 256 * 1024
# Aliases let a few lines stand for billions of values, and whoever reads the values would count them one by one.
_MOST_NODES = 100_000
# Of a number's digits Python makes one number in a time that grows with their square, and no text beyond 4,300 of them.
_LONGEST_NUMBER = 256
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
# Half a character of UTF-16, which no UTF-8 holds, and the end of a text to whatever is written in C.
_NO_TEXT = re.compile("[\\ud800-\\udfff\\0]")
# Of what is no number, date or map, PyYAML's constructors raise whatever int(), re and a table of theirs do.
_NO_VALUE = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


class InvalidStackFileError(Exception):
    """A file that is not to be read; the text says why, and holds none of its content."""


def compose(path: Path) -> yaml.Node | None:
    """The nodes of a plain file of moderate size; None for an empty one, InvalidStackFileError for any other file.

    A pull request brings the file, so it may as well be a link to something else, a pipe that never ends, or a few
    aliases that stand for more values than memory holds. Nobody may change the nodes: who asks next gets the same.
    """
    return _nodes(_text(path))


def editable(path: Path) -> yaml.Node | None:
    """The same, in nodes that the caller may change."""
    return _composed(_text(path))


def loaded(path: Path) -> Any:
    """What the file says, as maps, lists and plain values; None for an empty one. InvalidStackFileError as above."""
    node = _composed(_text(path))  # nodes of its own, because PyYAML writes what `<<` stands for into them
    try:
        return None if node is None else SafeConstructor().construct_document(node)
    except _NO_VALUE:
        raise InvalidStackFileError("has a value that is none") from None


def _text(path: Path) -> str:
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise InvalidStackFileError("is no plain file")
        if found.st_size > _LARGEST_BYTES:
            raise InvalidStackFileError(f"has {found.st_size} bytes, and no stack file has more than {_LARGEST_BYTES}")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidStackFileError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidStackFileError("is no YAML") from None


def _composed(text: str) -> yaml.Node | None:
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        raise InvalidStackFileError("is no YAML") from None
    except RecursionError:
        raise InvalidStackFileError("is nested without an end") from None
    if node is not None and _size(node) > _MOST_NODES:
        raise InvalidStackFileError(f"stands for more than {_MOST_NODES} values by its aliases")
    for each in _scalars(node):
        if each.tag in _NUMBERS and len(each.value) > _LONGEST_NUMBER:
            raise InvalidStackFileError(
                f"has a number of {len(each.value)} characters, and no number has {_LONGEST_NUMBER}"
            )
        if _NO_TEXT.search(each.value):
            raise InvalidStackFileError("has a character that no text holds")
    return node


# Every rule asks for the lines of the same two files, and a file of 100 pools takes a tenth of a second each time.
_nodes = lru_cache(maxsize=8)(_composed)


def children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _scalars(root: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    seen: set[int] = set()
    left = [root] if root else []
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            yield node
        left += children(node)


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
