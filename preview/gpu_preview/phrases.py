"""The words that the forms of a report share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from gpu_catalog.cost import NOT_INCLUDED

from .model import Amount, Counts, Finding, Operation, Report, Resource, Severity, Side, Stack, Status, Violation

NONE_ASKED = "no policy pack was asked"

SECRETS_TAKEN = "whose secrets are taken for unchanged"
"""What a comparison with an exported state cannot see."""

NOT_IN_COSTS = f"{' and '.join(NOT_INCLUDED).capitalize()} are in none of these amounts."
"""What no price of the catalog holds."""

# The sandbox's hint at a reference to something that neither the program makes nor sandbox.yaml names.
_MISSED = re.compile(r"\b(?:list|add) (?:it|its \w+) in sandbox\.yaml\b")
_LIST_IT = "The base's own sandbox.yaml has to list what exists already: commit it to the base first."
_SIGNS = {
    "≥": "≥: at least that, without what is billed by use or has no known price.",
    "?": "?: billed by use, or no price is known.",
}
KEEPS_JOBS = "keeps-jobs"
"""The rule of a finding that says what interrupts no job; a comment is made without the rules themselves."""

# The worst first, as in the sentences that count them.
DONE = {
    Operation.REPLACE: "replaced",
    Operation.DELETE: "deleted",
    Operation.CREATE: "created",
    Operation.UPDATE: "updated",
    Operation.SAME: "unchanged",
}
_STOPS = (".", "!", "?", "…")
HOW = {
    "base": "compared with the base, brought up offline",
    "state": "compared with what is exported of each stack",
    "credentials": "previewed with credentials",
    "drift": "what exists, compared with the state",
}


def number(count: int, one: str, many: str = "") -> str:
    """Such as `1 danger`, `2 dangers`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted(counts: Counts) -> str:
    """Such as `1 replaced, 2 updated, 66 unchanged`; those there are none of are left out."""
    parts = [(getattr(counts, operation.value), word) for operation, word in DONE.items()]
    parts.insert(-1, (counts.moved, "moved"))
    texts = {word: f"{count:,} {word}" for count, word in parts if count}
    if counts.may_replace and counts.update:
        verb = "may be a replacement" if counts.may_replace == 1 else "may be replacements"
        texts[DONE[Operation.UPDATE]] += f" ({counts.may_replace:,} {verb})"
    return ", ".join(texts.values()) or "no resources"


def outcome(stack: Stack, how: str = "base") -> str:
    """What would happen to the stack, or did (`how` is a report's), as the end of a sentence that its name begins."""
    if how == "drift" and stack.status == Status.FAILED:
        return "cannot be read, so nobody knows whether it is as it was left"
    if how == "drift" and is_quiet(stack):
        return f"is as it was left, {counted(stack.counts)}"
    if stack.status == Status.FAILED:
        return "cannot be previewed, so it is not safe to merge"
    if stack.status == Status.BASE_FAILED:
        return "not compared, because the base does not come up"
    if stack.status == Status.REMOVED:
        stays = "stays until somebody destroys it" if total(stack) == 1 else "stay until somebody destroys them"
        return f"its stack file is gone, and {number(total(stack), 'resource')} {stays}"
    if is_quiet(stack):
        # A gate that is gone from a program's code changes no property, and much.
        nothing = "no property changes" if of_severity(stack, Severity.DANGER) else "nothing changes"
        return f"{nothing}, {counted(stack.counts)}"
    outputs = f", {number(len(stack.outputs), 'output differs', 'outputs differ')}" if stack.outputs else ""
    return f"{'new, ' if stack.status == Status.NEW else ''}{counted(stack.counts)}{outputs}"


def concerns(stack: Stack) -> str:
    """How many dangers and broken policies, such as `1 danger, 2 mandatory policies broken`; empty for none."""
    mandatory = sum(each.level == "mandatory" for each in stack.violations)
    advisory = len(stack.violations) - mandatory
    dangers = len(of_severity(stack, Severity.DANGER))
    parts = [
        number(dangers, "danger") if dangers else "",
        number(mandatory, "mandatory policy broken", "mandatory policies broken") if mandatory else "",
        number(advisory, "advisory policy broken", "advisory policies broken") if advisory else "",
    ]
    return ", ".join(part for part in parts if part)


