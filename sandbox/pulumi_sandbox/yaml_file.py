"""Reports problems of a YAML file with its name and line, which the engine leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from pulumi_sandbox.workspace import YamlFileError


def check(file: Path) -> None:
    """Raise YamlFileError, with the line, for a file that is not valid YAML or has a key twice.

    This parser is stricter than the engine's in places (a tab before a comment, a second document). So a stack file is
    checked here only after the engine has refused it.
    """
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
        problems = [f"{file.name}: {problem}" for problem in doubled(root, "", set())]
    except UnicodeDecodeError as error:
        raise YamlFileError(f"{file.name}: is not UTF-8 text at byte {error.start}\n  expected: YAML") from None
    except yaml.MarkedYAMLError as error:
        raise YamlFileError(unreadable(file, error)) from None
    except yaml.YAMLError as error:
        raise YamlFileError(f"{file.name}: is no YAML: {error}") from None
    except RecursionError:
        raise YamlFileError(f"{file.name}: is nested too deeply\n  expected: YAML") from None
    if problems:
        raise YamlFileError("\n".join(problems))


def unreadable(file: Path, error: yaml.MarkedYAMLError) -> str:
    """Return the position and the parser's message, without the line itself, which may contain a secret."""
    at = error.problem_mark or error.context_mark
    place = f"line {at.line + 1}, column {at.column + 1}: " if at else ""
    began = error.context_mark
    since = f" ({error.context}, from line {began.line + 1})" if error.context and began else ""
    hint = "indent with spaces, put a space after each colon, close every bracket and quote"
    return f"{file.name}: {place}{error.problem}{since}\n  expected: YAML\n  hint: {hint}"


def doubled(node: yaml.Node | None, path: str, seen: set[int]) -> Iterator[str]:
    """Yield each duplicate key of a map, at any depth. A node with an anchor is checked once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from doubled(item, f"{path}[{index}]", seen)
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        name = str(key.value)
        here = f"{path}.{name}" if path not in ("", "config") else name  # All other messages name keys like this.
        if name in lines:
            line = key.start_mark.line + 1
            yield f"{here}: stands twice, in lines {lines[name]} and {line}\n  hint: keep one of the two"
        lines.setdefault(name, key.start_mark.line + 1)
        yield from doubled(value, here, seen)
