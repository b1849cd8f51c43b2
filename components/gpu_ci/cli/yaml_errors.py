"""Explains why a stack file is not valid YAML: the line of the mistake, the reason, and what to do.

PyYAML often notices a mistake one line late, such as a missing space after a colon. No explanation shows text of the
file, because any part of it may be a secret.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import yaml

_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_CONFLICT = re.compile(r"^<{7} ", re.MULTILINE)
# A key of a stack file, such as gpu-ci:pools, has a colon of its own.
_KEY_OF_STACK = re.compile(r"[\w-]+:[A-Za-z]+(\.[\w.]+)?")
_NO_SPACE = re.compile(r"""(- )?[^\s'"\[{]*[^\s'"\[{:]:[^\s:/]""")

SPACE_MISSING = "a space is missing after a colon"
NULL_KEY = "a key is null, not text"
_SPACE = "write key: value, with a space after the colon"
_COLON = "write key: value, or key: with the entries below it"
_INDENTATION = "indent all keys of one map alike, and the keys below them deeper"
_QUOTES = "write the value in quotes"


class YamlMistake(NamedTuple):
    """A mistake with its line and column, both from 1."""

    line: int
    column: int
    reason: str
    hint: str = ""


def explain(error: yaml.MarkedYAMLError, text: str) -> YamlMistake:
    """Return the place, the reason and the hint for an error of PyYAML in this text."""
    if conflict := _CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        return YamlMistake(
            line, 1, "the file has a merge conflict", "resolve what Git marked between <<<<<<< and >>>>>>>"
        )
    problem, context, start = error.problem or "a syntax error", error.context or "", error.context_mark
    lines, at = text.splitlines(), error.problem_mark or start
    line, column = (at.line, at.column) if at else (0, 0)
    if start and context == "while scanning a simple key":
        return _not_a_key(lines, start.line)
    if problem == "mapping values are not allowed here":
        if ": " in lines[line][:column]:
            return YamlMistake(line + 1, column + 1, "a value with a colon and a space needs quotes", _QUOTES)
        column = len(lines[line]) - len(lines[line].lstrip())
        reason = "the indentation is wrong, or a line above lacks a colon, or a space after a colon or dash"
        return YamlMistake(line + 1, column + 1, reason, _INDENTATION)
    if start and context == "while scanning a quoted scalar":
        return YamlMistake(
            start.line + 1, start.column + 1, "a quote is not closed", "close the quote that begins here"
        )
    if context == "expected a single document in the stream":
        hint = "remove the line ---: a stack file is one document"
        return YamlMistake(line + 1, column + 1, "the file has a second document", hint)
    if problem.startswith("expected <block end>"):
        reason = "a list entry is next to the keys of a map" if "'-'" in problem else "the indentation is wrong"
        return YamlMistake(line + 1, column + 1, reason, _INDENTATION)
    return YamlMistake(line + 1, column + 1, _without_values(problem), _hint(problem, context, start))


def _hint(problem: str, context: str, start: yaml.Mark | None) -> str:
    """Return a hint for a message of PyYAML whose place is right, or an empty text."""
    kind = {"while parsing a flow sequence": "list", "while parsing a flow mapping": "map"}.get(context)
    if kind and start:
        return f"close the {kind} that begins in line {start.line + 1}"
    hints = {
        "'\\t'": "indent with spaces: YAML does not allow a tab there",
        SPACE_MISSING: _SPACE,
        NULL_KEY: "write the name, or put null in quotes",
        "cannot start any token": _QUOTES,
        "undefined alias": f"{_QUOTES}: * begins a reference in YAML",
        "unhashable key": f"{_QUOTES}: two braces begin a map in YAML",
    }
    return next((hint for part, hint in hints.items() if part in problem), "")


def _not_a_key(lines: list[str], at: int) -> YamlMistake:
    """Return the mistake in a line that PyYAML cannot read as a key: a space or a colon is missing."""
    line = lines[at]
    stripped = line.strip()
    column = len(line) - len(line.lstrip()) + 1
    if re.match(r"-[^\s-]", stripped):
        return YamlMistake(
            at + 1, column, "a space is missing after a dash", "write - value, with a space after the dash"
        )
    if not _KEY_OF_STACK.fullmatch(stripped) and _NO_SPACE.match(stripped):
        return YamlMistake(at + 1, column, SPACE_MISSING, _SPACE)
    return YamlMistake(at + 1, column, "a colon is missing after a key", _COLON)


def _without_values(text: str) -> str:
    """Remove quotations of the file from a YAML message, except single characters and names of YAML tokens."""
    return _QUOTED.sub(lambda match: match[0] if len(match[0]) <= 3 or match[0][1] in "<\\" else "…", text)
