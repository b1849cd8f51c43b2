"""The steps of `gpu-ci doctor`: what a step is, and how the steps run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from gpu_ci.cli.programs import NotAskedError

Status = Literal["pass", "fail", "unknown"]
Target = TypeVar("Target", contravariant=True)


@dataclass(frozen=True)
class Finding:
    """The result of a step."""

    status: Status
    got: str
    """The result in one line."""
    details: Any = None
    """The answer of the service as JSON, for the report."""
    fix: tuple[str, ...] = ()
    """Commands that fix a failure, with the real names.

    Each is valid in a shell. A line that begins with # says what a person does instead.
    """


@dataclass(frozen=True)
class Step(Generic[Target]):
    """One step. Its target is a project, a cluster, a runner manager or a stack file."""

    name: str
    expected: str
    ask: Callable[[Target], Finding]
    """Checks one property of the target without changing anything."""
    hint: str = ""
    """What to do if the step fails and its finding has no `fix`."""


@dataclass(frozen=True)
class Answer:
    """A step and its result."""

    step: Step[Any]
    finding: Finding


def problems_or_pass(
    problems: Sequence[str], good: str, details: Any, prefix: str = "", fix: Sequence[str] = ()
) -> Finding:
    """Return a Finding: `fail` with the problems, or `pass` with the text `good` if there are no problems.

    With a prefix, the problems are names, such as "missing: a, b". Without it, they are sentences.
    """
    if not problems:
        return Finding("pass", good, details)
    text = f"{prefix}{', '.join(problems)}" if prefix else "; ".join(problems)
    return Finding("fail", text, details, tuple(dict.fromkeys(fix)))


def ask_all(
    steps: Sequence[Step[Target]], target: Target, progress: Callable[[str], None] = lambda _: None
) -> list[Answer]:
    """Run every step in order. If a step cannot run, the other steps still run."""
    answers = []
    for step in steps:
        progress(step.name)
        try:
            finding = step.ask(target)
        except NotAskedError as error:
            finding = Finding("unknown", f"not asked: {error}", fix=error.fix)
        answers.append(Answer(step, finding))
    return answers
