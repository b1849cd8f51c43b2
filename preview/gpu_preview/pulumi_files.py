"""Reads Pulumi.yaml: the folder of the stack files, and configuration values for all stacks.

Source of the format: pulumi/pulumi v3.259.0, sdk/go/common/workspace/project.go (Project, ProjectConfigType). A pull
request can change the file, so its content is untrusted.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from gpu_common.visible import visible
from yaml.constructor import SafeConstructor
from yaml.representer import SafeRepresenter

from .errors import PreviewError
from .json_text import as_map, as_text

NAMES = ("Pulumi.yaml", "Pulumi.yml")


def path(project: Path) -> Path | None:
    """Return the path of the project file in a folder, or None if no readable file exists."""
    return _read(project)[0]


def settings(project: Path) -> Mapping[str, Any]:
    """Return the content of the project file; empty if it cannot be read, which the engine reports itself."""
    return as_map(_read(project)[1])


def project_name(project: Path) -> str:
    """Return the name of the project, or "" if it cannot be read."""
    return as_text(settings(project).get("name"))


def set_runtime_options(project: Path, names: Sequence[str] = NAMES, **options: str) -> None:
    """Set options of the runtime in the project file. Do nothing if the file cannot be read.

    The other values keep their text: PyYAML reads 12:30:00 as a number and `no` as false, the engine does not. The
    caller ensures that no folder in the path is a symbolic link.
    """
    for file in (project / name for name in names):
        try:
            document, content = editable(file), loaded(file)
        except InvalidStackFileError:
            continue
        if isinstance(document, yaml.MappingNode) and isinstance(content, Mapping):
            runtime = content.get("runtime")
            known = as_map(runtime) if isinstance(runtime, Mapping) else {"name": runtime}
            wanted = {**known, "options": {**as_map(known.get("options")), **options}}
            node = SafeRepresenter().represent_data(wanted)
            document.value = [(key, node if key.value == "runtime" else value) for key, value in document.value]
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "w", encoding="utf-8") as opened:
                opened.write(yaml.serialize(document, Dumper=yaml.SafeDumper, allow_unicode=True))
        return


def _read(project: Path) -> tuple[Path | None, Any]:
    for each in NAMES:
        try:
            return project / each, loaded(project / each)
        except InvalidStackFileError:
            continue
    return None, None


def stack_folder(project: Path) -> Path:
    """Return the folder of the stack files: that of the project, or the one in `stackConfigDir` (formerly `config`).

    Raises:
        PreviewError: the folder is outside of the project or below a symbolic link.
    """
    content = settings(project)
    inside = as_text(content.get("stackConfigDir")) or as_text(content.get("config"))
    if not inside:
        return project
    try:
        whole = project.resolve()
        folder = whole / inside
        fits = folder.resolve() == folder and folder.is_relative_to(whole) and not folder.is_symlink()
    except (OSError, RuntimeError, ValueError):  # an invalid path, or a loop of symbolic links
        fits = False
    if not fits:
        raise PreviewError(
            "stackConfigDir of Pulumi.yaml is not a folder in the project, or is below a symbolic link\n"
            "  expected: a relative path to a folder of the project"
        )
    return project / inside


def defaults(stack_file: Path) -> Mapping[str, Any]:
    """Return the default configuration (`config:`) of the project that a stack file belongs to, by key."""
    project = next((each for each in stack_file.parents if path(each)), None)
    content = settings(project) if project else {}
    values = {str(key): _value(each) for key, each in as_map(content.get("config")).items()}
    # A key without a namespace belongs to the namespace of the project.
    named = {key if ":" in key else f"{as_text(content.get('name'))}:{key}": value for key, value in values.items()}
    return {key: value for key, value in named.items() if value is not None}


def why_not_comparable(before: Path, after: Path) -> str:
    """Return why base and head are different projects for the engine, or "" if they are the same."""
    old, new = (project_name(each) for each in (before, after))
    if old == new or not (old and new):
        return ""
    return (
        "the head renames the project, so the engine treats its stacks as new ones and keeps the old resources\n"
        f"  got: {visible(new, 100)}\n  expected: {visible(old, 100)}\n"
        "  hint: use pulumi stack rename, in a separate change"
    )


def _value(content: Any) -> Any:
    """Return the value of an entry, which is a plain value, or a mapping with `value` or `default`."""
    if isinstance(content, Mapping):
        return content.get("value", content.get("default"))
    return content


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


def editable(path: Path) -> yaml.Node | None:
    """Return the root node of a stack file, or None if the file is empty.

    The file is untrusted: it may be a symbolic link, a pipe without an end, or aliases that expand beyond memory.

    Raises:
        InvalidStackFileError: the file is not a regular file, is too large, or is not safe to read.
    """
    return _composed(_text(path))


def loaded(path: Path) -> Any:
    """Return the content as mappings, lists and scalars, or None for an empty file.

    Raises:
        InvalidStackFileError: see `editable`.
    """
    node = editable(path)
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


def _children(node: yaml.Node) -> list[yaml.Node]:
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
        left += _children(node)


def _size(root: yaml.Node) -> int:
    """Return the number of nodes with all aliases expanded; above the limit if an alias contains itself."""
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    left = [(root, False)]
    while left:
        node, done = left.pop()
        if done:
            sizes[id(node)] = 1 + sum(sizes[id(each)] for each in _children(node))
            continue
        if id(node) in sizes:
            continue
        if id(node) in entered:
            return _MAX_NODES + 1
        entered.add(id(node))
        left.append((node, True))
        left += [(each, False) for each in _children(node)]
    return sizes[id(root)]
