"""The option types that several commands share. Their values are names of the catalog, such as machine types.

For an unknown name, the error has a hint with the most similar name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
import gpu_catalog

_MOST_LISTED = 30
"""The maximum number of names that a hint lists."""


def _near_place(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar zone, or the option for a zone of AWS, whose machines the catalog has by region only."""
    region = gpu_catalog.region_of(word.lower())
    is_aws = region in gpu_catalog.regions() and not any(gpu_catalog.region_of(each) == region for each in known)
    return f"--region {region}" if is_aws else gpu_catalog.closest_location(word, known)


class Name(click.ParamType[Any]):
    """The type of an option that takes a name of the catalog, in upper or lower case.

    Args:
        name: The kind of name, for messages.
        known: A function that returns the existing names.
        look_up: A function that returns the value for a name, or raises UnknownName. By default the value is the name.
        closest: A function that returns the most similar of the names.
    """

    def __init__(
        self,
        name: str,
        known: Callable[[], Iterable[str]],
        look_up: Callable[[str], Any] | None = None,
        closest: Callable[[str, Iterable[str]], str | None] = gpu_catalog.closest,
    ):
        self.name, self._known, self._look_up, self._closest = name, known, look_up, closest

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        known = list(self._known())
        try:
            if self._look_up:
                return self._look_up(value.lower())
            return {each.lower(): each for each in known}[value.lower()]
        except KeyError:
            near = self._closest(value, known)
            text, hint = f"unknown {self.name} {value!r}", f"did you mean {near}?" if near else ""
        except LookupError as error:
            text, _, hint = str(error).partition("; ")
        listed = f"one of {', '.join(known)}" if len(known) <= _MOST_LISTED else "gpu-ci catalog lists all of them"
        raise click.BadParameter(f"{text}\n  hint: {hint or listed}", context, parameter)


def _dtypes() -> tuple[str, ...]:
    from gpu_catalog.offers import dtypes

    return dtypes()


CLOUD = Name("cloud", lambda: gpu_catalog.CLOUDS)
MACHINE = Name(
    "machine type",
    lambda: [each.key.partition("/")[2] for each in gpu_catalog.machines(legacy=True)],
    gpu_catalog.machine,
)
GPU = Name("GPU", lambda: [each.key for each in gpu_catalog.gpus()], gpu_catalog.gpu)
REGION = Name("region with a GPU", gpu_catalog.regions, closest=gpu_catalog.closest_location)
ZONE = Name(
    "zone with a GPU",
    lambda: sorted({zone for each in gpu_catalog.machines() for zone in each.zones}),
    closest=_near_place,
)
MARKET = Name("market", lambda: gpu_catalog.MARKETS, gpu_catalog.market)
DTYPE = Name("number type", _dtypes)
ARCHITECTURE = Name("architecture", lambda: ("x86_64", "arm64"))

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
