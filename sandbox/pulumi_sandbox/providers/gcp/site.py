"""Find the project, region and zone of a resource: from its inputs, or from the provider's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp.names import last
from pulumi_sandbox.providers.inputs import table, text_of

Values = dict[str, Any]


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
