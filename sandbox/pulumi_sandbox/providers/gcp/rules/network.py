"""Check rules for network resources that no schema contains, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp.rules.common import address_range
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# Discovery document compute v1, RouterNat.enableDynamicPortAllocation and RouterNat.maxPortsPerVm.
LEAST_PORTS = 32
DEFAULT_PORTS = 64
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


def router_nat(inputs: dict[str, Any]) -> Iterator[Problem]:
    # Discovery document compute v1, RouterNat.subnetworks: used only with LIST_OF_SUBNETWORKS.
    source_ranges, subnetworks = inputs.get("sourceSubnetworkIpRangesToNat"), inputs.get("subnetworks")
    if source_ranges == "LIST_OF_SUBNETWORKS" and subnetworks is not UNKNOWN and not rows(subnetworks):
        yield Problem("subnetworks", "is required when sourceSubnetworkIpRangesToNat is LIST_OF_SUBNETWORKS")
    if inputs.get("enableDynamicPortAllocation") is not True:
        return
    # The same document, RouterNat.enableDynamicPortAllocation and RouterNat.maxPortsPerVm. Without dynamic allocation,
    # any number is valid.
    min_ports, max_ports = (inputs.get(name) for name in ("minPortsPerVm", "maxPortsPerVm"))
    if isinstance(min_ports, int | float) and (min_ports < LEAST_PORTS or not _power_of_two(min_ports)):
        yield Problem("minPortsPerVm", f"expected a power of two of at least {LEAST_PORTS}, got {min_ports:g}")
    lower_bound = min_ports if isinstance(min_ports, int | float) else DEFAULT_PORTS
    if isinstance(max_ports, int | float) and (max_ports <= lower_bound or not _power_of_two(max_ports)):
        yield Problem("maxPortsPerVm", f"expected a power of two above {lower_bound:g}, got {max_ports:g}")


def _power_of_two(number: float) -> bool:
    return int(number) == number > 0 and int(number).bit_count() == 1
