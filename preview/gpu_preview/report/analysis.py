"""Finds dangers, costs and policy violations in the changes that the engine reports, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpu_ci.stack.pools import POOLS

from ..engine import events as engine_events
from ..engine.digest import Digest
from ..engine.output import clean
from ..engine.states import STACK, Change, State
from ..model import Cost, Finding, Operation, Severity, Stack, Violation
from ..phrases import number
from . import cost as money
from . import dangers, locations
from .danger_rules import stack_file
from .locations import StackLines


@dataclass(frozen=True)
class Files:
    """The files of one stack. The stack files at `before` and `after` are copies that the head's code cannot change."""

    name: str
    """The path of the stack file, relative to the root of the repository."""
    root: Path
    """The head's files. Only their names are used."""
    project: str
    """The folder of Pulumi.yaml, relative to the root."""
    before: Path | None
    """The stack file of the base, or None."""
    after: Path | None
    """The stack file of the head, or None."""
    base: Path | None = None
    """The base's files, or None."""


def analyze(
    stack: Stack, found: Digest, files: Files, *, events: Path | None = None, max_usd_month: float | None = None
) -> Stack:
    """Return a stack's part of the report. `events` is the engine's event log, if it exists."""
    before, after = states(found)
    outputs = engine_events.outputs(events) if events else None
    if outputs:
        # The engine writes its digest before the program has set the outputs.
        before, after = (_with_outputs(*pair) for pair in ((before, outputs.before), (after, outputs.after)))
    creates_resources = any(each.operation in (Operation.CREATE, Operation.REPLACE) for each in found.resources)
    cost, unknown = money.cost(files.before, files.after)
    other_findings = [
        *stack_file.find(files.before, files.after, files.name),
        *money.check_budget(cost, max_usd_month),
        *unknown,
        *(shown for each in warnings(found) if (shown := _of_changed_prices(each, cost))),
    ]
    changes = {
        each.urn: Change(each, before.get(each.moved_from or each.urn), after.get(each.urn)) for each in found.resources
    }
    lines, old = (StackLines.read(path, files.name) if path else None for path in (files.after, files.before))
    compared = locations.SourceFiles(files.root, files.project, lines, old, files.base)

    def changed(finding: Finding) -> Finding:
        finding = _with_removed_pool(finding, lines, old)
        return finding.model_copy(update={"place": locations.of_change(finding, changes.get(finding.urn), compared)})

    def placed(finding: Finding) -> Finding:
        place = finding.place or locations.of_pool_or_source(finding, changes.get(finding.urn), compared)
        return finding.model_copy(update={"place": place})

    def broken(violation: Violation) -> Violation:
        return violation.model_copy(update={"place": placed(_finding(violation, changes.get(violation.urn))).place})

    touched = {each.urn for each in found.resources if each.operation != Operation.SAME or each.moved_from}
    # Advice about unchanged resources is not part of this review.
    violations = [each for each in stack.violations if each.level == "mandatory" or each.urn in touched]
    left_out = len(stack.violations) - len(violations)
    more = (
        f"; {number(left_out, 'advisory finding')} on unchanged resources {'is' if left_out == 1 else 'are'} not listed"
        if left_out
        else ""
    )
    return stack.model_copy(
        update={
            "counts": found.counts,
            "resources": found.resources,
            "outputs": outputs.differing(creates_resources=creates_resources) if outputs else (),
            "findings": (*map(changed, dangers.find(before, after, found.resources)), *map(placed, other_findings)),
            "violations": tuple(map(broken, violations)),
            "policies": f"{stack.policies}{more}",
            "cost": cost,
        }
    )


def states(found: Digest) -> tuple[dict[str, State], dict[str, State]]:
    """Return the resources of base and head by their URNs."""
    before = {str(state.get("urn")): State.of(state) for state in found.before.values()}
    return before, {urn: State.of(state) for urn, state in found.after.items()}


def _with_outputs(pair: Mapping[str, State], outputs: Mapping[str, Any]) -> dict[str, State]:
    return {urn: replace(each, outputs=outputs) if each.type == STACK else each for urn, each in pair.items()}


def _finding(violation: Violation, change: Change | None) -> Finding:
    """Return a finding for a violation, because a place is searched for a finding."""
    component = change.resource.component if change else ""
    return Finding(
        rule=violation.policy, severity=Severity.DANGER, text=violation.text, urn=violation.urn, component=component
    )


def _with_removed_pool(finding: Finding, lines: StackLines | None, old: StackLines | None) -> Finding:
    """Return a finding. If the head's stack file lacks its pool, add the line that the pool has in the base."""
    pool = (POOLS, finding.component)
    if not finding.component or lines is None or old is None or lines.has(*pool) or not old.has(*pool):
        return finding
    text = f"{finding.text} (removed at base line {old.at(pool).line} of {old.file})"
    return finding.model_copy(update={"text": text})


# A warning reaches the digest only as text, so the pools in it are found by their form (gpu_catalog/staleness.py).
_PRICES_OF = re.compile(r"the prices? of (.+) (?:was|were) read on ")


def _of_changed_prices(warning: Finding, cost: Cost | None) -> Finding | None:
    """Remove the outdated prices of pools whose cost does not change from a warning. Return None if no text remains."""
    if cost is None:
        return warning
    changed = {each.pool for each in cost.pools}
    kept = [
        text
        for text in warning.text.split("; ")
        if not (found := _PRICES_OF.match(text)) or changed & {*found[1].split(", ")}
    ]
    return warning.model_copy(update={"text": "; ".join(kept)}) if kept else None


def warnings(found: Digest) -> Iterator[Finding]:
    """Return the warnings of the program, the engine and the providers, and resources that already exist."""
    for resource in found.resources:
        if resource.imported:
            text = (
                f"{resource.name} exists already and is imported: the stack manages it from now on, and nothing is "
                "created"
            )
            yield Finding(
                rule="imported", severity=Severity.NOTE, text=text, urn=resource.urn, component=resource.component
            )
    components = {each.urn: each.component for each in found.resources}
    for each in found.warnings:
        text, _, hint = clean(each.message.removeprefix("warning: ")).partition("; hint: ")
        component = components.get(each.urn, "")
        yield Finding(
            rule="warning", severity=Severity.WARNING, text=text, hint=hint, urn=each.urn, component=component
        )
