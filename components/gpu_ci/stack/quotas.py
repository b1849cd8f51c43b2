"""Compares the quota limits in a stack file with the needs of its pools, and computes their cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_catalog import Demand, cost, limits, price, quota

from ..errors import Problem
from ..pool_args import PoolArgs
from ..validation_errors import join

QUOTAS = "gpu-ci:quotas"


@dataclass(frozen=True)
class Quotas:
    """The limits of the stack file and the result of the comparison."""

    given: Mapping[tuple[str, str], limits.Limit] = field(default_factory=dict)
    findings: tuple[quota.Finding, ...] = ()
    mistakes: tuple[Problem, ...] = ()
    """The problems of limits that cannot be read."""

    @property
    def warnings(self) -> list[str]:
        """A warning for each missing limit, and for each limit that may be too small."""
        unknown = [f"{finding.need.name} ({finding.need.region})" for finding in self.findings if not finding.is_short]
        short = [
            f"{_path(finding.need)}: {finding.text}: got {finding.got}, expected {finding.expected}; "
            f"hint: {finding.hint()}"
            for finding in self.findings
            if finding.is_short and not finding.certain
        ]
        unknown_limits = f"{QUOTAS}: lacks {', '.join(unknown)}, so these limits are unknown" if unknown else ""
        return [*short, *([unknown_limits] if unknown_limits else [])]


def demands(pools: Iterable[tuple[str, PoolArgs]]) -> list[Demand]:
    """Return the machines that each pool requires, for pools of machines."""
    return [demand for name, args in pools if (demand := args.demand(name))]


def ladder_demands(pools: Iterable[tuple[str, PoolArgs]]) -> list[Demand]:
    """Return the demand of each rung of the pools' ladders, as if all machines of the pool came from this rung."""
    return [demand for name, args in pools for demand in args.ladder_demands(name)]


def findings(
    demands: Iterable[Demand], given: Mapping[quota.Key, limits.Limit], ladders: Iterable[Demand] = ()
) -> tuple[quota.Finding, ...]:
    """Return the quotas that are too small or unknown.

    Two kinds of findings are not certain, because the pools still work. The limit only lacks the machine of a check,
    which then needs a time with fewer jobs. Or the limit is too small for a rung of a ladder, and the pool can use
    other rungs.
    """
    needed = list(demands)
    found = {(each.need.region, each.need.metric): each for each in quota.compare(quota.needs(needed), given)}
    without_checks = quota.needs(replace(each, machines_of_a_check=0) for each in needed)
    too_small = {(each.need.region, each.need.metric) for each in quota.compare(without_checks, given)}
    for key in found.keys() - too_small:
        found[key] = replace(found[key], certain=False, only_for_checks=True)
    for demand in ladders:
        # Rungs are compared separately, even if they use the same quota, because they never have all machines together.
        for each in quota.compare(quota.needs([demand]), given):
            found.setdefault((each.need.region, each.need.metric), replace(each, certain=False))
    return tuple(found.values())


def check(
    values: Any, demands: Iterable[Demand], project: str, ladders: Iterable[Demand] = ()
) -> tuple[Quotas, list[Problem]]:
    """Return the limits, and every problem with them. A limit that is certainly too small is a problem."""
    if values is None:
        return Quotas(), []
    given, wrong = limits.from_mapping(values)
    mistakes = [
        Problem(
            _joined(mistake.path),
            mistake.text,
            mistake.got,
            mistake.expected,
            mistake.hint or _EXAMPLE,
            rule="wrong-quota",
        )
        for mistake in wrong
    ]
    found = Quotas(given, findings(demands, given, ladders), tuple(mistakes))
    return found, mistakes + [
        _problem(finding, project) for finding in found.findings if finding.is_short and finding.certain
    ]


_EXAMPLE = "such as us-central1: {NVIDIA_L4_GPUS: 4}"


def _problem(finding: quota.Finding, project: str) -> Problem:
    expected = f"{finding.expected}: max, and one machine for the check of a template"
    return Problem(
        _path(finding.need), finding.text, finding.got, expected, finding.hint(project), rule="quota-too-small"
    )


def _path(need: quota.Need) -> str:
    return _joined(limits.path_of(need.region, need.metric))


def _joined(steps: Iterable[str]) -> str:
    path = QUOTAS
    for step in steps:
        path = join(path, step)
    return path


def cost_of(pools: Iterable[tuple[str, PoolArgs]]) -> cost.StackCost:
    """Return the cost of the pools. For a pool with a ladder, the cost is computed with its most expensive rung."""
    found = list(pools)
    metered = [each for name, args in found if (each := args.metered(name))]
    rungs: dict[str, list[Demand]] = {}
    for demand in (*demands(found), *ladder_demands(found)):
        rungs.setdefault(demand.pool, []).append(demand)
    return cost.of_stack(map(_most_expensive, rungs.values()), metered)


def _most_expensive(rungs: Iterable[Demand]) -> Demand:
    """Return the most expensive rung. A rung with an unknown price counts as the most expensive."""
    prices = {demand: price(demand.machine, demand.region, demand.market) for demand in rungs}
    return max(prices, key=lambda demand: found.usd_per_hour if (found := prices[demand]) else float("inf"))
