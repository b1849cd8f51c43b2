"""The settings of a runner network in a stack file.

They are in a separate module, so that `gpu-ci check` can read them without loading Pulumi's Google package.
"""

from __future__ import annotations

from pydantic import Field, field_validator

from ..args import Args, StrictBool
from ..errors import did_you_mean, invalid
from . import ip_ranges, regions


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
        return ip_ranges.private_range(value)
