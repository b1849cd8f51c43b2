"""Renders one stack of a report as Markdown, with a given amount of detail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from gpu_common.visible import visible as _line

from ..model import Cost, Counts, Finding, Operation, Place, PropertyChange, Resource, Severity, Stack, Violation
from ..phrases import (
    KEEPS_JOBS,
    NOT_IN_COSTS,
    OPERATION_TEXTS,
    SECRETS_UNCHANGED,
    base_hint,
    causes_first,
    change,
    concerns,
    counted,
    number,
    of_severity,
    outcome,
    policies,
    sentence,
    signs,
    without_repeats,
    worst_first,
)
from .graph import graph
from .markdown_text import block, cell, code, html_code, prose

# The maximum length of a path or a name.
_NAME_CHARS = 200
_COSTS = ("at_rest_usd_per_hour", "at_max_usd_per_hour", "worst_month_usd")


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
    if hint := base_hint(stack):
        yield from ("", prose(hint))
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
    if stack.state:
        yield from ("", f"Compared with the exported state {code(stack.state, _NAME_CHARS)}, {SECRETS_UNCHANGED}.")
    if cells := policies(stack):
        yield from ("", f"Policies: {prose(cells, detail.text_chars)}")


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


def _violations(found: Sequence[Violation], detail: Detail) -> Iterator[str]:
    if found:
        yield from ("", "**Policy violations**", "")
        for each in islice(without_repeats(found), detail.items):
            text = f"{code(each.policy, _NAME_CHARS)} ({each.level}): {prose(each.text, detail.text_chars)}"
            yield f"- {text}{_about(each.urn)}{_place(each.place)}"
        yield from (f"- {rest}" for rest in _rest(found, detail.items))


def _replaced_or_deleted(stack: Stack, operation: Operation, consequence: str, detail: Detail) -> Iterator[str]:
    found = causes_first([each for each in stack.resources if each.operation == operation])
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
        where = f" ({_place(each.place).strip()})" if each.place else ""
        yield f"- {prose(each.text, detail.text_chars)}{where}"
    yield from (f"- {rest}" for rest in _rest(found, detail.listed))


def _cost(cost: Cost, detail: Detail) -> Iterator[str]:
    rows = [("**all pools**", cost.before, cost.after)]
    rows[:0] = [(cell(each.pool, _NAME_CHARS), each.before, each.after) for each in cost.pools[: detail.listed]]
    yield from ("", "| USD | at rest, an hour | at max, an hour | worst month |", "|---|--:|--:|--:|")
    amounts = [[change(before, after, field) for field in _COSTS] for _, before, after in rows]
    yield from (f"| {name} | {' | '.join(cells)} |" for (name, _, _), cells in zip(rows, amounts, strict=True))
    for more in _rest(cost.pools, detail.listed):
        yield from ("", f"{more} pools with another cost")
    yield from ("", prose(f"{signs(chain(*amounts))} {NOT_IN_COSTS}"))


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
    yield f"@@ {_consequence(each)} {_line(each.name, _NAME_CHARS)} ({_line(each.type, _NAME_CHARS)}){unclear} @@"
    if each.moved_from:
        yield f"! {_line(_name_in(each.moved_from), _NAME_CHARS)} → {_line(each.name, _NAME_CHARS)}"
    for changed in each.properties[: detail.properties]:
        yield from _difference(changed, detail)


def _consequence(each: Resource) -> str:
    if each.moved_from:
        return "moved" if each.operation == Operation.SAME else f"moved and {OPERATION_TEXTS[each.operation]}"
    return OPERATION_TEXTS[each.operation]


def _difference(changed: PropertyChange, detail: Detail) -> Iterator[str]:
    path = _line(changed.path, _NAME_CHARS)
    if changed.forces_replacement:
        yield f"! {path} forces the replacement"
    if changed.before is not None:
        yield f"- {path}: {_line(changed.before, detail.value_chars)}"
    if changed.after is not None:
        yield f"+ {path}: {_line(changed.after, detail.value_chars)}"


def _finding(found: Finding, detail: Detail) -> str:
    hint = f" *{prose(found.hint, detail.text_chars)}*" if found.hint else ""
    text = prose(sentence(found), detail.text_chars)
    return f"**{prose(found.rule, _NAME_CHARS)}**: {text}{hint}{_about(found.urn)}{_place(found.place)}"


def _about(urn: str) -> str:
    return f" ({code(_name_in(urn), _NAME_CHARS)})" if urn else ""


def _place(place: Place | None) -> str:
    return f" at {code(f'{place.file}:{place.line}', _NAME_CHARS)}" if place else ""


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
