"""The place of a resource, its labels, and outputs that do not change after its creation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp.site import Site, Values
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.values import UNKNOWN

# pulumi-gcp's own attribution label (provider option addPulumiAttributionLabel, on by default).
ATTRIBUTION = {"goog-pulumi-provisioned": "true"}


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
