"""Check rules for network resources that no schema contains, each with its source."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp.rules.common import labels
from pulumi_sandbox.providers.inputs import is_known, rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# terraform-provider-google e03b7622, google/verify/validation.go: ValidateRFC6996Asn.
PRIVATE_ASNS = ((64512, 65534), (4200000000, 4294967294))
PARTNER_ASN = 16550
# Google Cloud documentation "Subnets" (docs.cloud.google.com/vpc/docs/subnets): IPv4 ranges have at least 8 addresses.
SMALLEST_SUBNET = 29
# Google Cloud documentation "Configure private services access" (docs.cloud.google.com/vpc/docs/
# configure-private-services-access): an allocated range has a prefix of 8 to 30 bits.
RESERVED_PREFIX = (8, 30)
# The same, "Prohibited IPv4 subnet ranges". Google also prohibits the addresses of its own services; the sandbox has no
# list of these.
PROHIBITED = {
    "0.0.0.0/8": "this network",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local, with the metadata server",
    "199.36.153.4/30": "restricted.googleapis.com",
    "199.36.153.8/30": "private.googleapis.com",
    "224.0.0.0/4": "multicast",
    "255.255.255.255/32": "broadcast",
}
# terraform-provider-google e03b7622, resource_compute_router_nat.go: ValidateRFC1035Name(2, 63).
SHORTEST_NAT = 2
# Discovery document compute v1, RouterNat.enableDynamicPortAllocation and RouterNat.maxPortsPerVm.
LEAST_PORTS = 32
DEFAULT_PORTS = 64
SOURCES = ("sourceRanges", "sourceTags", "sourceServiceAccounts")
# terraform-provider-google e03b7622, resource_compute_firewall.go: ConflictsWith.
CONFLICTS = (
    ("sourceServiceAccounts", "sourceTags"),
    ("sourceServiceAccounts", "targetTags"),
    ("targetServiceAccounts", "sourceTags"),
    ("targetServiceAccounts", "targetTags"),
)
# Discovery document compute v1, Firewall.allowed.IPProtocol; `all` in the provider's schema.
PROTOCOLS = ("tcp", "udp", "icmp", "esp", "ah", "ipip", "sctp", "all")
WITH_PORTS = ("tcp", "udp", "sctp", "6", "17", "132")
PORT = r"(\d{1,5})(?:-(\d{1,5}))?"
LAST_PORT = 65535


def subnetwork(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from subnet_range(inputs.get("ipCidrRange"), "ipCidrRange", "resource.ipCidrRange")
    for index, row in enumerate(rows(inputs.get("secondaryIpRanges"))):
        place = f"secondaryIpRanges[{index}].ipCidrRange"
        yield from subnet_range(table(row).get("ipCidrRange"), place, f"resource.{place}")


def subnet_range(range_input: Any, path: str, field: str) -> Iterator[Problem]:
    if not isinstance(range_input, str) or not range_input:
        return
    try:
        network = ipaddress.IPv4Network(range_input)
    except ValueError:
        yield Problem(path, f'"ipCidrRange" ("{range_input}") is not an IPv4 range that begins at its first address')
        return
    if network.prefixlen > SMALLEST_SUBNET:
        yield Problem(path, f"expected a range of /{SMALLEST_SUBNET} or larger, got {range_input}")
    for prohibited_range, use in PROHIBITED.items():
        if network.overlaps(ipaddress.IPv4Network(prohibited_range)):
            reason = f"It overlaps {prohibited_range}, which is prohibited: {use}."
            yield Problem(path, f"Invalid value for field '{field}': '{range_input}'. {reason}", "such as 10.10.0.0/20")


def firewall(inputs: dict[str, Any]) -> Iterator[Problem]:
    set_kinds = [name for name in ("allows", "denies") if inputs.get(name) is UNKNOWN or rows(inputs.get(name))]
    if len(set_kinds) != 1:
        # terraform-provider-google e03b7622, resource_compute_firewall.go: ExactlyOneOf.
        yield Problem("allows", f"exactly one of allows or denies, got {' and '.join(set_kinds) or 'neither'}")
    priority = inputs.get("priority")
    if isinstance(priority, int | float) and not 0 <= priority <= 65535:
        # Discovery document compute v1, Firewall.priority.
        yield Problem("priority", f"expected priority to be in the range (0 - 65535), got {priority:g}")
    sources = [name for name in SOURCES if is_known(inputs.get(name))]
    direction = inputs.get("direction") or "INGRESS"
    if direction == "EGRESS" and sources:
        # Discovery document compute v1, Firewall.direction: for egress no source field can be given.
        yield Problem(sources[0], "cannot be set for an egress rule", "set direction to INGRESS")
    if direction == "INGRESS" and not any(inputs.get(name) for name in SOURCES):
        # The provider's message (resourceComputeFirewallSourceFieldsCustomizeDiff).
        yield Problem("sourceRanges", "one of source_tags, source_ranges, or source_service_accounts must be defined")
    for one, other in CONFLICTS:
        if is_known(inputs.get(one)) and is_known(inputs.get(other)):
            yield Problem(one, f'"{one}": conflicts with {other}')
    for name in ("sourceRanges", "destinationRanges"):
        for index, range_input in enumerate(rows(inputs.get(name))):
            yield from address_range(range_input, f"{name}[{index}]")
    for name, field in (("allows", "allowed"), ("denies", "denied")):
        for index, row in enumerate(rows(inputs.get(name))):
            yield from traffic(table(row), f"{name}[{index}]", f"resource.{field}[{index}]")


def address_range(range_input: Any, path: str) -> Iterator[Problem]:
    # The API refuses a range that does not start at its network address (github.com/CartoDB/cartodb/pull/15649,
    # github.com/hashicorp/terraform-provider-google/issues/4032). The message is from
    # github.com/cloudflare/terraform-provider-cloudflare/pull/86.
    if not isinstance(range_input, str):
        return
    try:
        ipaddress.ip_network(range_input)
    except ValueError:
        try:
            hint = f"write {ipaddress.ip_network(range_input, strict=False)}"
        except ValueError:
            hint = "such as 10.10.0.0/20"
        text = f"Invalid value for field 'resource.{path}': '{range_input}'. Must be a valid CIDR address range."
        yield Problem(path, text, hint)


def traffic(row: dict[str, Any], path: str, field: str) -> Iterator[Problem]:
    protocol, ports = row.get("protocol"), rows(row.get("ports"))
    if not isinstance(protocol, str):
        return
    name = protocol.lower()  # the provider treats both cases as equal
    if name not in PROTOCOLS and not (name.isdigit() and int(name) <= 255):
        protocols = " ".join(f'"{one}"' for one in PROTOCOLS)
        yield Problem(f"{path}.protocol", f"expected protocol to be one of [{protocols}] or a number, got {protocol}")
        return
    if ports and name not in WITH_PORTS:
        # Discovery document compute v1, Firewall.allowed.ports: only for a protocol with ports.
        yield Problem(f"{path}.ports", "cannot be set for a protocol without ports")
        return
    for index, port in enumerate(ports):
        match = re.fullmatch(PORT, port) if isinstance(port, str) else None
        if isinstance(port, str) and not (match and int(match[1]) <= int(match[2] or match[1]) <= LAST_PORT):
            # The API's message (github.com/GoogleCloudPlatform/google-cloud-powershell/issues/537).
            yield Problem(
                f"{path}.ports[{index}]",
                f"Invalid value for field '{field}.ports[{index}]': '{port}'. Invalid port range specification.",
                "such as 22, or 8000-8080",
            )


def router(inputs: dict[str, Any]) -> Iterator[Problem]:
    set_inputs = [name for name in ("network", "nccGateway") if is_known(inputs.get(name))]
    if len(set_inputs) > 1:
        # terraform-provider-google e03b7622, resource_compute_router.go: ConflictsWith.
        yield Problem("network", '"network": conflicts with nccGateway')
    asn = table(inputs.get("bgp")).get("asn")
    if isinstance(asn, int | float) and asn != PARTNER_ASN and not any(a <= asn <= b for a, b in PRIVATE_ASNS):
        yield Problem(
            "bgp.asn",
            'expected "asn" to be a RFC6996-compliant Local ASN:\nmust be either in the private ASN ranges: '
            f"[64512..65534], [4200000000..4294967294];\nor be the value of [{PARTNER_ASN}], got {asn:.0f}",
        )


def router_nat(inputs: dict[str, Any]) -> Iterator[Problem]:
    name = inputs.get("name")
    if isinstance(name, str) and len(name) < SHORTEST_NAT:
        yield Problem("name", f'"name" ("{name}") must be between {SHORTEST_NAT} and 63 characters long')
    allocation, addresses = inputs.get("natIpAllocateOption"), inputs.get("natIps")
    # Discovery document compute v1, RouterNat.natIpAllocateOption: MANUAL_ONLY for the user's own addresses.
    if allocation == "AUTO_ONLY" and rows(addresses):
        yield Problem("natIps", "cannot be given when natIpAllocateOption is AUTO_ONLY", "use MANUAL_ONLY")
    if (
        allocation == "MANUAL_ONLY"
        and addresses is not UNKNOWN
        and not rows(addresses)
        and not inputs.get("initialNatIps")
    ):
        yield Problem("natIps", "is required when natIpAllocateOption is MANUAL_ONLY")
    # Discovery document compute v1, RouterNat.subnetworks: used only with LIST_OF_SUBNETWORKS.
    source_ranges, subnetworks = inputs.get("sourceSubnetworkIpRangesToNat"), inputs.get("subnetworks")
    if source_ranges == "LIST_OF_SUBNETWORKS" and subnetworks is not UNKNOWN and not rows(subnetworks):
        yield Problem("subnetworks", "is required when sourceSubnetworkIpRangesToNat is LIST_OF_SUBNETWORKS")
    if is_known(source_ranges) and source_ranges != "LIST_OF_SUBNETWORKS" and rows(subnetworks):
        yield Problem(
            "subnetworks",
            f"is used only when sourceSubnetworkIpRangesToNat is LIST_OF_SUBNETWORKS, got {source_ranges}",
        )
    yield from nat_ports(inputs)


def nat_ports(inputs: dict[str, Any]) -> Iterator[Problem]:
    # Discovery document compute v1, RouterNat.enableDynamicPortAllocation and RouterNat.maxPortsPerVm; the provider has
    # the same rules (pulumi_gcp 10.2.0, compute.RouterNat). Without dynamic allocation, any number is
    # valid: Google rounds minPortsPerVm up.
    dynamic, min_ports, max_ports = (
        inputs.get(name) for name in ("enableDynamicPortAllocation", "minPortsPerVm", "maxPortsPerVm")
    )
    if dynamic is UNKNOWN:
        return
    if not dynamic:
        if isinstance(max_ports, int | float):
            yield Problem("maxPortsPerVm", "can only be set when enableDynamicPortAllocation is true")
        return
    if inputs.get("enableEndpointIndependentMapping") is True:
        text = "cannot be true when enableEndpointIndependentMapping is true"
        yield Problem("enableDynamicPortAllocation", text)
    if isinstance(min_ports, int | float) and (min_ports < LEAST_PORTS or not power_of_two(min_ports)):
        yield Problem(
            "minPortsPerVm",
            f"expected a power of two of at least {LEAST_PORTS} with enableDynamicPortAllocation, got {min_ports:g}",
        )
    lower_bound = min_ports if isinstance(min_ports, int | float) else DEFAULT_PORTS
    if isinstance(max_ports, int | float) and (max_ports <= lower_bound or not power_of_two(max_ports)):
        yield Problem("maxPortsPerVm", f"expected a power of two above {lower_bound:g}, got {max_ports:g}")


def power_of_two(number: float) -> bool:
    return int(number) == number > 0 and int(number).bit_count() == 1


def global_address(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from labels(inputs.get("labels"), "labels")
    kind, purpose, bits = inputs.get("addressType"), inputs.get("purpose"), inputs.get("prefixLength")
    if kind in (None, "", "EXTERNAL"):
        # terraform-provider-google e03b7622, resource_compute_global_address.go: for INTERNAL only.
        for name in ("network", "purpose"):
            if inputs.get(name):
                yield Problem(name, "can only be set when addressType is INTERNAL (the default is EXTERNAL)")
        return
    if purpose == "VPC_PEERING" and not inputs.get("network"):
        yield Problem("network", "is required when purpose is VPC_PEERING")
    if purpose == "VPC_PEERING" and bits is not UNKNOWN:
        min_bits, max_bits = RESERVED_PREFIX
        if not isinstance(bits, int | float):
            yield Problem("prefixLength", "is required when purpose is VPC_PEERING")
        elif not min_bits <= bits <= max_bits:
            yield Problem(
                "prefixLength", f"expected prefixLength to be in the range ({min_bits} - {max_bits}), got {bits:g}"
            )


def network_attachment(inputs: dict[str, Any]) -> Iterator[Problem]:
    # Discovery document compute v1, NetworkAttachment.producerAcceptLists: for ACCEPT_MANUAL.
    if inputs.get("connectionPreference") == "ACCEPT_AUTOMATIC" and rows(inputs.get("producerAcceptLists")):
        yield Problem("producerAcceptLists", "is used only when connectionPreference is ACCEPT_MANUAL")
    if inputs.get("subnetworks") is not UNKNOWN and not rows(inputs.get("subnetworks")):
        yield Problem("subnetworks", "expected at least one subnetwork")


def connection(inputs: dict[str, Any]) -> Iterator[Problem]:
    ranges = inputs.get("reservedPeeringRanges")
    if ranges is not UNKNOWN and not rows(ranges):
        yield Problem("reservedPeeringRanges", "expected the name of at least one reserved range")
    for index, name in enumerate(rows(ranges)):
        if isinstance(name, str) and "/" in name:
            # Discovery document servicenetworking v1, Connection.reservedPeeringRanges: names.
            yield Problem(f"reservedPeeringRanges[{index}]", f"expected the name of a range, got {name}")
