"""Checks the pools in a stack file: each pool with the model of its kind, and the labels of all pools together.

The choices of a pool are the fields that the user wrote for it. Its wiring is the arguments that the program adds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_catalog import region_of

from .. import extras
from ..args import Args
from ..component import Component
from ..errors import ArgsError, Problem, in_yaml
from ..kinds import catalog, component_for, kind_names
from ..validation_errors import join
from . import clusters
from .entries import Family, choice_problems, kind_of, name_problems
from .hints import shape

POOLS = "gpu-ci:pools"
FAMILY = Family("pool", "l4", "gce-runners", "docs/reference/pools.md", kind_names, component_for)
_SHAPE = "pools by name, each with a kind and the fields of that kind"


@dataclass(frozen=True)
class PoolSpec:
    """One pool of the stack file, of a known kind."""

    name: str
    kind: str
    choices: dict[str, Any]
    component: type[Component]
    known_wiring: Mapping[str, Any] = field(default_factory=dict)
    """The wiring that is known before deployment: values of its cluster, and the registration of its runners."""

    @property
    def path(self) -> str:
        return join(POOLS, self.name)

    @property
    def cloud(self) -> str:
        """The cloud in the component's type token."""
        return self.component.TYPE.split(":")[1]

    @property
    def region(self) -> str:
        """The region of the pool: its field region, or the region of its cluster or zones. Empty if none is valid."""
        known = self.choices.get("region") or self.known_wiring.get("region")
        return region_of_choices({**self.choices, "region": known})

    @property
    def regions(self) -> list[str]:
        """The region of the pool, and the regions of its ladder. Invalid rungs are skipped."""
        ladder = self.choices.get("ladder")
        rungs = [rung for rung in ladder if isinstance(rung, Mapping)] if isinstance(ladder, list) else []
        return list(dict.fromkeys([self.region, *(region_of_choices(rung) for rung in rungs)]))

    def args_with_placeholders(self) -> Args:
        """Return the arguments of the pool, with placeholders for values from other resources of the stack."""
        model = self.component.ARGS
        return model(**self.choices, **self.wiring())

    def wiring(self) -> dict[str, Any]:
        """Return the wiring: values that are known before the deployment, and placeholders for the others."""
        return {**self.component.ARGS.placeholder_wiring(self.region, self.choices), **self.known_wiring}


def region_of_choices(choices: Mapping[str, Any]) -> str:
    """Return the chosen region or the region of the zones; empty if neither can be read."""
    region, zones = choices.get("region"), choices.get("zones")
    if isinstance(region, str):
        return region
    return region_of(zones[0]) if isinstance(zones, list) and zones and isinstance(zones[0], str) else ""


def valid_pools(choices: Iterable[PoolSpec], problems: Iterable[Problem]) -> Iterator[tuple[str, Args]]:
    """Yield name and arguments of the pools without a problem of their own."""
    wrong = [problem.path for problem in problems]
    for spec in choices:
        if any(path == spec.path or path.startswith((f"{spec.path}.", f"{spec.path}[")) for path in wrong):
            continue
        try:
            yield spec.name, spec.args_with_placeholders()
        except ArgsError:
            # The arguments from the pool's cluster are invalid. The check of the cluster reports this.
            if "clusterName" not in spec.choices:
                raise


def needed_extras(pools: Any) -> set[str]:
    """Return the extras of this package that the kinds of these pools need. The value may be invalid."""
    given = pools.values() if isinstance(pools, Mapping) else ()
    kinds = [pool.get("kind") for pool in given if isinstance(pool, Mapping)]
    clouds = {each.cloud for each in catalog() if each.kind and each.kind in kinds}
    return {extra for cloud in clouds for extra in extras.OF_CLOUD.get(cloud, ())}


