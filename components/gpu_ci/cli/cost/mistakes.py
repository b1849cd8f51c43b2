"""Collects the mistakes of files and options, so that one report has all of them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from gpu_ci.cli.output import Failure

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from gpu_ci.errors import Problem

_MOST = 30
"""The number of mistakes that a report lists. The others are counted."""


class WrongInput(Failure):
    """Files or options with mistakes."""

    exit_code = 2


class Mistakes:
    """The mistakes in the order in which they were found. gpu_ci.errors loads Pulumi, so a mistake imports it."""

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
            problem = replace(
                each.under(at) if at else each, expected=each.expected or expected, hint=each.hint or hint
            )
            self.add_problem(subject, problem)

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
