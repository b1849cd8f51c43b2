"""Checks a map of named entries of a stack file, each with a kind: the pools, and the image pipelines.

The kind of an entry selects its component. The other fields of the entry are arguments of this component.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpu_catalog import region_of
from gpu_common.secret_patterns import redact

from .. import extras, naming
from ..args import Args
from ..component import Component
from ..errors import ArgsError, Problem, did_you_mean, nearest, unknown_key
from ..kinds import ComponentInfo, catalog
from ..validation_errors import join, without_misspelt
from . import clusters
from .clusters import KnownCluster
from .hints import examples_of, shape, with_hint


@dataclass(frozen=True)
class Family:
    """The kinds that the entries of a key of a stack file can have."""

    key: str
    """The key of the stack file, such as gpu-ci:pools."""
    noun: str
    """The word for an entry in messages."""
    example_name: str
    example_kind: str
    """The most common kind, for examples in hints."""
    page: str
    """The page with the fields of each kind."""
    names: Callable[[], tuple[str, ...]]
    component: Callable[[str], type[Component]]
    """The function that imports the component of a kind."""
    kind: Callable[[ComponentInfo], str]
    """The function that returns the kind of a component; empty if the component is not of this family."""


@dataclass(frozen=True)
class Spec:
    """One entry of the stack file, of a known kind."""

    name: str
    kind: str
    choices: dict[str, Any]
    component: type[Component]
    known_wiring: Mapping[str, Any] = field(default_factory=dict)
    """The wiring that is known before deployment, such as values of its cluster."""

    @property
    def cloud(self) -> str:
        """The cloud in the component's type token."""
        return self.component.TYPE.split(":")[1]

    @property
    def on_cluster(self) -> str:
        """The kind of cluster that the entry needs; empty if it needs none."""
        return self.component.ON_CLUSTER

    @property
    def region(self) -> str:
        """The field region, or the region of the cluster or of the zones. Empty if none is valid."""
        known = self.choices.get("region") or self.known_wiring.get("region")
        return region_of_choices({**self.choices, "region": known})


_Spec = TypeVar("_Spec", bound=Spec)


def check_entry(
    family: Family,
    made: type[_Spec],
    name: str,
    value: Any,
    problems: list[Problem],
    needed: Collection[str],
    known: Mapping[str, KnownCluster],
    readable: bool,
    registration: Mapping[str, Any] | None = None,
) -> _Spec | None:
    """Return an entry of a known kind as `made`, and add every problem to `problems`.

    Args:
        family: The family of the entry.
        made: The class of the result.
        name: The name of the entry.
        value: The value of the entry.
        problems: The list to which problems are added.
        needed: The extras that the stack needs.
        known: The clusters of the stack file.
        readable: False if gpu-ci:clusters cannot be read, because it is secret.
        registration: The wiring of pools whose runners the runner manager registers.
    """
    path = join(family.key, name)
    problems += [problem.under(path) for problem in name_problems(family, name)]
    found = kind_of(family, path, value, problems, needed)
    if found is None:
        return None
    component = found.component
    given = {key: each for key, each in value.items() if key != found.key}
    kind = next(family.kind(each) for each in catalog() if each.token == component.TYPE)
    cluster = given.get("clusterName")
    of_cluster = known[cluster].wiring if isinstance(cluster, str) and cluster in known else {}
    wiring = {key: each for key, each in {**of_cluster, **(registration or {})}.items() if key in component.ARGS.WIRING}
    unknown = clusters.unknown(path, given, known, component.ON_CLUSTER) if readable else []
    problems += unknown
    problems += clusters.of_other_kind(path, given, known, kind, component.ON_CLUSTER) if found.sure else []
    wrong = choice_problems(component, given, wiring)
    if unknown:
        # The form of the name has the same cause.
        wrong = [problem for problem in wrong if problem.path != "clusterName"]
    problems += [problem.under(path) for problem in wrong if found.sure or problem.got != "nothing"]
    return made(name, kind, given, component, wiring)


def region_of_choices(choices: Mapping[str, Any]) -> str:
    """Return the chosen region or the region of the zones; empty if neither can be read."""
    region, zones = choices.get("region"), choices.get("zones")
    if isinstance(region, str):
        return region
    return region_of(zones[0]) if isinstance(zones, list) and zones and isinstance(zones[0], str) else ""


def needed_extras(family: Family, value: Any) -> set[str]:
    """Return the extras of this package that the kinds of these entries need. The value may be invalid."""
    given = value.values() if isinstance(value, Mapping) else ()
    kinds = [each.get("kind") for each in given if isinstance(each, Mapping)]
    infos = [each for each in catalog() if (kind := family.kind(each)) and kind in kinds]
    return {extra for info in infos for extra in info.extras}


