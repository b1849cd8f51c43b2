"""Checks the pools in a stack file: each pool with the model of its kind, and the labels of all pools together.

The choices of a pool are the fields that the user wrote for it. Its wiring is the arguments that the program adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..errors import Problem, in_yaml
from ..kinds import component_for, kind_names
from ..pool_args import PoolArgs
from ..pool_kind import EXAMPLE_KIND
from .entries import Family, Spec, region_of_choices

POOLS = "gpu-ci:pools"
FAMILY = Family(
    POOLS,
    "pool",
    "l4",
    EXAMPLE_KIND,
    "docs/reference/pools.md",
    kind_names,
    component_for,
)


@dataclass(frozen=True)
class PoolSpec(Spec):
    """One pool of the stack file, of a known kind."""

    @property
    def model(self) -> type[PoolArgs]:
        """The model of the arguments."""
        return cast("type[PoolArgs]", self.component.ARGS)

    @property
    def regions(self) -> list[str]:
        """Its own region, and the regions of its ladder. Invalid rungs are skipped."""
        ladder = self.choices.get("ladder")
        rungs = [rung for rung in ladder if isinstance(rung, Mapping)] if isinstance(ladder, list) else []
        return list(dict.fromkeys([self.region, *(region_of_choices(rung) for rung in rungs)]))

    @property
    def problems_of_context(self) -> list[Problem]:
        github = self.wiring.get("github")
        return self.model.problems_with_runners(self.choices, "appId" in github) if github else []


def valid_pools(specs: Iterable[PoolSpec], problems: Iterable[Problem]) -> list[tuple[str, PoolArgs]]:
    """Return name and arguments of the pools without a problem of their own."""
    wrong = tuple(problem.path for problem in problems)
    return [
        (spec.name, spec.args)
        for spec in specs
        if spec.args
        and not any(path == spec.path or path.startswith((f"{spec.path}.", f"{spec.path}[")) for path in wrong)
    ]


def missing(pools: Any) -> list[Problem]:
    """Report a stack without pools."""
    if pools is not None and pools != {}:
        return []
    hint = (
        f"add one, such as l4: {{kind: {EXAMPLE_KIND}, …}} (docs/start/add-a-pool.md); to remove the last pool, "
        "run pulumi destroy"
    )
    text = "is missing" if pools is None else "has no pools"
    return [Problem(POOLS, text, "nothing", "pools by name", hint, "missing")]


def images(pools: Iterable[tuple[str, PoolArgs]]) -> list[str]:
    """Return the boot images of the pools, each once."""
    return list(dict.fromkeys(image for _, args in pools for image in args.boot_images))


def problems_of_kinds(specs: Iterable[PoolSpec]) -> list[Problem]:
    """Report what the pools of a kind cannot have together."""
    by_model: dict[type[PoolArgs], dict[str, Mapping[str, Any]]] = {}
    for spec in specs:
        by_model.setdefault(spec.model, {})[spec.path] = spec.choices
    return [problem for model, pools in by_model.items() for problem in model.problems_of_all(pools)]


def same_labels(specs: Iterable[PoolSpec]) -> list[Problem]:
    """Report pools with the same runner labels: GitHub would send the same jobs to both."""
    owners: dict[frozenset[str], PoolSpec] = {}
    return [each for spec in specs for each in _same_labels(spec, owners)]


def _same_labels(spec: PoolSpec, owners: dict[frozenset[str], PoolSpec]) -> list[Problem]:
    """Report a pool with the labels of another one, or make it the owner of its labels."""
    labels = runner_labels(spec)
    if not labels:
        return []
    # GitHub compares labels without case (docs.github.com, "Using labels with self-hosted runners").
    owner = owners.setdefault(frozenset(label.casefold() for label in labels), spec)
    if owner is spec:
        return []
    # The default labels of a pool include its name. So at least one of the two pools has the field runnerLabels.
    wrong, other = (spec, owner) if "runnerLabels" in spec.choices else (owner, spec)
    labels = runner_labels(wrong)
    better = f"such as runnerLabels: {in_yaml([*dict.fromkeys(labels), wrong.name])}"
    return [
        Problem(
            f"{wrong.path}.runnerLabels",
            f"has the same runner labels as the pool {other.name}",
            in_yaml(labels),
            "labels that no other pool has",
            better if wrong.name not in labels else f"give the pool {other.name} other labels",
            rule="duplicate-labels",
        )
    ]


def runner_labels(spec: PoolSpec) -> list[str]:
    """Return the labels of the pool's runners, even if other fields of the pool are invalid."""
    given = spec.choices.get("runnerLabels")
    if given is None:
        return spec.model.default_labels(spec.name)
    if not isinstance(given, list) or not all(isinstance(label, str) for label in given):
        return []
    return list(given)
