"""Renders the report as Markdown for a comment on a pull request.

Text from the program is untrusted. `code`, `cell`, `prose`, `block` and `html_code` make any text into Markdown that
GitHub shows literally, without formatting, links or mentions. GitHub renders a comment in two steps:

1. It renders the Markdown, which has escapes (https://github.github.com/gfm/).
2. It then searches the rendered text for mentions, issues, commits and emoji. There, an escaped `@` is an `@` again.

The second step skips code (IGNORE_PARENTS in html-pipeline's lib/html_pipeline/node_filter/mention_filter.rb,
https://github.com/gjtorikian/html-pipeline). So everything except plain words and numbers is shown as code.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain, islice
from typing import NamedTuple

from gpu_catalog.cost import NOT_INCLUDED
from gpu_common.visible import visible, visible_lines

from .. import model
from ..model import Amount, Counts, Finding, Operation, Report, Resource, Severity, Stack, Status
from ..phrases import (
    KEEPS_JOBS,
    NO_PACK,
    OPERATION_TEXTS,
    concerns,
    counted,
    is_quiet,
    number,
    of_severity,
    outcome,
    total,
    worst_first,
)
from .graph import graph

MARKER = "<!-- gpu-ci-preview -->"
"""The invisible first line, which identifies the comment of an earlier run."""

LIMIT = 65_000
"""The maximum number of characters, with room for lines that the caller adds. GitHub rejects more than 65,536
(`Body is too long (maximum is 65536 characters)`, https://github.com/telia-oss/github-pr-resource/issues/259)."""

SHORTEST_LIMIT = 1_000
"""The number of characters that is always enough for the shortest report."""

# The maximum length of a path or a name.
_NAME_CHARS = 200
_COSTS = ("at_rest_usd_per_hour", "at_max_usd_per_hour", "worst_month_usd")
# The sandbox's hint for a reference to a resource that neither the program creates nor sandbox.yaml lists.
_UNLISTED = re.compile(r"\b(?:list|add) (?:it|its \w+) in sandbox\.yaml\b")
_LIST_IT = "List resources that already exist in sandbox.yaml, and commit that to the base first."
_SIGNS = {
    "≥": "≥: a minimum, without items that are billed by use or have no known price.",
    "?": "?: billed by use, or the price is unknown.",
}
_COMPARISONS = {
    "base": "compared with the base, deployed offline",
    "drift": "what exists, compared with the state",
}


class Detail(NamedTuple):
    """The maximum amount of detail of each kind."""

    properties: int
    """Properties of each resource."""
    value_chars: int
    resources: int
    """Resources of each component. With 0, components are left out, but replaced and deleted resources are listed."""
    listed: int
    """Replaced or deleted resources, pools with another cost, and warnings."""
    items: int
    """Dangers and policy violations."""
    text_chars: int
    """Characters of a sentence; error messages of the engine may have four times as many."""
    stacks: int


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
    stacks = sorted(report.stacks, key=lambda each: each.status not in (Status.FAILED, Status.BASE_FAILED))
    if len(stacks) > 1:
        yield from _table(report, stacks[: detail.stacks])
    for at, stack in enumerate(stacks[: detail.stacks]):
        if len(stacks) > 1 and is_quiet(stack) and not _has_remarks(stack):
            continue  # its row in the table is enough
        yield from ("", "---", "") if at or len(stacks) > 1 else ()
        yield from lines(stack, detail, report.how)
    yield from ("", "---", "")
    if more := _more(report, detail) + _left_out(detail):
        yield from (more, "")
    yield from _isolation(report, detail)
    yield f"{_revisions(report)}; {_COMPARISONS[report.how]} by {code(report.made_by, 100)}."


def _is_one_line(report: Report) -> bool:
    """Return True if nothing changes, and there is nothing else to report."""
    nothing = all(is_quiet(each) and not _has_remarks(each) for each in report.stacks)
    return nothing and all(each.stands for each in report.walls)


def _has_remarks(stack: Stack) -> bool:
    """Return True if a stack without changes has findings, violations or a different cost."""
    cost_changes = stack.cost is not None and stack.cost.before != stack.cost.after
    return bool(stack.findings or stack.violations or cost_changes)


def _table(report: Report, stacks: list[Stack]) -> Iterator[str]:
    question = "what differs" if report.how == "drift" else "what would happen"
    yield from (f"| stack | {question} | concerns | worst month, USD |", "|---|---|---|--:|")
    for each in stacks:
        yield f"| {cell(each.stack, 100)} | {outcome(each, report.how)} | {concerns(each)} | {_worst_month(each)} |"
    if estimate := _signs(map(_worst_month, stacks)):
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


def _revision(revision: model.Side) -> str:
    short = revision.commit[:10]  # as Git abbreviates in a large repository
    return code(revision.ref, 100) + (f" at {code(short)}" if short and short != revision.ref else "")


def _more(report: Report, detail: Detail) -> str:
    rest = len(report.stacks) - detail.stacks
    return f"And {number(rest, 'more stack')}. " if rest > 0 else ""


def _left_out(detail: Detail) -> str:
    """Return a sentence if the comment may leave out properties or resources, or ""."""
    return "" if detail is _DETAILS[0] else "Some details are not in this comment. The full report has them."


def _shortest(report: Report) -> Iterator[str]:
    failed = sum(each.status in (Status.FAILED, Status.BASE_FAILED) for each in report.stacks)
    resources = sum(total(each) for each in report.stacks)
    dangers = sum(concerns(each) != "" for each in report.stacks)
    cannot = "cannot be read" if report.how == "drift" else "cannot be previewed"
    yield f"**{number(len(report.stacks), 'stack')}**: {failed:,} {cannot},"
    yield f"{dangers:,} with dangers or policy violations, {number(resources, 'resource')}."
    yield "This is too much for a comment. See the full report."


def heading(stack: Stack, comparison: str) -> str:
    """Return the heading: the result, then the number of dangers and policy violations."""
    counts = concerns(stack)
    return f"**{prose(stack.stack, _NAME_CHARS)}**: {outcome(stack, comparison)}{f'; **{counts}**' if counts else ''}"


def lines(stack: Stack, detail: Detail, comparison: str) -> Iterator[str]:
    """Yield the lines of a stack, with the heading first; an empty line separates paragraphs."""
    yield heading(stack, comparison)
    if stack.error:
        yield ""
        yield from block(stack.error, detail.text_chars * 4, "text")
    if stack.status == Status.BASE_FAILED and _UNLISTED.search(stack.error):
        yield from ("", prose(_LIST_IT))
    if stack.error and stack.changed:
        yield from ("", "The preview stopped here. Further changes are unknown:")
    yield from _dangers(of_severity(stack, Severity.DANGER), detail)
    yield from _violations(stack.violations, detail)
    drawn, is_first = graph(stack) if detail.resources and not stack.error else ([], False)
    if drawn and is_first:
        yield from ("", "```mermaid", *drawn, "```")
    for operation, consequence in ((Operation.REPLACE, "a new one takes its place"), (Operation.DELETE, "")):
        yield from _replaced_or_deleted(stack, operation, consequence, detail)
    yield from _keeps_jobs(stack, detail)
    if stack.cost:
        yield from _cost(stack.cost, detail)
    if drawn and not is_first:
        yield from _folded("Graph of the changes", ["```mermaid", *drawn, "```"])
    if detail.resources:
        yield from _components([each for each in stack.changed if not _is_listed(each, stack, detail)], detail)
    if stack.outputs and detail.properties:
        body = [line for each in stack.outputs[: detail.properties] for line in _difference(each, detail)]
        yield from _folded(
            f"Outputs: {number(len(stack.outputs), 'differs', 'differ')}", block("\n".join(body), None, "diff")
        )
    remarks = of_severity(stack, Severity.WARNING, Severity.NOTE)
    yield from _warnings([each for each in remarks if each.rule != KEEPS_JOBS], detail)
    # A preview that failed may have ended before the packs ran.
    if stack.policies not in ("", NO_PACK) and stack.status != Status.FAILED:
        yield from ("", f"Policies: {prose(stack.policies, detail.text_chars)}")


def _dangers(found: Sequence[Finding], detail: Detail) -> Iterator[str]:
    if found:
        yield from ("", "> [!CAUTION]")
        yield from (f"> - {_finding(each, detail)}" for each in found[: detail.items])
        yield from (f"> - {rest}" for rest in _rest(found, detail.items))


def _warnings(found: Sequence[Finding], detail: Detail) -> Iterator[str]:
    if found:
        body = [f"- {_finding(each, detail)}" for each in found[: detail.listed]]
        body += [f"- {rest}" for rest in _rest(found, detail.listed)]
        yield from _folded(number(len(found), "warning"), body)


def _violations(found: Sequence[model.Violation], detail: Detail) -> Iterator[str]:
    if found:
        yield from ("", "**Policy violations**", "")
        for each in islice(_without_repeats(found), detail.items):
            text = f"{code(each.policy, _NAME_CHARS)} ({each.level}): {prose(each.text, detail.text_chars)}"
            yield f"- {text}{_about(each.urn)}"
        yield from (f"- {rest}" for rest in _rest(found, detail.items))


def _replaced_or_deleted(stack: Stack, operation: Operation, consequence: str, detail: Detail) -> Iterator[str]:
    found = _causes_first([each for each in stack.resources if each.operation == operation])
    if not found:
        return
    users: dict[str, list[str]] = {}
    for other in stack.resources:
        if other.operation == operation == Operation.DELETE:
            continue  # a deleted user is not affected
        for used in other.depends_on:
            users.setdefault(used, []).append(other.name)
    yield from ("", f"**{OPERATION_TEXTS[operation].capitalize()}**{f' ({consequence})' if consequence else ''}", "")
    for each in found[: detail.listed]:
        line = f"- {code(each.name, _NAME_CHARS)}, {code(each.type, _NAME_CHARS)}"
        if each.replaced_for:
            line += f", forced by {_some(each.replaced_for)}"
        if each.urn in users:
            line += f"; used by {_some(users[each.urn])}"
        stays = "; it stays in the cloud" if each.retained else ""
        yield f"{line}{stays}{'; it is protected' if each.protected else ''}"
    yield from (f"- {rest}" for rest in _rest(found, detail.listed))


def _keeps_jobs(stack: Stack, detail: Detail) -> Iterator[str]:
    """Yield the changes that interrupt no job: a reviewer wants to know that jobs continue."""
    found = [each for each in stack.findings if each.rule == KEEPS_JOBS]
    if found:
        yield ""
    for each in found[: detail.listed]:
        yield f"- {prose(each.text, detail.text_chars)}"
    yield from (f"- {rest}" for rest in _rest(found, detail.listed))


def _cost(cost: model.Cost, detail: Detail) -> Iterator[str]:
    rows = [("**all pools**", cost.before, cost.after)]
    rows[:0] = [(cell(each.pool, _NAME_CHARS), each.before, each.after) for each in cost.pools[: detail.listed]]
    yield from ("", "| USD | max | at rest, an hour | at max, an hour | worst month |", "|---|--:|--:|--:|--:|")
    amounts = [[_difference_usd(before, after, field) for field in _COSTS] for _, before, after in rows]
    yield from (
        f"| {name} | {' | '.join([_difference_of_max(before, after), *cells])} |"
        for (name, before, after), cells in zip(rows, amounts, strict=True)
    )
    for more in _rest(cost.pools, detail.listed):
        yield from ("", f"{more} pools with another cost")
    yield from ("", prose(f"{_signs(chain(*amounts))} These amounts do not include {' and '.join(NOT_INCLUDED)}."))


def _components(changed: Sequence[Resource], detail: Detail) -> Iterator[str]:
    """Yield the changes of each component as a collapsed block, the worst operation first."""
    components: dict[str, list[Resource]] = {}
    for each in worst_first(changed):
        components.setdefault(each.component, []).append(each)
    for name, found in components.items():
        body = [line for each in found[: detail.resources] for line in _resource(each, detail)]
        title = html_code(name, _NAME_CHARS) if name else "in no component" if len(components) > 1 else "resources"
        # A resource that is only moved counts as `same`, but it is not unchanged.
        counts = Counts.of(found).model_copy(update={"same": 0})
        yield from _folded(f"{title}: {counted(counts)}", block("\n".join(body), None, "diff"))


def _is_listed(each: Resource, stack: Stack, detail: Detail) -> bool:
    """Return True if the list of deleted resources already shows everything about a resource."""
    deleted = sum(other.operation == Operation.DELETE for other in stack.resources)
    return each.operation == Operation.DELETE and not each.properties and deleted <= detail.listed


def _resource(each: Resource, detail: Detail) -> Iterator[str]:
    unclear = ", may be a replacement" if each.may_replace else ""
    yield f"@@ {_consequence(each)} {visible(each.name, _NAME_CHARS)} ({visible(each.type, _NAME_CHARS)}){unclear} @@"
    if each.moved_from:
        yield f"! {visible(_name_in(each.moved_from), _NAME_CHARS)} → {visible(each.name, _NAME_CHARS)}"
    for changed in each.properties[: detail.properties]:
        yield from _difference(changed, detail)


def _consequence(each: Resource) -> str:
    if each.moved_from:
        return "moved" if each.operation == Operation.SAME else f"moved and {OPERATION_TEXTS[each.operation]}"
    return OPERATION_TEXTS[each.operation]


def _difference(changed: model.PropertyChange, detail: Detail) -> Iterator[str]:
    path = visible(changed.path, _NAME_CHARS)
    if changed.forces_replacement:
        yield f"! {path} forces the replacement"
    if changed.before is not None:
        yield f"- {path}: {visible(changed.before, detail.value_chars)}"
    if changed.after is not None:
        yield f"+ {path}: {visible(changed.after, detail.value_chars)}"


def _finding(found: Finding, detail: Detail) -> str:
    hint = f" *{prose(found.hint, detail.text_chars)}*" if found.hint else ""
    stop = "." if found.hint and found.text[-1:] not in (".", "!", "?", "…") else ""
    text = prose(f"{found.text}{stop}", detail.text_chars)
    return f"**{prose(found.rule, _NAME_CHARS)}**: {text}{hint}{_about(found.urn)}"


def _about(urn: str) -> str:
    return f" ({code(_name_in(urn), _NAME_CHARS)})" if urn else ""


def _folded(title: str, body: Sequence[str]) -> Iterator[str]:
    yield from ("", f"<details><summary>{title}</summary>", "", *body, "", "</details>")


def _some(names: Sequence[str], at_most: int = 4) -> str:
    shown = ", ".join(code(each, _NAME_CHARS) for each in names[:at_most])
    return shown + (f" and {len(names) - at_most:,} more" if len(names) > at_most else "")


def _rest(found: Sequence[object], shown: int) -> list[str]:
    return [f"and {len(found) - shown:,} more"] if len(found) > shown else []


def _name_in(urn: str) -> str:
    """https://www.pulumi.com/docs/iac/concepts/resources/names/#urns: the name is what follows the last `::`."""
    return urn.rpartition("::")[2] or urn


def _without_repeats(violations: Iterable[model.Violation]) -> Iterator[model.Violation]:
    """Yield the violations, mandatory ones first, without text that an earlier violation of the same policy has.

    Two lines of the text are the same for each resource: the first (the purpose) and the last (the remedy).
    """
    known_lines: dict[tuple[str, str], list[str]] = {}
    for each in sorted(violations, key=lambda each: (each.level != "mandatory", each.pack, each.policy)):
        lines = each.text.splitlines()
        known = known_lines.get((each.pack, each.policy), [])
        new = [line for line in lines if line not in known] or lines
        known_lines.setdefault((each.pack, each.policy), [lines[0], lines[-1]] if len(lines) > 2 else [])
        yield each.model_copy(update={"text": "\n".join(new)})


def _causes_first(resources: Sequence[Resource]) -> list[Resource]:
    """Return the resources sorted so that each follows its dependencies; in their given order if there is a cycle."""
    listed = {each.urn: each for each in resources}
    # Add each resource alone first: the sorter keeps the order in which nodes are added.
    sorter = TopologicalSorter(dict.fromkeys(listed, ()))
    for each in listed.values():
        sorter.add(each.urn, *(urn for urn in each.depends_on if urn in listed))
    try:
        return [listed[urn] for urn in sorter.static_order()]
    except CycleError:
        return list(resources)


def _signs(amounts: Iterable[str]) -> str:
    """Return the meaning of each sign (`≥`, `?`) in these amounts, or ""."""
    shown = "".join(amounts)
    return " ".join(texts for sign, texts in _SIGNS.items() if sign in shown)


def _worst_month(stack: Stack) -> str:
    """Return the cost of the worst month before and after, or "" if no cost is known."""
    return _difference_usd(stack.cost.before, stack.cost.after, "worst_month_usd") if stack.cost else ""


def _difference_usd(before: Amount | None, after: Amount | None, field: str) -> str:
    """Return a change in USD, such as `1.20 → 2.40 (+1.20)`.

    `≥` marks an amount for which only some prices are known, `?` one without a known price.
    """
    old, new = (None if amount is None else getattr(amount, field) for amount in (before, after))
    shown = f"{_usd(before, old)} → {_usd(after, new)}"
    if before is None or after is None:
        return shown if before or after else "none"
    if _usd(before, old) == _usd(after, new):
        return _usd(after, new)
    # A difference between two minimums has no meaning.
    if old is None or new is None or before.at_least or after.at_least:
        return shown
    return f"{shown} ({new - old:+,.2f})"


def _difference_of_max(before: Amount | None, after: Amount | None) -> str:
    """Return a change of the maximum number of machines, such as `4 → 12`, or "" if neither has one."""
    old, new = (None if each is None else each.max_machines for each in (before, after))
    if old == new:
        return "" if new is None else f"{new:,}"
    return " → ".join("none" if each is None else f"{each:,}" for each in (old, new))


def _usd(amount: Amount | None, value: float | None) -> str:
    if amount is None:
        return "none"
    return "?" if value is None else f"{'≥ ' if amount.at_least else ''}{value:,.2f}"


# A word of letters, or a number. A word with both can be a name, a commit or a reference of the repository.
_PLAIN = re.compile(
    r"""[("']*(?:[A-Za-z]+(?:['-][A-Za-z]+)*|(?:[0-9]{1,6}|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]{1,4})?%?)[)"']*[.,;:!?]?"""
)
_COMMIT = re.compile(r"[a-fA-F]{7,}")
_BEGINS_A_LIST = re.compile(r"[0-9]+[.)].*")
_AROUND = re.compile(r"(\(?)(.*?)(\)?[.,;:!?]?)")
_PLAIN_SIGNS = {"→", "…", "-"}


def code(text: str, limit: int | None = None) -> str:
    """Return the text as inline code."""
    shown = visible(text, limit) or "(empty)"
    ticks = "`" * (_longest_run(shown) + 1)
    # Markdown removes one space from both ends of inline code, unless the code has only spaces.
    pad = " " if shown.strip(" ") and (shown[0] in " `" or shown[-1] in " `") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def cell(text: str, limit: int | None = None) -> str:
    """Return the text as inline code in a table, whose cells end at a `|`.

    Markdown programs read an escaped `|` after a backslash differently, so it is written as `\\u007c`.
    """
    return code(re.sub(r"(?<=\\)\|", r"\\u007c", visible(text, limit))).replace("|", "\\|")


def prose(text: str, limit: int | None = None) -> str:
    """Return the text as one line, in which everything except plain words and numbers is code."""
    # A text of `limit` characters has fewer words than `limit`.
    words = text.split() if limit is None else text.split(None, limit)[:limit]
    tokens = visible(" ".join(words), limit).split(" ")
    return " ".join(word if _is_plain(word, first=at == 0) else _quoted(word) for at, word in enumerate(tokens))


def block(text: str, limit: int | None = None, language: str = "") -> list[str]:
    """Return the lines of a code block, with its fences."""
    shown = visible_lines(text, limit)
    fence = "`" * max(3, _longest_run(shown) + 1)
    return [f"{fence}{language}", *shown.split("\n"), fence]


def html_code(text: str, limit: int | None = None) -> str:
    """Return the text as code in HTML, for example in the summary of a `<details>` element."""
    return f"<code>{html.escape(visible(text, limit))}</code>"


def _is_plain(word: str, first: bool) -> bool:
    if first and (word in _PLAIN_SIGNS or _BEGINS_A_LIST.fullmatch(word)):
        return False
    return word in _PLAIN_SIGNS or (_PLAIN.fullmatch(word) is not None and _COMMIT.search(word) is None)


def _quoted(word: str) -> str:
    """Return the word as code, without the punctuation around it."""
    before, core, after = _AROUND.fullmatch(word).groups()  # type: ignore[union-attr] # it matches any word
    return f"{before}{code(core)}{after}" if core else code(word)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
