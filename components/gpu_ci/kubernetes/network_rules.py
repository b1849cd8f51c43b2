"""The network policies of a GpuNamespace.

Pods may reach public addresses, but no private networks and no credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Any

from pydantic import AfterValidator

from ..errors import invalid

_Network = IPv4Network | IPv6Network

# The ranges with the addresses that give credentials. 169.254.169.254 and fd00:ec2::254 give the credentials of an EC2
# instance (docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html). 169.254.170.23 and
# fd00:ec2::23 give the credentials of a pod's AWS role
# (docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html). Google also uses 169.254.169.254.
_CREDENTIALS = [ip_network(each) for each in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32")]
# RFC 1918, RFC 6598 (which EKS also assigns to pods) and RFC 4193.
_PRIVATE = [ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")]
# Ranges that no public server has (RFC 6890, and RFC 7526 for 192.88.99.0/24). Networks of Google Cloud may use them
# (cloud.google.com/vpc/docs/subnets, "Valid IPv4 ranges"). A VPC of AWS may use 198.19.0.0/16 (docs.aws.amazon.com/vpc/
# latest/userguide/vpc-cidr-blocks.html).
_RESERVED = [
    ip_network(each)
    for each in (
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        "240.0.0.0/4",
    )
]
_NOT_PUBLIC = [*_PRIVATE, *_RESERVED]


def _private_range(value: str) -> str:
    try:
        network = ip_network(value)
    except ValueError:
        raise invalid(
            "is not a range of addresses, or does not start at its first address",
            "not-an-ip-range",
            hint="10.20.0.0/16",
        ) from None
    # Python also accepts a single address, a mask or a zone as a range. A NetworkPolicy accepts only the format of Go's
    # ParseCIDR (k8s.io/kubernetes v1.36.0, pkg/apis/networking/validation/validation.go, ValidateIPBlock).
    if not re.fullmatch(r"[0-9A-Fa-f:.]+/[0-9]+", value):
        raise invalid(
            "is not an address followed by / and the length of the prefix", "not-an-ip-range", hint="10.20.0.0/16"
        )
    if any(network.version == other.version and network.overlaps(other) for other in _CREDENTIALS):
        raise invalid(
            "contains addresses that give the machine's credentials",
            "range-of-credentials",
            safe_hint="use a range without these addresses",
        )
    if not any(_within(network, other) for other in _NOT_PUBLIC):
        raise invalid(
            "is not in a private address range",
            "public-range",
            safe_hint="remove it: pods already reach public addresses",
        )
    return value


def _within(inner: _Network, outer: _Network) -> bool:
    if isinstance(inner, IPv4Network):
        return isinstance(outer, IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and inner.subnet_of(outer)


PrivateRange = Annotated[str, AfterValidator(_private_range)]


def _dns_address(value: str) -> str:
    try:
        address = ip_address(value)
    except ValueError:
        raise invalid("is not an IP address", "not-an-ip-address", hint="169.254.20.10") from None
    if not re.fullmatch(r"[0-9A-Fa-f:.]+", value):
        raise invalid("has a zone, which a NetworkPolicy does not support", "not-an-ip-address", hint="169.254.20.10")
    if not any(address in other for other in (*_NOT_PUBLIC, *_CREDENTIALS)):
        raise invalid(
            "is a public address: queries to a public server could carry data out of the cluster",
            "public-dns",
            safe_hint="use the address of a DNS server of the cluster or of its network",
        )
    return value


DnsAddress = Annotated[str, AfterValidator(_dns_address)]

# The default address of NodeLocal DNSCache. It is on an interface of the node, so no pod selector can match it
# (kubernetes.io/docs/tasks/administer-cluster/nodelocaldns; kubernetes/kubernetes#70555). This address gives no
# credentials. Without the cache, no interface has the address.
_NODE_LOCAL_DNS = "169.254.20.10/32"


def closed() -> dict[str, Any]:
    """Return a policy that denies all traffic of every pod of the namespace. The other policies allow some traffic."""
    return {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def to_dns(addresses: Iterable[str] = ()) -> dict[str, Any]:
    """Return a policy that allows DNS queries to kube-system, to NodeLocal DNSCache and to these addresses.

    Queries to other servers could carry data out of the cluster.
    """
    servers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    ranges = dict.fromkeys([_NODE_LOCAL_DNS, *(str(ip_network(each)) for each in addresses)])
    return _egress([servers, *({"ipBlock": {"cidr": each}} for each in ranges)], [("UDP", 53), ("TCP", 53)])


def to_public_addresses(ports: list[int], private: list[str]) -> dict[str, Any]:
    """Return a policy that allows traffic to these ports of public addresses and of the given private ranges."""
    excluded = [*_PRIVATE, *_CREDENTIALS, *_RESERVED]
    public = [
        {"ipBlock": {"cidr": all_addresses, "except": [str(each) for each in excluded if each.version == version]}}
        for all_addresses, version in (("0.0.0.0/0", 4), ("::/0", 6))
    ]
    return _egress([*public, *({"ipBlock": {"cidr": each}} for each in private)], [("TCP", port) for port in ports])


def _egress(to: list[dict[str, Any]], ports: list[tuple[str, int]]) -> dict[str, Any]:
    rule = {"to": to, "ports": [{"protocol": protocol, "port": port} for protocol, port in ports]}
    return {"podSelector": {}, "policyTypes": ["Egress"], "egress": [rule]}
