"""Which addresses pods may reach: the world without private networks and without what hands out credentials."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any

from pydantic import AfterValidator

from ..errors import invalid

_Network = IPv4Network | IPv6Network

# 169.254.169.254 and fd00:ec2::254 answer for an EC2 instance (docs.aws.amazon.com/AWSEC2/latest/UserGuide/
# instancedata-data-retrieval.html), 169.254.170.23 and fd00:ec2::23 for a pod's AWS role (docs.aws.amazon.com/eks/
# latest/userguide/pod-id-agent-setup.html); 169.254.169.254 is Google's too. All of it is link-local or in fc00::/7.
_CREDENTIALS = [ip_network(each) for each in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32")]
# RFC 1918, RFC 6598 (which EKS hands to pods too), RFC 4193.
_PRIVATE = [ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")]


def _private(value: str) -> str:
    try:
        network = ip_network(value)
    except ValueError:
        raise invalid("is no range of addresses, or does not begin at its first one", hint="10.20.0.0/16") from None
    # An address alone, a mask and a zone are ranges for Python and none for Kubernetes, whose NetworkPolicy takes what
    # Go's ParseCIDR does (k8s.io/kubernetes v1.36.0, pkg/apis/networking/validation/validation.go, ValidateIPBlock).
    if not re.fullmatch(r"[0-9A-Fa-f:.]+/[0-9]+", value):
        raise invalid("is not written as an address and how many of its bits count", hint="10.20.0.0/16")
    if any(network.version == other.version and network.overlaps(other) for other in _CREDENTIALS):
        raise invalid("holds addresses that hand out the machine's credentials", safe_hint="name a range without them")
    if not any(_within(network, other) for other in _PRIVATE):
        raise invalid("is not in a range of private networks", safe_hint="remove it: the world is reached without it")
    return value


def _within(inner: _Network, outer: _Network) -> bool:
    if isinstance(inner, IPv4Network):
        return isinstance(outer, IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and inner.subnet_of(outer)


PrivateRange = Annotated[str, AfterValidator(_private)]

# The default of NodeLocal DNSCache, on an interface of the node, so that no selector of pods can name it
# (kubernetes.io/docs/tasks/administer-cluster/nodelocaldns; kubernetes/kubernetes#70555). Where the cache does not run,
# no interface has the address. It is link-local, and hands out no credentials.
_NODE_LOCAL_DNS = "169.254.20.10/32"


def closed() -> dict[str, Any]:
    """Nothing in and nothing out, for every pod of the namespace; what others allow adds to it."""
    return {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def to_dns() -> dict[str, Any]:
    """Names are asked for in kube-system and of the node's own cache, so that none is smuggled out to a server of
    somebody's choice."""
    servers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    return _egress([servers, {"ipBlock": {"cidr": _NODE_LOCAL_DNS}}], [("UDP", 53), ("TCP", 53)])


def to_the_world(ports: list[int], private: list[str]) -> dict[str, Any]:
    """Out to these ports of public addresses, and of the private ones that are named."""
    closed_off = [*_PRIVATE, *_CREDENTIALS]
    world = [
        {"ipBlock": {"cidr": everything, "except": [str(each) for each in closed_off if each.version == version]}}
        for everything, version in (("0.0.0.0/0", 4), ("::/0", 6))
    ]
    return _egress([*world, *({"ipBlock": {"cidr": each}} for each in private)], [("TCP", port) for port in ports])


def _egress(to: list[dict[str, Any]], ports: list[tuple[str, int]]) -> dict[str, Any]:
    rule = {"to": to, "ports": [{"protocol": protocol, "port": port} for protocol, port in ports]}
    return {"podSelector": {}, "policyTypes": ["Egress"], "egress": [rule]}
