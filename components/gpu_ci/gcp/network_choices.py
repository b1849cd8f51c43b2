"""The settings of a runner network in a stack file, and the validation of IPv4 ranges.

They are in a separate module, so that `gpu-ci check` can read them without loading Pulumi's Google package.
"""

from __future__ import annotations

import ipaddress

from pydantic import Field, field_validator

from ..args import Args, StrictBool
from ..errors import did_you_mean, invalid
from . import regions


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


def network_region(value: str) -> str:
    """Return the region. Raise an error if Google Cloud has no such region."""
    if value not in regions.COMPUTE:
        raise invalid(
            "is not a region of Google Cloud",
            "not-a-region",
            hint=did_you_mean(value, regions.COMPUTE) or "such as us-central1",
        )
    return value


class NetworkChoices(Args):
    """The settings of a runner network in a stack file."""

    ip_range: str = Field(description="the private IPv4 range of the subnetwork, such as 10.10.0.0/20")
    iap_ssh: StrictBool = Field(
        default=False, description="whether to allow SSH from Identity-Aware Proxy, which authenticates the user"
    )
    flow_logs: StrictBool = Field(
        default=False, description="whether to log connections, which Google bills per GiB of logs"
    )

    @field_validator("ip_range")
    @classmethod
    def _ip_range(cls, value: str) -> str:
        return private_range(value)
