"""Renders the report as workflow commands, which GitHub shows at the lines of a file.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpu_common.visible import visible, visible_lines

from ..model import Place, Report, Severity, Stack, Status
from ..phrases import number, outcome

AT_MOST = 10
"""The maximum number of each level in a step. GitHub silently drops more
(https://github.com/actions/toolkit/pull/734: 10 warnings and 10 errors a step, 50 annotations a job)."""

_LEVELS = {Severity.DANGER: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_MESSAGE_CHARS = 4_000


class _Annotation(NamedTuple):
    level: str
    title: str
    message: str
    place: Place | None


def render(report: Report) -> list[str]:
    """Return one line for each command: errors first, and in each level, annotations with a place first.

    If there are too many, the last line counts the annotations that are left out.
    """
    everything = sorted(
        (each for stack in report.stacks for each in _of(stack, report.how)),
        key=lambda each: (["error", "warning", "notice"].index(each.level), each.place is None),
    )
    shown: list[_Annotation] = []
    left_out: dict[str, int] = {}
    # One notice is reserved for the sentence that counts the annotations left out.
    remaining = {"error": AT_MOST, "warning": AT_MOST, "notice": AT_MOST - 1}
    for each in everything:
        if remaining[each.level]:
            remaining[each.level] -= 1
            shown.append(each)
        else:
            left_out[each.level] = left_out.get(each.level, 0) + 1
    if left_out:
        rest = ", ".join(number(count, f"more {level}") for level, count in left_out.items())
        shown.append(_Annotation("notice", "gpu-ci preview", f"{rest} in the report on this change", None))
    return [_command(each) for each in shown]


def _of(stack: Stack, comparison: str) -> Iterator[_Annotation]:
    if stack.status in (Status.FAILED, Status.BASE_FAILED):
        first_line = stack.place or Place(file=stack.file, line=1, end_line=1)
        yield _Annotation("error", stack.stack, f"{outcome(stack, comparison)}\n{stack.error}", first_line)
    for violation in stack.violations:
        level = "error" if violation.level == "mandatory" else "warning"
        yield _Annotation(level, f"{stack.stack}: {violation.policy}", violation.text, violation.place)
    for finding in stack.findings:
        text = f"{finding.text}\n{finding.hint}" if finding.hint else finding.text
        yield _Annotation(_LEVELS[finding.severity], f"{stack.stack}: {finding.rule}", text, finding.place)


def _command(each: _Annotation) -> str:
    properties = {"title": visible(each.title, 200)}
    if each.place:
        lines = {"line": str(each.place.line), "endLine": str(each.place.end_line)}
        properties = {"file": visible(each.place.file), **lines, **properties}
    fields = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{each.level} {fields}::{_data(visible_lines(each.message, _MESSAGE_CHARS))}"


def _data(text: str) -> str:
    """Escape a text as the runner expects it (actions/toolkit, packages/core/src/command.ts, escapeData)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
