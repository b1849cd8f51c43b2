"""The project, region and zone of a resource, its labels, and outputs that do not change after its creation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp.names import last
from pulumi_sandbox.providers.inputs import table, text_of
from pulumi_sandbox.providers.values import UNKNOWN

Values = dict[str, Any]
# pulumi-gcp's own attribution label (provider option addPulumiAttributionLabel, on by default).
ATTRIBUTION = {"goog-pulumi-provisioned": "true"}


@dataclass(frozen=True)
class Site:
    """A provider's configured project, region, zone and labels, for inputs that a resource leaves out."""

    project: str = ""
    region: str = ""
    zone: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    attribution: bool = True
    number: str = "0"
    """The project's number."""
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The zones of every region."""

    @classmethod
    def of(cls, config: Values, number: str = "0", zones: Values | None = None) -> Site:
        zone = str(config.get("zone") or "")
        region = str(config.get("region") or "") or (last(zone).rpartition("-")[0] if zone else "")
        labels = tuple(sorted((str(k), str(v)) for k, v in table(config.get("defaultLabels")).items()))
        attribution = str(config.get("addPulumiAttributionLabel", True)).lower() != "false"
        zones_of_regions = tuple((name, tuple(letters)) for name, letters in (zones or {}).items())
        return cls(
            str(config.get("project") or ""), last(region), last(zone), labels, attribution, number, zones_of_regions
        )

    def place(self, inputs: Values) -> tuple[str, str, str]:
        """Return the project, region and zone of one resource, as the provider resolves them."""
        zone = last(str(text_of(inputs, "zone") or self.zone))
        region = last(str(text_of(inputs, "region") or self.region or zone.rpartition("-")[0]))
        return str(text_of(inputs, "project") or self.project), region, zone

    def default_zones(self, region: str) -> list[str]:
        """Return the three zones of a regional group that names no zones."""
        return list(dict(self.zones).get(region, ()))[:3]


@dataclass(frozen=True)
class Located:
    """One resource: its inputs, its previous outputs (empty at creation), and its location."""

    inputs: Values
    old: Values
    site: Site
    path: str
    region: str


def labels(inputs: Values, site: Site) -> Values:
    own = {**dict(site.labels), **table(inputs.get("labels")), **(ATTRIBUTION if site.attribution else {})}
    return {"pulumiLabels": own, "effectiveLabels": own}


def keep_or_make(old: Values, name: str, make: Callable[[], Any]) -> Any:
    return old[name] if old.get(name) not in (None, UNKNOWN) else make()
