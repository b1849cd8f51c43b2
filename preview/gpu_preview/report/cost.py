"""Compares the cost of a stack's pools before and after, from its two stack files. No code of the head runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import click
from gpu_catalog import cost as catalog_cost
from gpu_catalog.cost import Metered, StackCost
from gpu_ci.cli import stack_files
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.stack import quotas
from gpu_ci.stack.pools import POOLS

from .. import project_file, stack_yaml
from ..model import Amount, Cost, Finding, PoolCost, Severity
from .danger_rule import BEYOND_BUDGET
from .locations import StackLines

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
        except UnpricedError as error:
            findings.append(_unpriced(f"the cost is not known: the stack file of the {revision} {error}"))
    if findings or not any(found.values()):
        return None, findings
    old, new = found["base"], found["head"]
    pools_before, pools_after = _pools(old), _pools(new)
    names = sorted({*pools_before, *pools_after})
    changed = [
        PoolCost(pool=name, before=pools_before.get(name), after=pools_after.get(name))
        for name in names
        if pools_before.get(name) != pools_after.get(name)
    ]
    return Cost(before=_total(old), after=_total(new), pools=tuple(changed)), []


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
        return (
            []
            if old is not None and old >= after.worst_month_usd
            else [BEYOND_BUDGET.of(f"{sentence}, over {ceiling}")]
        )
    return [_note(f"{sentence}, so it is unknown whether the month is within {ceiling}")] if after.at_least else []


class UnpricedError(Exception):
    """The reason why a stack file has no cost, without the file's content."""


def read(path: Path) -> StackFile | None:
    """Return the pools of a stack file, or None without gpu-ci pools. UnpricedError if the file is unusable."""
    try:
        if not StackLines(path.name, stack_yaml.compose(path)).has(POOLS):
            if POOLS in project_file.defaults(path):
                raise UnpricedError(f"has no {POOLS}, and those of Pulumi.yaml, which every stack has, are not read")
            return None
        return _stack_file(path, path.read_text(encoding="utf-8"))
    except stack_yaml.InvalidStackFileError as error:
        raise UnpricedError(str(error)) from None
    except click.ClickException as error:
        raise UnpricedError(_without(error.message.splitlines()[0], path)) from None


@lru_cache(maxsize=4)
def _stack_file(path: Path, _content: str) -> StackFile:
    """Cache the pools: cost and quotas both need them, and checking 100 pools takes a third of a second."""
    return stack_files.read(path)


def _of(path: Path) -> StackCost | None:
    file = read(path)
    if file is None:
        return None
    _, problems = file.checked
    if problems:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise UnpricedError(f"has {count}, the first at {problems[0].path}: {problems[0].text}")
    return quotas.cost_of(file.pools)


def _pools(found: StackCost | None) -> Mapping[str, Amount]:
    if found is None:
        return {}
    machines = {each.demand.pool: _amount(each) for each in found.pools}
    return machines | {each.pool: _metered(each) for each in found.metered}


def _amount(pool: catalog_cost.PoolCost) -> Amount:
    return Amount(
        at_rest_usd_per_hour=pool.usd_per_hour_at_rest,
        at_max_usd_per_hour=pool.usd_per_hour_at_max,
        worst_month_usd=pool.usd_worst_month,
    )


def _metered(_pool: Metered) -> Amount:
    """Return the cost of a pool billed by usage: nothing at rest, and unknown otherwise."""
    return Amount(at_rest_usd_per_hour=0.0)


def _total(found: StackCost | None) -> Amount | None:
    if found is None:
        return None
    total = found.total
    return Amount(
        at_rest_usd_per_hour=total.usd_per_hour_at_rest,
        at_max_usd_per_hour=total.usd_per_hour_at_max,
        worst_month_usd=total.usd_worst_month,
        at_least=total.at_least,
    )


def _unpriced(text: str) -> Finding:
    hint = "gpu-ci check names every problem of a stack file"
    return Finding(rule=NO_COST, severity=Severity.NOTE, text=text, hint=hint)


def _note(text: str) -> Finding:
    return BEYOND_BUDGET.of(text).model_copy(update={"severity": Severity.NOTE})


def _without(text: str, path: Path) -> str:
    """Return a message such as `…/Pulumi.x.yaml:3:1: is not valid YAML` with the report's path of the file."""
    at, _, rest = text.removeprefix(str(path)).partition(": ")
    return f"{rest} (line {at.split(':')[1]})" if at.startswith(":") else rest
