"""Subnetworks, routers, NAT, reserved ranges and attachments: what Google takes and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import Google

NAT: dict[str, Any] = {
    "router": "ci",
    "natIpAllocateOption": "AUTO_ONLY",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
}
LISTED = {**NAT, "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS"}
RANGE: dict[str, Any] = {
    "addressType": "INTERNAL",
    "purpose": "VPC_PEERING",
    "network": "default",
    "prefixLength": 16,
}
ATTACHMENT: dict[str, Any] = {"connectionPreference": "ACCEPT_AUTOMATIC", "subnetworks": ["default"]}
CONNECTION: dict[str, Any] = {
    "network": "default",
    "service": "servicenetworking.googleapis.com",
    "reservedPeeringRanges": ["google"],
}
SUBNET: dict[str, Any] = {"network": "default", "ipCidrRange": "10.10.0.0/20"}
PODS: dict[str, Any] = {"rangeName": "pods", "ipCidrRange": "10.20.0.0/16"}

ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "a router": (types.ROUTER, {"network": "default", "bgp": {"asn": 64514}}),
    "a NAT": (types.ROUTER_NAT, {**NAT, "name": "ci"}),
    "a NAT of a subnetwork": (
        types.ROUTER_NAT,
        {**LISTED, "subnetworks": [{"name": "default", "sourceIpRangesToNats": ["ALL_IP_RANGES"]}]},
    ),
    "a NAT of subnetworks that are not known yet": (types.ROUTER_NAT, {**LISTED, "subnetworks": UNKNOWN}),
    "a NAT with ports as they are needed": (
        types.ROUTER_NAT,
        {**NAT, "enableDynamicPortAllocation": True, "minPortsPerVm": 64, "maxPortsPerVm": 4096},
    ),
    "a NAT with ports of any number": (types.ROUTER_NAT, {**NAT, "minPortsPerVm": 50}),
    "a public address": (types.GLOBAL_ADDRESS, {"labels": {"team": "ml"}}),
    "a reserved range": (types.GLOBAL_ADDRESS, RANGE),
    "an attachment": (types.NETWORK_ATTACHMENT, ATTACHMENT),
    "a connection": (types.CONNECTION, CONNECTION),
    "a subnetwork": (types.SUBNETWORK, {"network": "default", "ipCidrRange": "10.10.0.0/29"}),
    "a subnetwork of Class E": (types.SUBNETWORK, {"network": "default", "ipCidrRange": "240.0.0.0/8"}),
    "a subnetwork with a second range": (types.SUBNETWORK, {**SUBNET, "secondaryIpRanges": [{**PODS}]}),
    "a subnetwork in a region not known yet": (types.SUBNETWORK, {**SUBNET, "region": UNKNOWN}),
}


def test_what_google_takes_is_accepted(google: Google) -> None:
    assert {
        name: found for name, (token, inputs) in ACCEPTED.items() if (found := google.problems(token, inputs))
    } == {}


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a public ASN": (types.ROUTER, {"network": "default", "bgp": {"asn": 15169}}, 'bgp.asn: expected "asn" to be a '),
    "too short a name of a NAT": (
        types.ROUTER_NAT,
        {**NAT, "name": "c"},
        'name: "name" ("c") must be between 2 and 63 characters long',
    ),
    "addresses of a NAT that takes its own": (
        types.ROUTER_NAT,
        {**NAT, "natIps": ["a"]},
        "natIps: cannot be given when natIpAllocateOption is AUTO_ONLY\n  hint: use MANUAL_ONLY",
    ),
    "no address of a NAT that has its own": (
        types.ROUTER_NAT,
        {**NAT, "natIpAllocateOption": "MANUAL_ONLY"},
        "natIps: is required when natIpAllocateOption is MANUAL_ONLY",
    ),
    "a most of ports that are allocated statically": (
        types.ROUTER_NAT,
        {**NAT, "maxPortsPerVm": 4096},
        "maxPortsPerVm: can only be set when enableDynamicPortAllocation is true",
    ),
    "a least of dynamic ports that is no power of two": (
        types.ROUTER_NAT,
        {**NAT, "enableDynamicPortAllocation": True, "minPortsPerVm": 50},
        "minPortsPerVm: expected a power of two of at least 32 with enableDynamicPortAllocation, got 50",
    ),
    "a least of dynamic ports under 32": (
        types.ROUTER_NAT,
        {**NAT, "enableDynamicPortAllocation": True, "minPortsPerVm": 16},
        "minPortsPerVm: expected a power of two of at least 32 with enableDynamicPortAllocation, got 16",
    ),
    "a most of dynamic ports that is not above the least": (
        types.ROUTER_NAT,
        {**NAT, "enableDynamicPortAllocation": True, "minPortsPerVm": 64, "maxPortsPerVm": 64},
        "maxPortsPerVm: expected a power of two above 64, got 64",
    ),
    "dynamic ports beside a mapping that is independent of the endpoint": (
        types.ROUTER_NAT,
        {**NAT, "enableDynamicPortAllocation": True, "enableEndpointIndependentMapping": True},
        "enableDynamicPortAllocation: cannot be true when enableEndpointIndependentMapping is true",
    ),
    "no subnetwork of those listed": (
        types.ROUTER_NAT,
        LISTED,
        "subnetworks: is required when sourceSubnetworkIpRangesToNat is LIST_OF_SUBNETWORKS",
    ),
    "a subnetwork of all": (
        types.ROUTER_NAT,
        {**NAT, "subnetworks": [{"name": "default", "sourceIpRangesToNats": ["ALL_IP_RANGES"]}]},
        (
            "subnetworks: is used only when sourceSubnetworkIpRangesToNat is LIST_OF_SUBNETWORKS, got "
            "ALL_SUBNETWORKS_ALL_IP_RANGES"
        ),
    ),
    "a reserved range of public addresses": (
        types.GLOBAL_ADDRESS,
        {"network": "default"},
        "network: can only be set when addressType is INTERNAL (the default is EXTERNAL)",
    ),
    "a reserved range of no size": (
        types.GLOBAL_ADDRESS,
        {**RANGE, "prefixLength": None},
        "prefixLength: is required when purpose is VPC_PEERING",
    ),
    "a reserved range of one address": (
        types.GLOBAL_ADDRESS,
        {**RANGE, "prefixLength": 32},
        "prefixLength: expected prefixLength to be in the range (8 - 30), got 32",
    ),
    "a reserved range of no network": (
        types.GLOBAL_ADDRESS,
        {**RANGE, "network": None},
        "network: is required when purpose is VPC_PEERING",
    ),
    "a list for whom everybody is accepted": (
        types.NETWORK_ATTACHMENT,
        {**ATTACHMENT, "producerAcceptLists": ["1"]},
        "producerAcceptLists: is used only when connectionPreference is ACCEPT_MANUAL",
    ),
    "no subnetwork": (
        types.NETWORK_ATTACHMENT,
        {**ATTACHMENT, "subnetworks": []},
        "subnetworks: expected at least one subnetwork",
    ),
    "no range": (
        types.CONNECTION,
        {**CONNECTION, "reservedPeeringRanges": []},
        "reservedPeeringRanges: expected the name of at least one reserved range",
    ),
    "a range's path": (
        types.CONNECTION,
        {**CONNECTION, "reservedPeeringRanges": ["global/addresses/google"]},
        "reservedPeeringRanges[0]: expected the name of a range, got global/addresses/google",
    ),
    "a range that begins elsewhere": (
        types.SUBNETWORK,
        {"network": "default", "ipCidrRange": "10.10.0.1/24"},
        'ipCidrRange: "ipCidrRange" ("10.10.0.1/24") is not an IPv4 range that begins at its first address',
    ),
    "a subnetwork of the metadata server": (
        types.SUBNETWORK,
        {**SUBNET, "ipCidrRange": "169.254.0.0/24"},
        (
            "ipCidrRange: Invalid value for field 'resource.ipCidrRange': '169.254.0.0/24'. It overlaps "
            "169.254.0.0/16, which is prohibited: link-local, with the metadata server.\n"
            "  hint: such as 10.10.0.0/20"
        ),
    ),
    "a subnetwork for multicast": (
        types.SUBNETWORK,
        {**SUBNET, "ipCidrRange": "224.0.0.0/24"},
        "ipCidrRange: Invalid value for field 'resource.ipCidrRange': '224.0.0.0/24'. It overlaps 224.0.0.0/4, which",
    ),
    "a subnetwork existing Google's own addresses": (
        types.SUBNETWORK,
        {**SUBNET, "ipCidrRange": "199.36.153.0/29"},
        "ipCidrRange: Invalid value for field 'resource.ipCidrRange': '199.36.153.0/29'. It overlaps 199.36.153.4/30",
    ),
    "a second range on loopback": (
        types.SUBNETWORK,
        {**SUBNET, "secondaryIpRanges": [PODS, {"rangeName": "here", "ipCidrRange": "127.0.0.0/24"}]},
        (
            "secondaryIpRanges[1].ipCidrRange: Invalid value for field 'resource.secondaryIpRanges[1].ipCidrRange': "
            "'127.0.0.0/24'. It overlaps 127.0.0.0/8"
        ),
    ),
    "a subnetwork in a region there is not": (
        types.SUBNETWORK,
        {**SUBNET, "region": "mars-1"},
        "region: Invalid value for field 'region': 'mars-1'. Unknown region.",
    ),
    "a router in a region there is not": (
        types.ROUTER,
        {"network": "default", "region": "mars-1"},
        "region: Invalid value for field 'region': 'mars-1'. Unknown region.",
    ),
    "too small a subnetwork": (
        types.SUBNETWORK,
        {"network": "default", "ipCidrRange": "10.10.0.0/30"},
        "ipCidrRange: expected a range of /29 or larger, got 10.10.0.0/30",
    ),
}


@pytest.mark.parametrize(("token", "inputs", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_google_refuses_is_refused(google: Google, token: str, inputs: dict[str, Any], expected: str) -> None:
    [problem] = google.problems(token, inputs)
    assert problem.startswith(expected)


def test_a_region_newer_than_the_sandbox_can_be_listed(google: Google, tmp_path: Path) -> None:
    asked = {**SUBNET, "region": "mars-north1"}
    [refused] = google.problems(types.SUBNETWORK, asked)
    assert refused == (
        "region: Invalid value for field 'region': 'mars-north1'. Unknown region.\n"
        "  hint: if the region exists in the cloud, list its zones in sandbox.yaml, under values: {gcp: {zones: …}}"
    )
    configured = Google(tmp_path / "configured", settings="values: {gcp: {zones: {mars-north1: [a, b]}}}\n")
    assert configured.problems(types.SUBNETWORK, asked) == []
