"""Replaces values in the text of a stack file. Comments, quotes and the order of keys stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from gpu_ci.cli.check import stacks
from gpu_ci.cli.output import InputError
from gpu_ci.cli.stack_files import parse
from gpu_ci.stack.lines import entry

Values = Mapping[tuple[str, ...], str]
"""New values by their keys below `config`."""


def write(path: Path, edits: Sequence[Values]) -> list[bool]:
    """Write the new values into the file, and return for each entry whether it was written.

    An entry is left as it is if the file has its value as JSON text, behind an anchor or in a block.

    Raises:
        InputError: The file cannot be written, or `gpu-ci check` would find a new problem in it.
    """
    old = path.read_bytes().decode()  # with its own line ends, which `Path.read_text` would convert
    root = yaml.compose(old, yaml.SafeLoader)
    found = [_spans(old, root, values) for values in edits]
    spans = {span: value for each in found for span, value in each.items()}
    if not spans:
        return [False for _ in edits]
    text = old
    for (start, end), value in sorted(spans.items(), reverse=True):
        text = text[:start] + value + text[end:]
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
    return list(map(bool, found))


def _spans(text: str, root: yaml.Node | None, values: Values) -> dict[tuple[int, int], str]:
    """Return the new text by start and end of the old text, or an empty dict if a value cannot be replaced."""
    found: dict[tuple[int, int], str] = {}
    for path, value in values.items():
        node = root
        for key in ("config", *path):
            pair = entry(node, key)
            node = pair[1] if pair else None
        if not isinstance(node, yaml.ScalarNode):
            return {}
        start, end = node.start_mark.index, node.end_mark.index
        quote = node.style if node.style in ("'", '"') else ""
        if text[start:end] != f"{quote}{node.value}{quote}":
            return {}
        found[start, end] = f"{quote}{value}{quote}"
    return found
