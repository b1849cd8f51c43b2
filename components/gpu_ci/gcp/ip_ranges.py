"""Validates IPv4 ranges for Google Cloud."""

from __future__ import annotations

import ipaddress

from ..errors import invalid


def subnet(value: str) -> str:
    """Return the IPv4 range. It must start at its first address, such as 10.10.0.0/20."""
    try:
        network = ipaddress.IPv4Network(value if "/" in value else "", strict=False)
    except ValueError:
        raise invalid("is not an IPv4 range", "not-an-ip-range", hint="such as 10.10.0.0/20") from None
    if str(network) != value:
        raise invalid("does not start at its first address", "not-an-ip-range", hint=f"write {network}")
    return value


# The private ranges of RFC 1918 and RFC 6598. Google accepts more ranges (cloud.google.com/vpc/docs/subnets, "Valid
# IPv4 ranges"). Some of these are public addresses of other organizations, so gpu-ci does not allow them.
_PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))


def private_range(value: str) -> str:
    """Return the IPv4 range. It must be private, and at least /29."""
    network = ipaddress.IPv4Network(subnet(value))
    # cloud.google.com/vpc/docs/subnets, "IPv4 subnet ranges": at least /29.
    if network.prefixlen > 29:
        raise invalid(
            "is too small; the smallest range is /29, with 8 addresses", "range-too-small", hint="such as 10.10.0.0/20"
        )
    if not any(network.subnet_of(private) for private in _PRIVATE):
        raise invalid(
            "is not in a private address range",
            "public-range",
            expected=f"a subnet of {', '.join(map(str, _PRIVATE))}",
            hint="such as 10.10.0.0/20",
        )
    return value
