"""Check rules for network resources that no schema contains, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp.rules.common import address_range
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem

SOURCES = ("sourceRanges", "sourceTags", "sourceServiceAccounts")


def subnetwork(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from address_range(inputs.get("ipCidrRange"), "ipCidrRange")
    for index, row in enumerate(rows(inputs.get("secondaryIpRanges"))):
        yield from address_range(table(row).get("ipCidrRange"), f"secondaryIpRanges[{index}].ipCidrRange")


def firewall(inputs: dict[str, Any]) -> Iterator[Problem]:
    if (inputs.get("direction") or "INGRESS") == "INGRESS" and not any(inputs.get(name) for name in SOURCES):
        # The provider's message (resourceComputeFirewallSourceFieldsCustomizeDiff).
        yield Problem("sourceRanges", "one of source_tags, source_ranges, or source_service_accounts must be defined")
    for name in ("sourceRanges", "destinationRanges"):
        for index, range_input in enumerate(rows(inputs.get(name))):
            yield from address_range(range_input, f"{name}[{index}]")
