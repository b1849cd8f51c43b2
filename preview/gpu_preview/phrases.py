"""Phrases that the forms of a report share."""

from __future__ import annotations

from collections.abc import Iterable

from .model import Counts, Finding, Operation, Resource, Severity, Stack, Status

NO_PACK = "no policy pack was given"

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


def total(stack: Stack) -> int:
    """Return the number of all resources, including deleted ones."""
    counts = stack.counts
    return counts.create + counts.update + counts.replace + counts.delete + counts.same


def is_quiet(stack: Stack) -> bool:
    """Return True if the stack was compared, and no resource or output of it changes."""
    counts = stack.counts
    differs = counts.create or counts.update or counts.replace or counts.delete or counts.moved or stack.outputs
    return stack.status in (Status.PREVIEWED, Status.NEW) and not differs


def of_severity(stack: Stack, *severities: Severity) -> list[Finding]:
    """Return the findings of a stack that have one of these severities."""
    return [each for each in stack.findings if each.severity in severities]


def worst_first(resources: Iterable[Resource]) -> list[Resource]:
    """Return the resources, sorted from the worst to the least severe operation."""
    order = list(OPERATION_TEXTS)
    return sorted(resources, key=lambda each: order.index(each.operation))
