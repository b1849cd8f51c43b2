"""The locations of services that have other multi-regions than Compute Engine. Each service has the regions too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.errors import GoogleError
from pulumi_sandbox.providers.gcp.kms import KEY_RING

LOCATIONS = {
    # docs.cloud.google.com/kms/docs/locations
    KEY_RING: (
        "asia", "asia1", "ca", "eur3", "eur4", "eur5", "eur6", "europe", "global", "in", "nam-eur-asia1", "nam3",
        "nam4", "nam6", "nam7", "nam8", "nam9", "nam10", "nam11", "nam12", "us",
    ),
    # docs.cloud.google.com/storage/docs/locations
    types.BUCKET: ("asia", "asia1", "eu", "eur4", "eur5", "eur7", "eur8", "nam4", "us"),
}  # fmt: skip
"""The multi-regions and pairs of regions, by type."""
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


def refusals(token: str, inputs: dict[str, Any]) -> Iterator[GoogleError]:
    """Yield the error of a location that the service does not have."""
    location = str(inputs.get("location") or "").lower()
    if token not in LOCATIONS or not location or location in LOCATIONS[token] or _REGION.fullmatch(location):
        return
    if token == KEY_RING:
        # georgewhewell/ethers-gcp-kms-signer issue 13
        text = f"The request concerns location '{location}' but was sent to location 'global'. Either Cloud KMS is not"
        yield GoogleError(404, "notFound", f"{text} available in '{location}' or the request was misrouted.")
    else:
        # docs.cloud.google.com/storage/docs/xml-api/reference-status, InvalidLocationConstraint
        yield GoogleError(400, "invalid", "The specified location constraint is not valid.")
