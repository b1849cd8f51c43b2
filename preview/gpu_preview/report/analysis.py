"""Finds dangers, costs and policy violations in the changes that the engine reports, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..engine import events
from ..engine.digest import Digest
from ..engine.program import clean
from ..engine.states import STACK, Change, State
from ..model import Finding, Operation, Severity, Stack, Violation
from . import cost as money
from . import danger_rules, locations
from .danger_rules import secrecy
from .locations import SourceFiles

# The program's warning about outdated prices (gpu_catalog/staleness.py), which matters only if a cost changes.
_OLD_PRICES = re.compile(r"the prices? of .+ (?:was|were) read on ")


def analyze(stack: Stack, found: Digest, files: SourceFiles, log: Path, max_usd_month: float | None) -> Stack:
    """Return a stack's part of the report. `log` is the engine's event log."""
    before, after = states(found)
    outputs = events.outputs(log)
    # The engine writes its digest before the program has set the outputs.
    before, after = (_with_outputs(*pair) for pair in ((before, outputs.before), (after, outputs.after)))
    creates_resources = any(each.operation in (Operation.CREATE, Operation.REPLACE) for each in found.resources)
    cost, unknown = money.cost(files.before, files.after)
    other_findings = [
        *secrecy.in_stack_files(files.before, files.after, files.lines),
        *money.check_budget(cost, max_usd_month),
        *unknown,
        *(each for each in warnings(found) if (cost and cost.pools) or not _OLD_PRICES.match(each.text)),
    ]
    changes = {
        each.urn: Change(each, before.get(each.moved_from or each.urn), after.get(each.urn)) for each in found.resources
    }

    def changed(finding: Finding) -> Finding:
        return finding.model_copy(update={"place": locations.of_change(finding, changes.get(finding.urn), files)})

    def placed(finding: Finding) -> Finding:
        place = finding.place or locations.of_pool_or_source(finding, changes.get(finding.urn), files)
        return finding.model_copy(update={"place": place})

    def broken(violation: Violation) -> Violation:
        return violation.model_copy(update={"place": placed(_finding(violation, changes.get(violation.urn))).place})

    dangers = danger_rules.find(before, after, found.resources)
    touched = {each.urn for each in found.resources if each.operation != Operation.SAME or each.moved_from}
    # Advice about unchanged resources is not part of this review.
    violations = [each for each in stack.violations if each.level == "mandatory" or each.urn in touched]
    return stack.model_copy(
        update={
            "counts": found.counts,
            "resources": found.resources,
            "outputs": outputs.differing(creates_resources=creates_resources),
            "findings": (*map(changed, dangers), *map(placed, other_findings)),
            "violations": tuple(map(broken, violations)),
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
