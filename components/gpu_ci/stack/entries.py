"""Checks a map of named entries of a stack file, each with a kind: the pools, and the image pipelines.

The kind of an entry selects its component. The other fields of the entry are arguments of this component.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from gpu_catalog import region_of
from gpu_common.secret_patterns import redact

from .. import extras, naming
from ..component import Component
from ..errors import ArgsError, Problem, did_you_mean, shape
from ..pool_args import EntryArgs
from ..validation_errors import join
from . import clusters
from .hints import with_hints


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


@dataclass(frozen=True)
class Spec:
    """One entry of the stack file, of a known kind."""

    name: str
    path: str
    """The path in the stack file, such as gpu-ci:pools.l4."""
    kind: str
    choices: dict[str, Any]
    """The fields in the stack file, except the kind."""
    component: type[Component]
    wiring: Mapping[str, Any] = field(default_factory=dict)
    """The wiring that the stack file gives, such as the project and the region of its cluster."""
    args: Any = None
    """The arguments, whose late inputs are OPEN; None if they have a problem."""

    @property
    def cloud(self) -> str:
        """The cloud in the component's type token."""
        return self.component.TYPE.split(":")[1]

    @property
    def uses_google(self) -> bool:
        """Whether it has resources in the project of the stack."""
        return self.cloud == "gcp" or self.model.uses_google(self.choices)

    @property
    def model(self) -> type[EntryArgs]:
        """The model of the arguments."""
        return cast("type[EntryArgs]", self.component.ARGS)

    @property
    def on_cluster(self) -> str:
        """The kind of cluster that the entry needs; empty if it needs none."""
        return self.component.ON_CLUSTER

    @property
    def cluster(self) -> str:
        """The name of its cluster in the stack file; empty if it has none."""
        return str(self.choices.get("clusterName") or "") if self.on_cluster else ""

    @property
    def region(self) -> str:
        """The field region, or the region of the cluster or of the zones. Empty if none is valid."""
        known = self.choices.get("region") or self.wiring.get("region")
        return region_of_choices({**self.choices, "region": known})

    @property
    def regions(self) -> list[str]:
        """The regions of its machines. The first is its own region."""
        return [self.region]

    @property
    def problems_of_wiring(self) -> list[Problem]:
        """The problems of its arguments with what the stack gives them."""
        try:
            self.model(**self.choices, **{**self.model.open_wiring(), **self.wiring})
        except ArgsError as error:
            return [each.under(self.path) for each in error.problems]
        return []

    @property
    def problems_of_context(self) -> list[Problem]:
        """The problems of its fields in this stack, which replace those of the arguments with the same rules."""
        return []


_Spec = TypeVar("_Spec", bound=Spec)


def check_entries(
    family: Family,
    made: type[_Spec],
    value: Any,
    described: Any,
    readable: bool,
    wiring_of: Callable[[_Spec], Mapping[str, Any]],
) -> tuple[list[_Spec], list[Problem]]:
    """Return every entry of a known kind as `made`, and every problem, sorted by the names of the entries.

    Args:
        family: The family of the entries.
        made: The class of the result.
        value: The value of the key.
        described: The value of gpu-ci:clusters. It may be invalid.
        readable: False if gpu-ci:clusters cannot be read, because it is secret.
        wiring_of: A function that returns the wiring that the stack gives an entry.
    """
    if not isinstance(value, Mapping):
        expected = f"{family.noun}s by name, each with a kind and the fields of that kind"
        hint = f"such as {family.example_name}: {{kind: {family.example_kind}, …}}"
        return [], [Problem(family.key, "must be a map", shape(value), expected, hint, "wrong-type")]
    specs: list[_Spec] = []
    problems: list[Problem] = []
    known = clusters.known(described)
    for name, entry in sorted(value.items()):
        path = join(family.key, name)
        component, wrong = _component_of(family, path, entry)
        most = cast("type[EntryArgs]", component.ARGS).NAME_MOST if component else 0
        problems += name_problems(family, path, name, most) + wrong
        if component is None:
            continue
        given = {key: each for key, each in entry.items() if key != "kind"}
        cluster = given.get("clusterName")
        of_cluster = known[cluster].wiring if isinstance(cluster, str) and cluster in known else {}
        spec = made(name, path, entry["kind"], given, component, of_cluster)
        spec = replace(spec, wiring=component.ARGS.wiring_of({**of_cluster, **wiring_of(spec)}))
        needed = component.ON_CLUSTER
        unknown = clusters.unknown(path, given, known, needed) if readable else []
        problems += unknown + clusters.of_other_kind(path, given, known, entry["kind"], needed)
        args, found = component.ARGS.parse(given, spec.wiring)
        found = with_hints(found, component.ARGS, component.EXAMPLE)
        of_context = spec.problems_of_context
        reported = {each.rule for each in of_context}
        found = [*(each for each in found if each.rule not in reported), *of_context]
        # The form of an unknown cluster's name has the same cause.
        problems += [
            each for each in (each.under(path) for each in found) if not unknown or each.path != unknown[0].path
        ]
        specs.append(replace(spec, args=args))
    return specs, problems


def region_of_choices(choices: Mapping[str, Any]) -> str:
    """Return the chosen region or the region of the zones; empty if neither can be read."""
    region, zones = choices.get("region"), choices.get("zones")
    if isinstance(region, str):
        return region
    return region_of(zones[0]) if isinstance(zones, list) and zones and isinstance(zones[0], str) else ""


def name_problems(family: Family, path: str, name: str, most: int = 0) -> list[Problem]:
    """Report an invalid name. The name of an entry becomes part of the names of its resources."""
    try:
        naming.check(family.noun, name, most)
    except ArgsError as error:
        # The suggestion omits the hash that `fit` adds. A name that looks like a secret is not shown.
        better = naming.fit(name, most or 40)[:-7] if redact(name) == name else family.example_name
        text = "the name has a form that is not accepted"
        return [Problem(path, text, each.got, each.expected, f"such as {better}", each.rule) for each in error.problems]
    return []


def _component_of(family: Family, path: str, entry: Any) -> tuple[type[Component] | None, list[Problem]]:
    """Return the component of an entry. Without a known kind, return None and the problem."""
    kinds = family.names()
    expected = f"one of {', '.join(kinds)}"
    if not isinstance(entry, Mapping):
        hint = f"such as {{kind: {family.example_kind}, …}}; to remove the {family.noun}, delete its name, too"
        expected = "a kind and the fields of that kind"
        return None, [Problem(path, "must be a map", shape(entry), expected, hint, "wrong-type")]
    kind, path = entry.get("kind"), f"{path}.kind"
    if kind is None:
        return None, [Problem(path, "is missing", "nothing", expected, f"add kind: {family.example_kind}", "missing")]
    if kind not in kinds:
        hint = did_you_mean(str(kind), kinds) or f"kinds and their fields are in {family.page}"
        got = repr(kind) if isinstance(kind, str) else shape(kind)
        return None, [Problem(path, f"unknown kind of {family.noun}", got, expected, hint, "unknown-kind")]
    try:
        return family.component(kind), []
    except ModuleNotFoundError as error:
        if not (hint := extras.hint(error.name or "")):
            raise
        expected = "a kind whose packages are installed"
        return None, [Problem(path, f"needs {error.name}", repr(kind), expected, hint, "package-missing")]
