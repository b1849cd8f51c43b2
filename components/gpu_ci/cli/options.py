"""The option types that several commands share. Their values are names of the catalog, such as machine types.

For an unknown name, the error has a hint with the most similar name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
import gpu_catalog
from click.shell_completion import CompletionItem

_MOST_LISTED = 30
"""The maximum number of names that a hint lists."""


def _near(word: str, known: Iterable[str]) -> str:
    near = gpu_catalog.closest(word, known)
    return f"did you mean {near}?" if near else ""


def _near_place(word: str, known: Iterable[str]) -> str:
    near = gpu_catalog.closest_location(word, known)
    return f"did you mean {near}?" if near else ""


def _near_zone(word: str, known: Iterable[str]) -> str:
    """Return a hint for a zone. The catalog has AWS machines by region only."""
    region = gpu_catalog.region_of(word.lower())
    if region in gpu_catalog.regions() and not any(gpu_catalog.region_of(each) == region for each in known):
        return f"AWS publishes regions only: --region {region}"
    return _near_place(word, known)


class Name(click.ParamType[Any]):
    """The type of an option that takes a name of the catalog, in upper or lower case.

    Args:
        name: The kind of name, for messages.
        known: A function that returns the existing names, for the completion in a shell.
        look_up: A function that returns the value for a name, or raises UnknownName. By default the value is the name.
        suggest: A function that returns a hint for a name that does not exist.
    """

    def __init__(
        self,
        name: str,
        known: Callable[[], Iterable[str]],
        look_up: Callable[[str], Any] | None = None,
        suggest: Callable[[str, Iterable[str]], str] = _near,
    ):
        self.name = name
        self._known = known
        self._look_up = look_up
        self._suggest = suggest

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            if self._look_up:
                return self._look_up(value.lower())
        except LookupError as error:
            text, _, hint = str(error).partition("; ")
            self._refuse(text, hint, parameter, context)
        spelled = {each.lower(): each for each in self._known()}
        if value.lower() not in spelled:
            self._refuse(f"unknown {self.name} {value!r}", self._suggest(value, spelled.values()), parameter, context)
        return spelled[value.lower()]

    def _refuse(self, text: str, hint: str, parameter: click.Parameter | None, context: click.Context | None) -> None:
        known = list(self._known())
        listed = f"one of {', '.join(known)}" if len(known) <= _MOST_LISTED else "gpu-ci catalog lists all of them"
        self.fail(f"{text}\n  hint: {hint or listed}", parameter, context)

    def shell_complete(self, _: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(each) for each in self._known() if each.startswith(incomplete)]


def _machines() -> list[str]:
    return [each.key.partition("/")[2] for each in gpu_catalog.machines(legacy=True)]


def _zones() -> list[str]:
    return sorted({zone for each in gpu_catalog.machines() for zone in each.zones})


def _dtypes() -> tuple[str, ...]:
    from gpu_catalog.offers import dtypes

    return dtypes()


def places(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete zones and regions. The solver validates the value, and suggests similar names."""
    return [CompletionItem(each) for each in (*gpu_catalog.regions(), *_zones()) if each.startswith(incomplete)]


def machines_and_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete machine types, and stack files in the current folder."""
    found = [CompletionItem(incomplete, type="file")]
    return found + [CompletionItem(each) for each in _machines() if incomplete and each.startswith(incomplete)]


CLOUD = Name("cloud", lambda: gpu_catalog.CLOUDS)
MACHINE = Name("machine type", _machines, gpu_catalog.machine)
GPU = Name("GPU", lambda: [each.key for each in gpu_catalog.gpus()], gpu_catalog.gpu)
REGION = Name("region with a GPU", gpu_catalog.regions, suggest=_near_place)
ZONE = Name("zone with a GPU", _zones, suggest=_near_zone)
MARKET = Name("market", lambda: gpu_catalog.MARKETS, gpu_catalog.market)
DTYPE = Name("number type", _dtypes)
ARCHITECTURE = Name("architecture", lambda: ("x86_64", "arm64"))

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
