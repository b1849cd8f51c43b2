"""Finds the line of a stack file for the path of a problem."""

from __future__ import annotations

import re
from collections.abc import Callable

import yaml

_STEP = re.compile(r'\["([^"]*)"\]|\[(\d+)\]|([^.\[]+)')
"""A step of a path as `validation_errors.join` writes it."""

LineOf = Callable[[str], int | None]


def lines_of(text: str, top: str = "config") -> LineOf:
    """Return a function that finds the line of a path such as `gpu-ci:pools.l4.zones[0]`.

    If the file does not have the path, the function returns the line of the longest existing part of the path. It
    returns None if no part exists, or if the file is not valid YAML. Paths begin below the key `top`, or at the top of
    the file if `top` is empty.
    """
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        root = None
    found = entry(root, top) if top else (root, root) if root else None
    return lambda path: _line(found, path)


def no_line(_path: str) -> None:
    """Return None. This is the function for a file whose text is not known."""
    return


def _line(found: tuple[yaml.Node, yaml.Node] | None, path: str) -> int | None:
    line = None
    for name, index, plain in _STEP.findall(path):
        found = entry(found[1], int(index) if index else name or plain) if found else None
        if found:
            line = found[0].start_mark.line + 1
    return line


def entry(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the nodes of key and value of a map's entry. For an entry of a list, return the entry twice."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None
