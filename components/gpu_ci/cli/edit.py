"""Replaces values in the text of a stack file. Comments, quotes and the order of keys stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import yaml

from gpu_ci.cli.check import stacks
from gpu_ci.cli.output import InputError
from gpu_ci.cli.stack_files import parse
from gpu_ci.stack.lines import entry

Keys = tuple[str, ...]
"""The keys of a value below `config`."""


def write(path: Path, values: Mapping[Keys, str]) -> Collection[Keys]:
    """Write the new values into the file, and return the keys of the written ones.

    A value is left as it is if the file has it as JSON text, behind an anchor or in a block.

    Raises:
        InputError: The file cannot be written, or `gpu-ci check` would find a new problem in it.
    """
    old = path.read_bytes().decode()  # with its own line ends, which `Path.read_text` would convert
    root = yaml.compose(old, yaml.SafeLoader)
    found = {keys: node for keys in values if (node := _scalar(old, root, keys))}
    text = old
    for keys, node in sorted(found.items(), key=lambda each: each[1].start_mark.index, reverse=True):
        quote = node.style if node.style in ("'", '"') else ""
        text = f"{text[: node.start_mark.index]}{quote}{values[keys]}{quote}{text[node.end_mark.index :]}"
    if text == old:
        return found
    before = {(each.path, each.text) for each in stacks.problems(parse(path, old))}
    if new := [each for each in stacks.problems(parse(path, text)) if (each.path, each.text) not in before]:
        raise InputError(
            f"{path}: not changed, because gpu-ci check refuses the new values",
            got=f"{new[0].path}: {new[0].text}",
            hint="change the file by hand",
        )
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        raise InputError(f"{path}: cannot be written", got=error.strerror or str(error)) from None
    return found


def _scalar(text: str, node: yaml.Node | None, keys: Keys) -> yaml.ScalarNode | None:
    """Return the value at the keys, or None if it cannot be replaced."""
    for key in ("config", *keys):
        pair = entry(node, key)
        node = pair[1] if pair else None
    if not isinstance(node, yaml.ScalarNode):
        return None
    written = text[node.start_mark.index : node.end_mark.index]
    return node if written in (node.value, f"'{node.value}'", f'"{node.value}"') else None
