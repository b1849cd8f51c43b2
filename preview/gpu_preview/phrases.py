"""Phrases that the forms of a report share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from gpu_catalog.cost import NOT_INCLUDED

from .model import Amount, Counts, Finding, Operation, Report, Resource, Severity, Side, Stack, Status, Violation

NO_PACK = "no policy pack was given"

SECRETS_UNCHANGED = "assuming that its secrets are unchanged"
"""The limit of a comparison with an exported state."""

NOT_IN_COSTS = f"These amounts do not include {' and '.join(NOT_INCLUDED)}."
"""The costs that the catalog has no prices for."""

# The sandbox's hint for a reference to a resource that neither the program creates nor sandbox.yaml lists.
_UNLISTED = re.compile(r"\b(?:list|add) (?:it|its \w+) in sandbox\.yaml\b")
_LIST_IT = "List resources that already exist in sandbox.yaml, and commit that to the base first."
_SIGNS = {
    "≥": "≥: a minimum, without items that are billed by use or have no known price.",
    "?": "?: billed by use, or the price is unknown.",
}
KEEPS_JOBS = "keeps-jobs"
"""The rule of a finding that lists changes that interrupt no job. The comment command does not import the rules."""

# From the worst to the least severe operation, as in the sentences that count them.
OPERATION_TEXTS = {
    Operation.REPLACE: "replaced",
    Operation.DELETE: "deleted",
    Operation.CREATE: "created",
    Operation.UPDATE: "updated",
    Operation.SAME: "unchanged",
}
_SENTENCE_ENDS = (".", "!", "?", "…")
COMPARISON_TEXTS = {
    "base": "compared with the base, deployed offline",
    "state": "compared with the exported state of each stack",
    "credentials": "previewed with credentials",
    "drift": "what exists, compared with the state",
}


def number(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun, such as `1 danger` or `2 dangers`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted(counts: Counts) -> str:
    """Return all counts above zero, such as `1 replaced, 2 updated, 66 unchanged`."""
    parts = [(getattr(counts, operation.value), word) for operation, word in OPERATION_TEXTS.items()]
    parts.insert(-1, (counts.moved, "moved"))
    texts = {word: f"{count:,} {word}" for count, word in parts if count}
    if counts.may_replace and counts.update:
        verb = "may be a replacement" if counts.may_replace == 1 else "may be replacements"
        texts[OPERATION_TEXTS[Operation.UPDATE]] += f" ({counts.may_replace:,} {verb})"
    return ", ".join(texts.values()) or "no resources"


def outcome(stack: Stack, comparison: str = "base") -> str:
    """Return the result of a stack: the end of a sentence that begins with its name.

    `comparison` is the field `how` of the report.
    """
    if comparison == "drift" and stack.status == Status.FAILED:
        return "cannot be read, so its drift is unknown"
    if comparison == "drift" and is_quiet(stack):
        return f"has not drifted, {counted(stack.counts)}"
    if stack.status == Status.FAILED:
        return "cannot be previewed, so it is not safe to merge"
    if stack.status == Status.BASE_FAILED:
        return "not compared, because the base does not deploy"
    if stack.status == Status.REMOVED:
        stays = "stays until it is destroyed" if total(stack) == 1 else "stay until they are destroyed"
        return f"its stack file is removed, and {number(total(stack), 'resource')} {stays}"
    if is_quiet(stack):
        # A gate that the program no longer declares changes no property, but it is a danger.
        nothing = "no property changes" if of_severity(stack, Severity.DANGER) else "nothing changes"
        return f"{nothing}, {counted(stack.counts)}"
    outputs = f", {number(len(stack.outputs), 'output differs', 'outputs differ')}" if stack.outputs else ""
    return f"{'new, ' if stack.status == Status.NEW else ''}{counted(stack.counts)}{outputs}"


def concerns(stack: Stack) -> str:
    """Return the counts of dangers and violations, such as `1 danger, 2 mandatory policies violated`, or ""."""
    mandatory = sum(each.level == "mandatory" for each in stack.violations)
    advisory = len(stack.violations) - mandatory
    dangers = len(of_severity(stack, Severity.DANGER))
    parts = [
        number(dangers, "danger") if dangers else "",
        number(mandatory, "mandatory policy violated", "mandatory policies violated") if mandatory else "",
        number(advisory, "advisory policy violated", "advisory policies violated") if advisory else "",
    ]
    return ", ".join(part for part in parts if part)


def question(report: Report) -> str:
    """Return a phrase for the question that the report answers."""
    return "what differs" if report.how == "drift" else "what would happen"


def total(stack: Stack) -> int:
    """Return the number of all resources, including deleted ones."""
    counts = stack.counts
    return counts.create + counts.update + counts.replace + counts.delete + counts.same


def is_quiet(stack: Stack) -> bool:
    """Return True if the stack was compared, and no resource or output of it changes."""
    counts = stack.counts
    differs = counts.create or counts.update or counts.replace or counts.delete or counts.moved or stack.outputs
    return stack.status in (Status.PREVIEWED, Status.NEW) and not differs


def base_hint(stack: Stack) -> str:
    """Return a hint for a base that fails because sandbox.yaml does not list an existing resource, or ""."""
    return _LIST_IT if stack.status == Status.BASE_FAILED and _UNLISTED.search(stack.error) else ""


def policies(stack: Stack) -> str:
    """Return the sentence on policy packs; empty if none was given, or if the preview failed before they ran."""
    return "" if stack.status == Status.FAILED or stack.policies == NO_PACK else stack.policies


def of_severity(stack: Stack, *severities: Severity) -> list[Finding]:
    """Return the findings of a stack that have one of these severities."""
    return [each for each in stack.findings if each.severity in severities]


def sentence(found: Finding) -> str:
    """Return the text of a finding, with a full stop if a hint follows."""
    return found.text if not found.hint or found.text[-1:] in _SENTENCE_ENDS else f"{found.text}."


def without_repeats(violations: Iterable[Violation]) -> Iterator[Violation]:
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


def causes_first(resources: Sequence[Resource]) -> list[Resource]:
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


def worst_first(resources: Iterable[Resource]) -> list[Resource]:
    """Return the resources, sorted from the worst to the least severe operation."""
    order = list(OPERATION_TEXTS)
    return sorted(resources, key=lambda each: order.index(each.operation))


def failed_first(stacks: Iterable[Stack]) -> list[Stack]:
    """Return the stacks, with those that could not be previewed first."""
    return sorted(stacks, key=lambda each: each.status not in (Status.FAILED, Status.BASE_FAILED))


def signs(amounts: Iterable[str]) -> str:
    """Return the meaning of each sign (`≥`, `?`) in these amounts, or ""."""
    shown = "".join(amounts)
    return " ".join(texts for sign, texts in _SIGNS.items() if sign in shown)


def worst_month(stack: Stack) -> str:
    """Return the cost of the worst month before and after, or "" if no cost is known."""
    return change(stack.cost.before, stack.cost.after, "worst_month_usd") if stack.cost else ""


def change(before: Amount | None, after: Amount | None, field: str) -> str:
    """Return a change in USD, such as `1.20 → 2.40 (+1.20)`.

    `≥` marks an amount for which only some prices are known, `?` one without a known price.
    """
    old, new = _value(before, field), _value(after, field)
    shown = f"{_usd(before, old)} → {_usd(after, new)}"
    if before is None or after is None:
        return shown if before or after else "none"
    if _usd(before, old) == _usd(after, new):
        return _usd(after, new)
    # A difference between two minimums has no meaning.
    if old is None or new is None or before.at_least or after.at_least:
        return shown
    return f"{shown} ({new - old:+,.2f})"


def _value(amount: Amount | None, field: str) -> float | None:
    found: float | None = getattr(amount, field, None)
    return found


def _usd(amount: Amount | None, value: float | None) -> str:
    if amount is None:
        return "none"
    return "?" if value is None else f"{'≥ ' if amount.at_least else ''}{value:,.2f}"


def commit(revision: Side) -> str:
    """Return the first 10 characters of the commit, as Git abbreviates in a large repository."""
    return revision.commit[:10]


def origin(report: Report) -> str:
    """Return a phrase for the kind of comparison."""
    return COMPARISON_TEXTS[report.how]
