"""Renders the report as Markdown for a comment on a pull request.

Text from the program is untrusted; markdown_text.py escapes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Report, Side, Stack, Status
from ..phrases import (
    commit,
    concerns,
    failed_first,
    is_quiet,
    number,
    origin,
    outcome,
    question,
    signs,
    total,
    worst_month,
)
from .markdown_stack import Detail, heading, lines
from .markdown_text import cell, code, prose

MARKER = "<!-- gpu-ci-preview -->"
"""The invisible first line, which identifies the comment of an earlier run."""

LIMIT = 65_000
"""The maximum number of characters, with room for lines that the caller adds. GitHub rejects more than 65,536
(`Body is too long (maximum is 65536 characters)`, https://github.com/telia-oss/github-pr-resource/issues/259)."""

SHORTEST_LIMIT = 1_000
"""The number of characters that is always enough for the shortest report."""

# Tried in this order until one fits. Properties are dropped first, then lists of resources, and dangers and policies
# last.
_DETAILS = (
    Detail(properties=1_000, value_chars=1_000, resources=5_000, listed=200, items=1_000, text_chars=2_000, stacks=500),
    Detail(properties=20, value_chars=200, resources=5_000, listed=200, items=1_000, text_chars=2_000, stacks=500),
    Detail(properties=5, value_chars=80, resources=2_000, listed=100, items=1_000, text_chars=2_000, stacks=500),
    Detail(properties=0, value_chars=0, resources=2_000, listed=100, items=1_000, text_chars=1_000, stacks=500),
    Detail(properties=0, value_chars=0, resources=50, listed=50, items=1_000, text_chars=1_000, stacks=500),
    Detail(properties=0, value_chars=0, resources=0, listed=50, items=1_000, text_chars=1_000, stacks=100),
    Detail(properties=0, value_chars=0, resources=0, listed=10, items=1_000, text_chars=500, stacks=100),
    Detail(properties=0, value_chars=0, resources=0, listed=10, items=250, text_chars=300, stacks=50),
    Detail(properties=0, value_chars=0, resources=0, listed=10, items=100, text_chars=300, stacks=50),
    Detail(properties=0, value_chars=0, resources=0, listed=5, items=20, text_chars=200, stacks=20),
    Detail(properties=0, value_chars=0, resources=0, listed=2, items=5, text_chars=100, stacks=5),
)


def render(report: Report, limit: int = LIMIT) -> str:
    """Return the comment, at most `limit` characters long.

    Content that does not fit is left out: first properties, then resources, and last dangers and policy violations
    beyond the first ones. The end of the comment counts what is left out.

    Raises:
        ValueError: the limit is below SHORTEST_LIMIT.
    """
    if limit < SHORTEST_LIMIT:
        raise ValueError(f"limit is {limit}\n  expected: at least {SHORTEST_LIMIT}")
    for detail in _DETAILS:
        text = _text(_lines(report, detail), limit)
        if text:
            return text
    return "\n".join((MARKER, *_shortest(report))) + "\n"


def _text(lines: Iterator[str], limit: int) -> str:
    """Return the lines as one text, or "" if it is too long."""
    kept, length = [], 0
    for line in lines:
        kept.append(line)
        length += len(line) + 1
        if length > limit:
            return ""
    return "\n".join(kept) + "\n"


def _lines(report: Report, detail: Detail) -> Iterator[str]:
    yield MARKER
    if _is_one_line(report):
        verdict = " · ".join(heading(stack, report.how) for stack in report.stacks[: detail.stacks]) or "**no stacks**"
        yield f"{verdict}. {_more(report, detail)}{_revisions(report)}."
        return
    stacks = failed_first(report.stacks)
    if len(stacks) > 1:
        yield from _table(report, stacks[: detail.stacks])
    for at, stack in enumerate(stacks[: detail.stacks]):
        if len(stacks) > 1 and is_quiet(stack) and not _has_remarks(stack):
            continue  # its row in the table is enough
        yield from ("", "---", "") if at or len(stacks) > 1 else ()
        yield from lines(stack, detail, report.how)
    yield from ("", "---", "")
    if more := _more(report, detail) + _left_out(report, detail):
        yield from (more, "")
    yield from _isolation(report, detail)
    yield f"{_revisions(report)}; {origin(report)} by {code(report.made_by, 100)}."


def _is_one_line(report: Report) -> bool:
    """Return True if nothing changes, and there is nothing else to report."""
    nothing = all(is_quiet(each) and not _has_remarks(each) for each in report.stacks)
    return nothing and all(each.stands for each in report.walls)


def _has_remarks(stack: Stack) -> bool:
    """Return True if a stack without changes has findings, violations or a different cost."""
    cost_changes = stack.cost is not None and stack.cost.before != stack.cost.after
    return bool(stack.findings or stack.violations or cost_changes)


def _table(report: Report, stacks: list[Stack]) -> Iterator[str]:
    yield from (f"| stack | {question(report)} | concerns | worst month, USD |", "|---|---|---|--:|")
    for each in stacks:
        yield f"| {cell(each.stack, 100)} | {outcome(each, report.how)} | {concerns(each)} | {worst_month(each)} |"
    if estimate := signs(map(worst_month, stacks)):
        yield from ("", prose(estimate))


def _isolation(report: Report, detail: Detail) -> Iterator[str]:
    """Yield lines on the isolation of the head's code, with details of each kind that was not active."""
    active = ", ".join(code(each.name, 100) for each in report.walls[: detail.items] if each.stands)
    if active:
        yield from (f"Isolation of the head's code: {active}.", "")
    for each in report.walls[: detail.items]:
        if not each.stands:
            yield from (f"**Not isolated**: {code(each.name, 100)}. {prose(each.text, detail.text_chars)}", "")


def _revisions(report: Report) -> str:
    return f"Base {_revision(report.base)}, head {_revision(report.head)}"


def _revision(revision: Side) -> str:
    short = commit(revision)
    return code(revision.ref, 100) + (f" at {code(short)}" if short and short != revision.ref else "")


def _more(report: Report, detail: Detail) -> str:
    rest = len(report.stacks) - detail.stacks
    return f"And {number(rest, 'more stack')}. " if rest > 0 else ""


def _left_out(report: Report, detail: Detail) -> str:
    """Return a sentence that counts what the comment leaves out, or ""."""
    resources = properties = 0
    for stack in report.stacks[: detail.stacks]:
        shown: dict[str, int] = {}
        for each in stack.changed:
            shown[each.component] = shown.get(each.component, 0) + 1
            if shown[each.component] > detail.resources:
                resources += 1
            else:
                properties += max(0, len(each.properties) - detail.properties)
        properties += max(0, len(stack.outputs) - detail.properties)
    counts = [number(properties, "property", "properties")] if properties else []
    counts += [number(resources, "resource")] if resources else []
    return f"Not in this comment: {' and '.join(counts)}. The full report has them." if counts else ""


def _shortest(report: Report) -> Iterator[str]:
    failed = sum(each.status in (Status.FAILED, Status.BASE_FAILED) for each in report.stacks)
    resources = sum(total(each) for each in report.stacks)
    dangers = sum(concerns(each) != "" for each in report.stacks)
    cannot = "cannot be read" if report.how == "drift" else "cannot be previewed"
    yield f"**{number(len(report.stacks), 'stack')}**: {failed:,} {cannot},"
    yield f"{dangers:,} with dangers or policy violations, {number(resources, 'resource')}."
    yield "This is too much for a comment. See the full report."
