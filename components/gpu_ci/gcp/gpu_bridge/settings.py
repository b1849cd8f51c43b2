"""The settings of a bridge: a JSON object in its bucket, which the component writes. They have no secrets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import NamedTuple


class Place(NamedTuple):
    """A place of the ladder: where a step requests its machine."""

    zone: str
    template: str
    market: str = ""
    """`spot` or `standard`; empty for the market of the template."""
    machine_type: str = ""


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
    labels: dict[str, str] = field(default_factory=dict)
    """More labels of the machines."""
    rungs: list[dict[str, str]] = field(default_factory=list)
    """The places to try, in order, each with zone, machine_type, market and gpu, and with its template if it is another
    one. Without them, the zones are tried with the template."""

    def places(self, *, without_spot: bool = False) -> list[Place]:
        """Return the places to try, in order. With `without_spot`, those of another market, or all with `standard`."""
        if not self.rungs:
            found = [Place(zone, self.template) for zone in self.zones]
        else:
            found = [
                Place(each["zone"], each.get("template") or self.template, each["market"], each["machine_type"])
                for each in self.rungs
            ]
        if not without_spot:
            return found
        others = [each for each in found if each.market not in ("", "spot")]
        return others or list(dict.fromkeys(each._replace(market="standard") for each in found))


def parse(text: str) -> Settings:
    """Return the settings of the JSON object. Raise ValueError if it is no map or lacks a field.

    Unknown fields are left out. The component may be newer than this program, because builds may use an older program.
    """
    try:
        value = json.loads(text)
        return Settings(**{each.name: value[each.name] for each in fields(Settings) if each.name in value})
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"are not the settings of a bridge ({error})") from None
