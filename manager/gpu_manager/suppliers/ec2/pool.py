"""The configuration of a pool on EC2."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from ...model import CONFIGURED, Offer, Pool, Rungs

# Also local zones, such as us-west-2-lax-1a (gpu_catalog/locations.py).
_ZONE = r"^[a-z]+(-[a-z]+)+-\d+([a-z]|-[a-z]+-\d+[a-z])$"
_REGION = r"^[a-z]+(-[a-z]+)+-\d+$"
_TEMPLATE = r"^lt-([0-9a-f]{8}|[0-9a-f]{17}):[1-9]\d{0,9}$"
_ID = r"([0-9a-f]{8}|[0-9a-f]{17})$"


@dataclass(frozen=True, config=CONFIGURED)
class Bucket:
    """A bucket of S3."""

    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    """The name of the bucket."""
    region: Annotated[str, Field(pattern=_REGION)]
    """The bucket's region, such as us-east-1."""

    @property
    def address(self) -> str:
        return f"s3://{self.bucket}"


@dataclass(frozen=True, config=CONFIGURED, kw_only=True)
class Ec2Offer(Offer):
    """A machine in an availability zone."""

    zone: Annotated[str, Field(pattern=_ZONE)]
    """An availability zone, such as us-east-1a."""
    market: Annotated[str, Field(pattern=r"^(spot|standard|reservation)$")]
    """The market of the machine: spot, standard or reservation, which is a Capacity Block."""
    template: str = Field(default="", pattern=rf"^$|{_TEMPLATE}")
    """The launch template and its version if they differ from the pool's, because each region has its own."""
    subnet: Annotated[str, Field(pattern=rf"^subnet-{_ID}")]
    """The subnet of the machine, which is in the zone."""
    security_groups: Annotated[
        tuple[Annotated[str, Field(pattern=rf"^sg-{_ID}")], ...], Field(min_length=1, max_length=5)
    ]
    """The security groups of the machine, 1 to 5."""
    reservation: str = Field(default="", pattern=rf"^$|^cr-{_ID}")
    """The capacity reservation that has the machine. The market standard uses an On-Demand Capacity Reservation."""

    @model_validator(mode="after")
    def _reservation(self) -> Ec2Offer:
        if (self.market == "reservation") > bool(self.reservation):
            raise ValueError(
                "reservation: the market reservation needs the id of a Capacity Block, such as cr-0a1b2c3d4e5f60718"
            )
        if self.market == "spot" and self.reservation:
            raise ValueError("reservation: a spot machine uses no capacity reservation")
        return self


@dataclass(frozen=True, config=CONFIGURED, kw_only=True)
class Ec2Pool(Pool):
    """A pool on EC2."""

    account: Annotated[str, Field(pattern=r"^\d{12}$")]
    """The id of the AWS account, 12 digits."""
    template: Annotated[str, Field(pattern=_TEMPLATE)]
    """The launch template whose check passed, with its version: lt-0a1b2c3d4e5f60718:3."""
    rungs: Rungs[Ec2Offer]
    """The places where the manager requests machines, in order."""
    registered_by: Literal["manager"] = "manager"
    """The program that registers the runners: the manager."""
    mailbox: Bucket
    """The bucket for messages between the manager and its machines. All pools of a manager have the same."""

    @model_validator(mode="after")
    def _standby_market(self) -> Ec2Pool:
        if self.standby and self.rungs[0].market != "standard":
            raise ValueError("standby: needs the market standard in the first rung, because EC2 stops no others")
        return self
