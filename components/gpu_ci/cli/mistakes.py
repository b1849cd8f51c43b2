"""Reads the files of a command, and collects the mistakes of files and options, so that one report has all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from gpu_ci.cli.output import Failure

if TYPE_CHECKING:
    from gpu_ci.errors import Problem

_MOST = 30
"""The number of mistakes that a report lists. The others are counted."""


class WrongInput(Failure):
    """Files or options with mistakes."""

    exit_code = 2


class Mistakes:
    """The mistakes of files and options in the order in which they were found, so that one report has all of them.

    gpu_ci.errors loads Pulumi, so only a mistake imports it.
    """

    def __init__(self) -> None:
        self.count = 0
        self._found: list[tuple[str, Problem]] = []

    def add(self, subject: str, path: str, text: str, got: str, expected: str, hint: str) -> None:
        """Add a mistake. `subject` is the file with its line, or the command."""
        from gpu_ci.errors import Problem

        self.add_problem(subject, Problem(path, text, got, expected, hint))

    def add_problem(self, subject: str, problem: Problem) -> None:
        self.count += 1
        if self.count <= _MOST:
            self._found.append((subject, problem))

    def add_invalid(
        self, subject: str, error: ValidationError, model: type[BaseModel], expected: str, hint: str, at: str = ""
    ) -> None:
        """Add the mistakes of a value that a model refused. `at` is the path of the value in the file."""
        if self.count >= _MOST:
            self.count += error.error_count()
            return
        from gpu_ci.validation_errors import explain

        for each in explain(error, model):
            problem = each.under(at) if at else each
            self.add_problem(subject, replace(problem, expected=each.expected or expected, hint=each.hint or hint))

    def refuse(self) -> None:
        """Raise WrongInput if there is a mistake."""
        if not self.count:
            return
        lines = [problem.render(subject) for subject, problem in self._found]
        problems = [{"file": subject, **asdict(problem)} for subject, problem in self._found]
        if more := self.count - len(self._found):
            lines.append(f"and {more:,} more")
            problems.append({"text": lines[-1]})
        raise WrongInput("\n".join(lines), problems)


def start_of(text: bytes) -> str:
    """Return the first characters of a text that is not what was expected."""
    return repr(text[:40].decode(errors="replace"))


def read_bytes(name: str, expected: str, hint: str, mistakes: Mistakes) -> bytes:
    """Return the content of a file, or of standard input for `-`. It is empty if the file has a mistake."""
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        content.decode()
    except FileNotFoundError:
        text, got = "no such file", "nothing"
    except OSError as error:
        text, got = "cannot be read", error.strerror or str(error)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        name = f"{name}:{line}"
        text, got = "is not text", f"the byte {content[error.start]:#04x}, which is not UTF-8"
    else:
        return content
    mistakes.add(name or "''", "", text, got, expected, hint)
    return b""


def yaml_settings(name: str, content: bytes) -> tuple[Any, Callable[[str], str]]:
    """Return the value of a YAML file, and a function that names the file with the line of a path.

    An empty file is an empty map. Raises ProblemsFound if the YAML is invalid.
    """
    from gpu_ci.cli.stack_files import yaml_document
    from gpu_ci.stack.lines import lines_of

    text = content.decode()
    document, line_of = yaml_document(Path(name), text), lines_of(text, "")

    def subject(path: str) -> str:
        line = line_of(path)
        return f"{name}:{line}" if line else name

    return {} if document is None else document, subject
