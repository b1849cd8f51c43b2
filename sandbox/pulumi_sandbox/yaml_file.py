"""Reports problems of a YAML file with its name and line, which the engine leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from pulumi_sandbox.workspace import YamlFileError


def check(file: Path) -> None:
    """Raise YamlFileError, with the line, for a file that is not valid YAML or has a key twice.

    This parser refuses some files that the engine accepts: a tab before a comment, a second document. Therefore a stack
    file is checked here only after the engine has refused it.
    """
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
        problems = [f"{file.name}: {problem}" for problem in duplicate_keys(root, "", set())]
    except UnicodeDecodeError as error:
        raise YamlFileError(f"{file.name}: is not UTF-8 text at byte {error.start}\n  expected: YAML") from None
    except yaml.MarkedYAMLError as error:
        raise YamlFileError(syntax_error(file, error)) from None
    except yaml.YAMLError as error:
        raise YamlFileError(f"{file.name}: is not YAML: {error}") from None
    except RecursionError:
        raise YamlFileError(f"{file.name}: is nested too deeply\n  expected: YAML") from None
    if problems:
        raise YamlFileError("\n".join(problems))


def syntax_error(file: Path, error: yaml.MarkedYAMLError) -> str:
    """Return the position and the parser's message, without the line itself, which may contain a secret."""
    mark = error.problem_mark or error.context_mark
    position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    context_mark = error.context_mark
    context = f" ({error.context}, from line {context_mark.line + 1})" if error.context and context_mark else ""
    hint = "indent with spaces, put a space after each colon, close every bracket and quote"
    return f"{file.name}: {position}{error.problem}{context}\n  expected: YAML\n  hint: {hint}"


def duplicate_keys(node: yaml.Node | None, path: str, seen: set[int]) -> Iterator[str]:
    """Yield each duplicate key of a map, at any depth. A node with an anchor is checked once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from duplicate_keys(item, f"{path}[{index}]", seen)
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        name = str(key.value)
        here = f"{path}.{name}" if path not in ("", "config") else name  # All other messages name keys like this.
        if name in lines:
            line = key.start_mark.line + 1
            yield f"{here}: is set twice, in lines {lines[name]} and {line}\n  hint: keep one of the two"
        lines.setdefault(name, key.start_mark.line + 1)
        yield from duplicate_keys(value, here, seen)