def name_problems(family: Family, name: str) -> list[Problem]:
    """Report an invalid name. The name of an entry becomes part of the names of its resources."""
    try:
        naming.check(family.noun, name)
    except ArgsError as error:
        # The suggestion omits the hash that `fit` adds. A name that looks like a secret is not shown.
        better = naming.fit(name, 40)[:-7] if redact(name) == name else family.example_name
        [problem] = error.problems
        return [
            Problem("", "the name has a form that is not accepted", problem.got, problem.expected, f"such as {better}")
        ]
    return []


@dataclass(frozen=True)
class KindOfEntry:
    """The component of an entry, or the most likely component if the kind is missing or unknown."""

    component: type[Component]
    key: str = "kind"
    """The key with the kind. It may be misspelt."""
    sure: bool = True
    """False if the kind was guessed from the other fields."""


def kind_of(
    family: Family, path: str, value: Any, problems: list[Problem], needed: Collection[str]
) -> KindOfEntry | None:
    """Return the kind of an entry. For an unknown kind, add a problem to `problems`, and return the most similar kind.

    With the most similar kind, the other fields of the entry can be checked, too. `needed` has the extras that the
    stack needs.
    """
    kinds = family.names()
    if not isinstance(value, Mapping):
        hint = f"such as {{kind: {family.example_kind}, …}}; to remove the {family.noun}, delete its name, too"
        if isinstance(value, str) and re.match(r"\w+:\S", value):
            hint = "write key: value, with a space after the colon"
        problems.append(Problem(path, "must be a map", shape(value), "a kind and the fields of that kind", hint))
        return None
    kind, expected = value.get("kind"), "one of " + ", ".join(kinds)
    if kind in kinds:
        if not (missing := _missing_package(family, kind)):
            return KindOfEntry(family.component(kind))
        expected = "a kind whose packages are installed"
        problems.append(Problem(f"{path}.kind", f"needs {missing}", repr(kind), expected, extras.hint(missing, needed)))
        return None
    key = "kind" if kind is not None else next((key for key in value if did_you_mean(key, ["kind"])), "kind")
    near = nearest(str(value.get(key)), kinds)
    likely = near or _likeliest(family, value)
    if kind is None:
        hint = (
            f"did you mean kind where it says {key}" if key != "kind" else f"add kind: {likely or family.example_kind}"
        )
        problems.append(Problem(f"{path}.kind", "is missing", "nothing", expected, hint))
    else:
        other = f"kinds and their fields are in {family.page}, such as kind: {likely or family.example_kind}"
        hint = f"did you mean {near}" if near else other
        got = repr(kind) if isinstance(kind, str) else shape(kind)
        problems.append(Problem(f"{path}.kind", f"unknown kind of {family.noun}", got, expected, hint))
    return KindOfEntry(family.component(likely), key, sure=bool(near)) if likely else None


def _missing_package(family: Family, kind: str) -> str:
    """Return the module that a kind needs but is not installed. Return an empty text if all modules are installed."""
    try:
        family.component(kind)
    except ModuleNotFoundError as error:
        if not extras.hint(error.name or ""):
            raise
        return error.name or ""
    return ""


def _likeliest(family: Family, value: Mapping[str, Any]) -> str:
    """Return the kind that has most of these keys as fields.

    If several kinds have the same number, return "", unless they share one model: the shared fields have the same
    mistakes in each of them.
    """
    installed = [kind for kind in family.names() if not _missing_package(family, kind)]
    fits = {kind: len(value.keys() & set(family.component(kind).ARGS.choice_names())) for kind in installed}
    best = [kind for kind, fit in fits.items() if fit and fit == max(fits.values())]
    models = {family.component(kind).ARGS.__base__ for kind in best}
    shared = len(models) == 1 and models != {Args} and family.example_kind in best
    return best[0] if len(best) == 1 else family.example_kind if shared else ""


def choice_problems(
    component: type[Component], choices: Mapping[str, Any], known_wiring: Mapping[str, Any]
) -> list[Problem]:
    """Return the problems that the model of the kind finds, each with a hint."""
    args, example = component.ARGS, component.EXAMPLE
    known = args.choice_names()
    wiring = {str(field.alias) for name, field in args.model_fields.items() if name in args.WIRING}
    # The model also accepts snake_case names. A stack file accepts camelCase only.
    unknown = [key for key in choices if key not in known and key not in wiring]
    problems = [unknown_key(join("", key), key, ["kind", *known], args.DECIDED) for key in unknown]
    rest = {key: value for key, value in choices.items() if key not in unknown}
    examples = examples_of(args, example)
    problems += [with_hint(problem, examples) for problem in args.choice_problems(rest, known_wiring)]
    return without_misspelt(problems)
