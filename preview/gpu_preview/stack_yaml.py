"""Reads a stack file of the head as YAML nodes, which have line numbers.

Rejects a file that would exhaust time or memory.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

# Ten times the largest realistic stack file. PyYAML needs seconds for a megabyte.
_LARGEST_BYTES = 256 * 1024
# With aliases, a few lines can expand to billions of values, and code that walks the values visits each one.
_MAX_NODES = 100_000
# The time to parse a number grows with the square of its digits, and Python rejects more than 4,300 digits.
_LONGEST_NUMBER = 256
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
# Unpaired surrogates, which UTF-8 cannot encode, and NUL, which ends a string in C.
_NO_TEXT = re.compile("[\\ud800-\\udfff\\0]")
# PyYAML's constructors do not wrap the exceptions of int(), re and their lookup tables for invalid values.
_NO_VALUE = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


class InvalidStackFileError(Exception):
    """Raised for a rejected file; the message has the reason and none of the file's content."""


def compose(path: Path) -> yaml.Node | None:
    """Return the root node of a stack file, or None if the file is empty.

    The file is untrusted: it may be a symbolic link, a pipe without an end, or aliases that expand beyond memory. The
    nodes are cached and shared, so callers must not change them.

    Raises:
        InvalidStackFileError: the file is not a regular file, is too large, or is not safe to read.
    """
    return _nodes(_text(path))


def editable(path: Path) -> yaml.Node | None:
    """Return the root node like `compose`, in nodes that the caller may change."""
    return _composed(_text(path))


def loaded(path: Path) -> Any:
    """Return the content as mappings, lists and scalars, or None for an empty file.

    Raises:
        InvalidStackFileError: see `compose`.
    """
    node = _composed(_text(path))  # not the cached nodes: PyYAML expands `<<` in place
    try:
        return None if node is None else SafeConstructor().construct_document(node)
    except _NO_VALUE:
        raise InvalidStackFileError("has an invalid value") from None


def _text(path: Path) -> str:
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise InvalidStackFileError("is not a regular file")
        if found.st_size > _LARGEST_BYTES:
            raise InvalidStackFileError(f"has {found.st_size} bytes, which is above the limit of {_LARGEST_BYTES}")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidStackFileError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidStackFileError("is not valid YAML: it is not UTF-8") from None


def _composed(text: str) -> yaml.Node | None:
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        raise InvalidStackFileError("is not valid YAML") from None
    except RecursionError:
        raise InvalidStackFileError("is nested too deeply") from None
    if node is not None and _size(node) > _MAX_NODES:
        raise InvalidStackFileError(f"expands to more than {_MAX_NODES} values through aliases")
    for each in _scalars(node):
        if each.tag in _NUMBERS and len(each.value) > _LONGEST_NUMBER:
            raise InvalidStackFileError(
                f"has a number of {len(each.value)} characters, which is above the limit of {_LONGEST_NUMBER}"
            )
        if _NO_TEXT.search(each.value):
            raise InvalidStackFileError("has a NUL character or an unpaired surrogate")
    return node


# Every rule reads the lines of the same two files, and parsing a file of 100 pools takes 0.1 s.
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
    """Return the number of nodes with all aliases expanded; above the limit if an alias contains itself."""
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
            return _MAX_NODES + 1
        entered.add(id(node))
        left.append((node, True))
        left += [(each, False) for each in children(node)]
    return sizes[id(root)]
