"""The settings of a bridge: a JSON object in its bucket, which flags of the step can replace. They have no secrets."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, get_type_hints

_PLACE = {"zone", "machine_type", "market"}
_RUNG = {*_PLACE, "gpu", "template"}
DEFAULTS_HINT = "pulumi up writes the settings of a bridge"


@dataclass(frozen=True)
class Settings:
    """The settings of one bridge."""

    project: str
    """The id of the Google Cloud project."""
    name: str
    """The value of the label gpu-ci-bridge, which is unique in the project."""
    template: str
    """The instance template, as projects/PROJECT/regions/REGION/instanceTemplates/NAME."""
    zones: list[str]
    """The zones to try, in order."""
    bucket: str
    """The bucket of sources, output and artifacts."""
    max: int = 1
    """The maximum number of machines at once."""
    check_sec: int = 1200
    """Seconds from the start of the machine until its check has passed."""
    fetch_sec: int = 900
    """Seconds for the sources and the container image on the machine."""
    wait_sec: int = 3600
    """Seconds that a step waits while other builds use all machines."""
    longest_timeout_sec: int = 14_400
    """The largest value of --timeout."""
    source_mib: int = 4096
    """The maximum size of the workspace."""
    artifact_mib: int = 2048
    """The maximum size of the artifacts."""
    artifact_files: int = 10_000
    """The maximum number of artifacts."""
    labels: dict[str, str] = field(default_factory=dict)
    """More labels of the machines."""
    rungs: list[dict[str, str]] = field(default_factory=list)
    """The places to try, in order, each with zone, machine_type, market and gpu, and with its template if it is another
    one. Without them, the zones are tried with the template."""


class Wrong(NamedTuple):
    """One mistake in the settings."""

    field: str
    """The field; empty for the whole object."""
    problem: str
    got: str
    expected: str


class SettingsError(ValueError):
    """The settings have mistakes."""

    def __init__(self, wrong: list[Wrong]) -> None:
        self.wrong = wrong
        super().__init__("; ".join(f"{each.field}: {each.problem}" for each in wrong))


def parse(text: str) -> dict[str, Any]:
    """Return the fields of the JSON object. Raise SettingsError with all mistakes.

    Unknown fields are left out, also of `rungs`. The component may be newer than this program, because builds may use
    an older program.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError([Wrong("", "is not JSON", str(error), "a map with the fields of the settings")]) from None
    if not isinstance(value, dict):
        raise SettingsError([Wrong("", "is not a map", type(value).__name__, "a map with the fields of the settings")])
    kinds = get_type_hints(Settings)
    if isinstance(rungs := value.get("rungs"), list):
        value["rungs"] = [_known(each, _RUNG) for each in rungs]
    wrong = [
        Wrong(key, "is not valid", repr(given), _expected(kinds[key]))
        for key, given in value.items()
        if key in kinds and not _fits(kinds[key], given)
    ]
    if wrong:
        raise SettingsError(wrong)
    known: dict[str, Any] = _known(value, kinds)
    return known


def missing(given: dict[str, Any]) -> list[str]:
    """Return the required fields that are not given."""
    return [each.name for each in fields(Settings) if each.name not in given and _is_required(each)]


def _known(value: Any, names: Collection[str]) -> Any:
    """Return the map without other fields, or a value that is no map."""
    return {key: each for key, each in value.items() if key in names} if isinstance(value, dict) else value


def _is_required(each: Any) -> bool:
    return each.name in ("project", "name", "template", "zones", "bucket")


def _expected(kind: Any) -> str:
    if kind is int:
        return "a whole number above 0"
    if kind is str:
        return "a text that is not empty"
    if kind == list[dict[str, str]]:
        return "a list of maps with the texts zone, machine_type and market"
    return "a list of texts that is not empty" if kind == list[str] else "a map of texts"


def _fits(kind: Any, value: Any) -> bool:
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and value > 0
    if kind is str:
        return isinstance(value, str) and bool(value)
    if kind == list[str]:
        return isinstance(value, list) and bool(value) and all(isinstance(each, str) and each for each in value)
    if kind == list[dict[str, str]]:
        return isinstance(value, list) and all(_is_map(each) and each.keys() >= _PLACE for each in value)
    return _is_map(value)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)
