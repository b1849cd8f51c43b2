"""Finds dangers, costs and policy violations in the changes that the engine reports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from gpu_catalog import cost as catalog_cost
from gpu_catalog.cost import StackCost
from gpu_ci.cli import stack_files
from gpu_ci.stack import quotas
from gpu_ci.stack.pools import POOLS

from .. import pulumi_files
from ..engine import events
from ..engine.digest import Digest
from ..engine.program import clean
from ..engine.states import STACK, State
from ..json_text import as_map
from ..model import Amount, Cost, Finding, Operation, PoolCost, Severity, Stack
from . import danger_rules
from .danger_rule import BEYOND_BUDGET
from .danger_rules import secrecy

# The program's warning about outdated prices (gpu_catalog/staleness.py), which matters only if a cost changes.
_OLD_PRICES = re.compile(r"the prices? of .+ (?:was|were) read on ")


def analyze(
    stack: Stack, found: Digest, old: Path | None, new: Path | None, log: Path, max_usd_month: float | None
) -> Stack:
    """Return a stack's part of the report.

    `old` and `new` are the stack files of both revisions, and `log` is the engine's event log.
    """
    before, after = states(found)
    outputs = events.outputs(log)
    # The engine writes its digest before the program has set the outputs.
    before, after = (_with_outputs(*pair) for pair in ((before, outputs.before), (after, outputs.after)))
    creates_resources = any(each.operation in (Operation.CREATE, Operation.REPLACE) for each in found.resources)
    money, unknown = cost(old, new)
    other_findings = [
        *secrecy.in_stack_files(old, new, stack.file),
        *check_budget(money, max_usd_month),
        *unknown,
        *(each for each in warnings(found) if (money and money.pools) or not _OLD_PRICES.match(each.text)),
    ]
    dangers = danger_rules.find(before, after, found.resources)
    touched = {each.urn for each in found.resources if each.operation != Operation.SAME or each.moved_from}
    # Advice about unchanged resources is not part of this review.
    violations = [each for each in stack.violations if each.level == "mandatory" or each.urn in touched]
    return stack.model_copy(
        update={
            "counts": found.counts,
            "resources": found.resources,
            "outputs": outputs.differing(creates_resources=creates_resources),
            "findings": (*dangers, *other_findings),
            "violations": tuple(violations),
            "cost": money,
        }
    )


def states(found: Digest) -> tuple[dict[str, State], dict[str, State]]:
    """Return the resources of base and head by their URNs."""
    before = {str(state.get("urn")): State.of(state) for state in found.before.values()}
    return before, {urn: State.of(state) for urn, state in found.after.items()}


def _with_outputs(pair: Mapping[str, State], outputs: Mapping[str, Any]) -> dict[str, State]:
    return {urn: replace(each, outputs=outputs) if each.type == STACK else each for urn, each in pair.items()}


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


NO_COST = "no-cost"
"""The rule of a note that says why the report has no cost."""


def cost(before: Path | None, after: Path | None) -> tuple[Cost | None, list[Finding]]:
    """Return the cost of the pools in two stack files, with findings. None stands for a missing file.

    If a file cannot be read or has a mistake in its pools, a finding says so. Then there is no cost, because the cost
    of only one file would look like a change. If neither file has pools, there is no cost and no finding.
    """
    found: dict[str, StackCost | None] = {}
    findings: list[Finding] = []
    for revision, path in (("base", before), ("head", after)):
        try:
            found[revision] = _of(path) if path else None
        except UnpricedError:
            text = f"the cost is not known: the pools in the stack file of the {revision} cannot be read"
            hint = f"gpu-ci check names every problem of a stack file; {POOLS} of Pulumi.yaml is not read"
            findings.append(Finding(rule=NO_COST, severity=Severity.NOTE, text=text, hint=hint))
    if findings or not any(found.values()):
        return None, findings
    old, new = found["base"], found["head"]
    pools_before, pools_after = _pools(old), _pools(new)
    changed = [
        PoolCost(pool=name, before=pools_before.get(name), after=pools_after.get(name))
        for name in sorted({*pools_before, *pools_after})
        if pools_before.get(name) != pools_after.get(name)
    ]
    totals = [None if each is None else _amount(each.total, each.total.at_least) for each in (old, new)]
    return Cost(before=totals[0], after=totals[1], pools=tuple(changed)), []


def check_budget(found: Cost | None, ceiling_usd_month: float | None) -> list[Finding]:
    """Return a finding if the cost of the worst month grows above a ceiling, or if that is unknown."""
    if found is None or found.after is None or ceiling_usd_month is None:
        return []
    before, after = found.before, found.after
    if before == after:
        return []
    ceiling = f"the ceiling of {ceiling_usd_month:,.0f} USD"
    if after.worst_month_usd is None:
        return [_note(f"no price is known, so it is unknown whether the worst month is within {ceiling}")]
    least = "at least " if after.at_least else ""
    sentence = f"the worst month of all pools is {least}{after.worst_month_usd:,.0f} USD"
    if after.worst_month_usd > ceiling_usd_month:
        # A change that lowers a cost above the ceiling is an improvement. The rest was reported before.
        old = before.worst_month_usd if before else None
        is_lower = old is not None and old >= after.worst_month_usd
        return [] if is_lower else [BEYOND_BUDGET.of(f"{sentence}, over {ceiling}")]
    return [_note(f"{sentence}, so it is unknown whether the month is within {ceiling}")] if after.at_least else []


class UnpricedError(Exception):
    """A stack file has no cost, because its pools cannot be read or have a mistake."""


def _of(path: Path) -> StackCost | None:
    """Return the cost of the pools of a stack file, or None without gpu-ci pools."""
    try:
        if POOLS not in as_map(as_map(pulumi_files.loaded(path)).get("config")):
            if POOLS in pulumi_files.defaults(path):
                raise UnpricedError
            return None
        file = stack_files.read(path)
        file.refuse_mistakes()
    except (pulumi_files.InvalidStackFileError, click.ClickException):
        raise UnpricedError from None
    return quotas.cost_of(file.pools)


def _pools(found: StackCost | None) -> Mapping[str, Amount]:
    if found is None:
        return {}
    machines = {
        each.demand.pool: _amount(each).model_copy(update={"max_machines": each.demand.max_machines})
        for each in found.pools
    }
    # A pool billed by usage costs nothing at rest, and an unknown amount otherwise.
    return machines | {each.pool: Amount(at_rest_usd_per_hour=0.0) for each in found.metered}


def _amount(of: catalog_cost.PoolCost | catalog_cost.Total, at_least: bool = False) -> Amount:
    return Amount(
        at_rest_usd_per_hour=of.usd_per_hour_at_rest,
        at_max_usd_per_hour=of.usd_per_hour_at_max,
        worst_month_usd=of.usd_worst_month,
        at_least=at_least,
    )


def _note(text: str) -> Finding:
    return BEYOND_BUDGET.of(text).model_copy(update={"severity": Severity.NOTE})
