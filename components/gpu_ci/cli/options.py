"""What several commands ask: names of the catalog as options, each with a word on what was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
import gpu_catalog
from click.shell_completion import CompletionItem

_LISTED = 30  # names that still fit into a hint


def _near(word: str, known: Iterable[str]) -> str:
    near = gpu_catalog.closest(word, known)
    return f"did you mean {near}?" if near else ""


def _near_place(word: str, known: Iterable[str]) -> str:
    near = gpu_catalog.closest_location(word, known)
    return f"did you mean {near}?" if near else ""


def _near_zone(word: str, known: Iterable[str]) -> str:
    """AWS's zones are asked for by their region."""
    region = gpu_catalog.region_of(word.lower())
    if region in gpu_catalog.regions() and not any(gpu_catalog.region_of(each) == region for each in known):
        return f"AWS publishes regions only: --region {region}"
    return _near_place(word, known)


class Name(click.ParamType[Any]):
    """A name that has to exist, in any case. `known` are those to complete with; `look_up` raises UnknownName for any
    other; `meant` is a hint for one there is not."""

    def __init__(
        self,
        name: str,
        known: Callable[[], Iterable[str]],
        look_up: Callable[[str], Any] | None = None,
        meant: Callable[[str, Iterable[str]], str] = _near,
    ):
        self.name = name
        self._known = known
        self._look_up = look_up
        self._meant = meant

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
            self._refuse(f"no {self.name} {value!r}", self._meant(value, spelled.values()), parameter, context)
        return spelled[value.lower()]

    def _refuse(self, text: str, hint: str, parameter: click.Parameter | None, context: click.Context | None) -> None:
        known = list(self._known())
        listed = f"there are {', '.join(known)}" if len(known) <= _LISTED else "gpu-ci catalog lists what there is"
        self.fail(f"{text}\n  hint: {hint or listed}", parameter, context)

    def shell_complete(self, _: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(each) for each in self._known() if each.startswith(incomplete)]


def _machines() -> list[str]:
    return [each.key.partition("/")[2] for each in gpu_catalog.machines(legacy=True)]


def _zones() -> list[str]:
    return sorted({zone for each in gpu_catalog.machines() for zone in each.zones})


def _dtypes() -> tuple[str, ...]:
    from gpu_catalog.needs import DTYPES

    return DTYPES


def places(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes zones and regions; others are a question for the solver, which names near ones."""
    return [CompletionItem(each) for each in (*gpu_catalog.regions(), *_zones()) if each.startswith(incomplete)]


def machines_and_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes both: stack files of the shell's folder, and machines."""
    found = [CompletionItem(incomplete, type="file")]
    return found + [CompletionItem(each) for each in _machines() if incomplete and each.startswith(incomplete)]


CLOUD = Name("cloud", lambda: gpu_catalog.CLOUDS)
MACHINE = Name("machine type", _machines, gpu_catalog.machine)
GPU = Name("GPU", lambda: [each.key for each in gpu_catalog.gpus()], gpu_catalog.gpu)
REGION = Name("region with a GPU", gpu_catalog.regions, meant=_near_place)
ZONE = Name("zone with a GPU", _zones, meant=_near_zone)
MARKET = Name("market", lambda: gpu_catalog.MARKETS, gpu_catalog.market)
DTYPE = Name("number type", _dtypes)
ARCHITECTURE = Name("architecture", lambda: ("x86_64", "arm64"))

as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