def check(
    pools: Any,
    described: Any = None,
    readable: bool = True,
    registration: Mapping[str, Any] | None = None,
    more_extras: Collection[str] = (),
) -> tuple[list[PoolSpec], list[Problem]]:
    """Return every pool of a known kind, and every problem, sorted by the names of the pools.

    Args:
        pools: The value of gpu-ci:pools.
        described: The value of gpu-ci:clusters. It may be invalid.
        readable: False if gpu-ci:clusters cannot be read, because it is secret.
        registration: The wiring of pools whose runners the runner manager registers.
        more_extras: The extras that other keys of the stack need, for the hint of a missing package.
    """
    known = clusters.known_wiring(described)
    example = f"l4: {{kind: {FAMILY.example_kind}, …}}"
    if pools is None or pools == {}:
        hint = f"add one, such as {example} (docs/start/add-a-pool.md); to remove the last pool, run pulumi destroy"
        return [], [Problem(POOLS, "is missing" if pools is None else "has no pools", "nothing", _SHAPE, hint)]
    if not isinstance(pools, Mapping):
        hint = f"{'write each pool under its name, ' if isinstance(pools, list) else ''}such as {example}"
        return [], [Problem(POOLS, "must be a map", shape(pools), _SHAPE, hint)]
    choices: list[PoolSpec] = []
    problems: list[Problem] = []
    owners: dict[frozenset[str], PoolSpec] = {}
    needed = needed_extras(pools).union(more_extras)
    for name, value in sorted(pools.items()):
        path = join(POOLS, name)
        problems += [problem.under(path) for problem in name_problems(FAMILY, name)]
        kind_of_pool = kind_of(FAMILY, path, value, problems, needed)
        if kind_of_pool is None:
            continue
        given = {key: each for key, each in value.items() if key != kind_of_pool.key}
        cluster = given.get("clusterName")
        model = kind_of_pool.component.ARGS
        known_wiring = known.get(cluster, {}) if isinstance(cluster, str) else {}
        known_wiring |= {key: each for key, each in (registration or {}).items() if key in model.WIRING}
        spec = PoolSpec(name, kind_of_pool.component.KIND, given, kind_of_pool.component, known_wiring)
        problems += clusters.unknown(path, given, known) if readable else []
        found = choice_problems(spec.component, given, known_wiring)
        wrong = [problem for problem in found if kind_of_pool.sure or problem.got != "nothing"]
        problems += [problem.under(path) for problem in wrong]
        problems += _shared_labels(spec, owners)
        choices.append(spec)
    return choices, problems


def images(pools: Iterable[tuple[str, Args]]) -> list[str]:
    """Return the boot images of the pools, each once."""
    return list(dict.fromkeys(str(image) for _, args in pools if (image := getattr(args, "image", ""))))


def _shared_labels(spec: PoolSpec, owners: dict[frozenset[str], PoolSpec]) -> list[Problem]:
    """Report pools with the same runner labels: GitHub would send the same jobs to both."""
    labels = _runner_labels(spec)
    if not labels:
        return []
    # GitHub compares labels without case (docs.github.com, "Using labels with self-hosted runners").
    owner = owners.setdefault(frozenset(label.casefold() for label in labels), spec)
    if owner is spec:
        return []
    # The default labels of a pool include its name. So at least one of the two pools has the field runnerLabels.
    wrong, other = (spec, owner) if "runnerLabels" in spec.choices else (owner, spec)
    labels = _runner_labels(wrong)
    better = f"such as runnerLabels: {in_yaml([*dict.fromkeys(labels), wrong.name])}"
    return [
        Problem(
            f"{wrong.path}.runnerLabels",
            f"has the same runner labels as the pool {other.name}",
            in_yaml(labels),
            "labels that no other pool has",
            better if wrong.name not in labels else f"give the pool {other.name} other labels",
        )
    ]


def _runner_labels(spec: PoolSpec) -> list[str]:
    """Return the labels of the pool's runners, even if other fields of the pool are invalid."""
    given = spec.choices.get("runnerLabels")
    if given is None:
        model: Any = spec.component.ARGS
        unchecked = model.model_construct(runner_labels=None)
        return list(unchecked.runner_labels_of(spec.name)) if hasattr(unchecked, "runner_labels_of") else []
    if not isinstance(given, list) or not all(isinstance(label, str) for label in given):
        return []
    return list(given)
