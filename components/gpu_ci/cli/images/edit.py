"""Replaces pinned values in the text of a stack file. Comments, quotes and the order of keys stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from gpu_ci.cli.check import stacks
from gpu_ci.cli.images.pins import Pin
from gpu_ci.cli.output import InputError
from gpu_ci.cli.stack_files import parse
from gpu_ci.stack.lines import entry
from gpu_ci.stack.pools import POOLS


def write(path: Path, pins: list[Pin]) -> list[Pin]:
    """Write the edits of the pins into the file, and return the pins that changed.

    A pin is left as it is if the file has its value as JSON text, behind an anchor or in a block.

    Raises:
        InputError: The file cannot be written, or `gpu-ci check` would find a new problem in it.
    """
    old = _decoded(path)
    root = yaml.compose(old, yaml.SafeLoader)
    spans: dict[tuple[int, int], str] = {}
    changed: list[Pin] = []
    for pin in pins:
        own = _spans(old, root, pin.pool, pin.edits)
        if own:
            spans |= own
            changed.append(pin)
    if not changed:
        return []
    text = old
    for (start, end), value in sorted(spans.items(), reverse=True):
        text = text[:start] + value + text[end:]
    before = {(each.path, each.text) for each in stacks.problems(parse(path, old))}
    if new := [each for each in stacks.problems(parse(path, text)) if (each.path, each.text) not in before]:
        raise InputError(
            f"{path}: not changed, because gpu-ci check refuses the new values",
            got=f"{new[0].path}: {new[0].text}",
            hint="change the pool by hand",
        )
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        raise InputError(f"{path}: cannot be written", got=error.strerror or str(error)) from None
    return changed


def _decoded(path: Path) -> str:
    """Return the text with its own line ends, which `Path.read_text` would convert."""
    return path.read_bytes().decode()


def _spans(
    text: str, root: yaml.Node | None, pool: str, edits: Mapping[tuple[str, ...], str]
) -> dict[tuple[int, int], str]:
    """Return the new text by start and end of the old text, or an empty dict if a value cannot be replaced."""
    found: dict[tuple[int, int], str] = {}
    for path, value in edits.items():
        node = root
        for key in ("config", POOLS, pool, *path):
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