def asked(report: Report) -> str:
    """What the outcomes of its stacks answer."""
    return "what differs" if report.how == "drift" else "what would happen"


def total(stack: Stack) -> int:
    """How many resources there are, and were."""
    counts = stack.counts
    return counts.create + counts.update + counts.replace + counts.delete + counts.same


def is_quiet(stack: Stack) -> bool:
    """Whether nothing happens to any resource or output of a stack that was compared."""
    counts = stack.counts
    differs = counts.create or counts.update or counts.replace or counts.delete or counts.moved or stack.outputs
    return stack.status in (Status.PREVIEWED, Status.NEW) and not differs


def base_hint(stack: Stack) -> str:
    """What to do about a base in which something is missed that exists; empty where nothing says so."""
    return _LIST_IT if stack.status == Status.BASE_FAILED and _MISSED.search(stack.error) else ""


def policies(stack: Stack) -> str:
    """Which policies were asked; empty where none was to be, or where the preview failed before they were."""
    return "" if stack.status == Status.FAILED or stack.policies == NONE_ASKED else stack.policies


def of_severity(stack: Stack, *severities: Severity) -> list[Finding]:
    """The stack's findings of these severities."""
    return [each for each in stack.findings if each.severity in severities]


def sentence(found: Finding) -> str:
    """What it says, with a full stop where a hint follows."""
    return found.text if not found.hint or found.text[-1:] in _STOPS else f"{found.text}."


def without_repeats(violations: Iterable[Violation]) -> Iterator[Violation]:
    """Violations, the mandatory first, each without what the same rule has said before: what it is for, which is the
    first line of its text, and how to mend it, which is the last."""
    known_lines: dict[tuple[str, str], list[str]] = {}
    for each in sorted(violations, key=lambda each: (each.level != "mandatory", each.pack, each.policy)):
        lines = each.text.splitlines()
        known = known_lines.get((each.pack, each.policy), [])
        new = [line for line in lines if line not in known] or lines
        known_lines.setdefault((each.pack, each.policy), [lines[0], lines[-1]] if len(lines) > 2 else [])
        yield each.model_copy(update={"text": "\n".join(new)})


def causes_first(resources: Sequence[Resource]) -> list[Resource]:
    """Resources, each after those among them that it depends on; as they are where they depend on each other."""
    listed = {each.urn: each for each in resources}
    # Each goes in by itself first, because the sorter keeps the order in which it met them.
    sorter = TopologicalSorter(dict.fromkeys(listed, ()))
    for each in listed.values():
        sorter.add(each.urn, *(urn for urn in each.depends_on if urn in listed))
    try:
        return [listed[urn] for urn in sorter.static_order()]
    except CycleError:
        return list(resources)


def worst_first(resources: Iterable[Resource]) -> list[Resource]:
    """Resources, the worst operation first."""
    order = list(DONE)
    return sorted(resources, key=lambda each: order.index(each.operation))


def failed_first(stacks: Iterable[Stack]) -> list[Stack]:
    """Stacks, those that could not be previewed first: that is the first thing to know."""
    return sorted(stacks, key=lambda each: each.status not in (Status.FAILED, Status.BASE_FAILED))


def signs(amounts: Iterable[str]) -> str:
    """What the signs mean that stand in these amounts; empty where none does."""
    shown = "".join(amounts)
    return " ".join(texts for sign, texts in _SIGNS.items() if sign in shown)


def worst_month(stack: Stack) -> str:
    """What its pools cost in the worst month, before and after; empty where no cost is known."""
    return change(stack.cost.before, stack.cost.after, "worst_month_usd") if stack.cost else ""


def change(before: Amount | None, after: Amount | None, field: str) -> str:
    """Such as `1.20 → 2.40 (+1.20)`, in USD; `≥` where only a part of the prices is known, `?` where none is."""
    old, new = _value(before, field), _value(after, field)
    shown = f"{_usd(before, old)} → {_usd(after, new)}"
    if before is None or after is None:
        return shown if before or after else "none"
    if _usd(before, old) == _usd(after, new):
        return _usd(after, new)
    # Of two lowest values the difference says nothing.
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
    """The first characters of the commit, as many as Git shows in a repository of some size."""
    return revision.commit[:10]


def origin(report: Report) -> str:
    """How the comparison was made."""
    return HOW[report.how]
