"""Runs a checklist of `gpu-ci verify` or `gpu-ci doctor`, and writes the report.

A checklist is a list of steps. Its target is a project, a cluster, a machine or a runner manager. The function `ask` of
a step checks one property of the target, and returns a Finding. The user runs steps without this function by hand.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Generic, Literal, TypeVar

from gpu_common.secret_patterns import redact

Status = Literal["pass", "fail", "unknown"]
Target = TypeVar("Target", contravariant=True)

# Users may attach the report to an issue, so account numbers (AWS, 12 digits) and e-mail addresses are removed.
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])\d{12}(?![0-9A-Za-z])")
# The domain is optional, because the search is then fast on long texts. A match without a domain is not an address.
_EMAIL = re.compile(r"[\w.+-]+(@[\w-]+(?:\.[\w-]+)+)?")


@dataclass(frozen=True)
class Finding:
    """The result of a step."""

    status: Status
    got: str
    """The result in one line, for the table."""
    details: Any = None
    """The answer of the service as JSON, for the file."""
    fix: tuple[str, ...] = ()
    """Commands that fix a failure, with the real names. `gpu-ci doctor` prints them.

    Each is valid in a shell. A line that begins with # says what a person does instead.
    """


class NotAskedError(Exception):
    """The step could not run: a program or a permission is missing, or a service is disabled."""

    def __init__(self, text: str, fix: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.fix = fix


@dataclass(frozen=True)
class Step(Generic[Target]):
    """One line of a checklist."""

    name: str
    command: str
    """The command to run this step by hand."""
    expected: str
    otherwise: str
    """The hint if the step fails."""
    ask: Callable[[Target], Finding] | None = None
    """A function that runs the step without changing anything; None for a step that the user runs by hand."""


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
    """Run every read-only step in order. If a step cannot run, the other steps still run."""
    answers = []
    for step in steps:
        if step.ask is None:
            continue
        progress(step.name)
        try:
            finding = step.ask(target)
        except NotAskedError as error:
            finding = Finding("unknown", f"not asked: {error}", fix=error.fix)
        answers.append(Answer(step, finding))
    return answers


def shortened(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what to show of each step: its `got`, or for an unknown one the first step with the same cause."""
    first: dict[str, str] = {}
    return [
        step["got"]
        if step["status"] != "unknown" or first.setdefault(step["got"], step["name"]) == step["name"]
        else f"for the same reason as {first[step['got']]}"
        for step in steps
    ]


def document(title: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the report as JSON, without secrets, account numbers and e-mail addresses."""
    report = {
        "target": title,
        "version": version("gpu-ci"),
        "python": platform.python_version(),
        "steps": [
            {
                "name": answer.step.name,
                "status": answer.finding.status,
                "got": answer.finding.got,
                "expected": answer.step.expected,
                "otherwise": answer.step.otherwise,
                "details": answer.finding.details,
            }
            for answer in answers
        ],
    }
    cleaned: dict[str, Any] = _clean(report)
    return cleaned


def markdown(report: dict[str, Any]) -> str:
    """Return a report as Markdown, to attach to an issue."""
    return "\n".join(_page(report))


def _page(report: dict[str, Any]) -> Iterator[str]:
    yield f"# gpu-ci verify {report['target']}"
    yield ""
    yield f"gpu-ci {report['version']}, Python {report['python']}."
    yield "Secrets, account numbers and e-mail addresses are removed; read the file before you attach it."
    yield ""
    yield "| step | status | got |"
    yield "|---|---|---|"
    for step in report["steps"]:
        yield f"| {step['name']} | {step['status']} | {_cell(step['got'])} |"
    for step in report["steps"]:
        if step["details"] is not None:
            text = step["details"] if isinstance(step["details"], str) else json.dumps(step["details"], indent=2)
            fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text)), 3)
            yield ""
            yield f"<details><summary>{step['name']}</summary>"
            yield ""
            yield fence
            yield text
            yield fence
            yield ""
            yield "</details>"
    yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        text = _ACCOUNT.sub("[account]", redact(value))
        return _EMAIL.sub(lambda found: "[address]" if found[1] else found[0], text)
    if isinstance(value, dict):
        return {_clean(key): _clean(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return value
