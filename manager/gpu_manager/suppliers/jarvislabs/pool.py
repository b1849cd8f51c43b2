"""The configuration of a pool on Jarvis Labs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from ...model import CONFIGURED, Offer, Pool, Rungs

EUROPE = "EU1"
# The GPUs of EU1 (jarvislabs 0.2.19, constants.EUROPE_GPU_TYPES and EUROPE_GPU_COUNTS).
_EUROPE_MACHINES = ("1xH100", "1xH200")


@dataclass(frozen=True, config=CONFIGURED)
class Bucket:
    """A bucket of Cloud Storage or S3."""

    address: Annotated[str, Field(pattern=r"^(gs|s3)://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$")]
    """The bucket: gs://NAME or s3://NAME."""
    region: str = ""
    """The region of a bucket of S3, such as us-east-1."""

    @model_validator(mode="after")
    def _region(self) -> Bucket:
        if self.address.startswith("s3:") != bool(self.region):
            raise ValueError("region: a bucket of S3 needs its region, and a bucket of Cloud Storage has none")
        return self


@dataclass(frozen=True, config=CONFIGURED, kw_only=True)
class JarvisOffer(Offer):
    """A VM in a region."""

    zone: Annotated[str, Field(pattern=r"^(IN1|IN2|EU1)$")]
    """A region: IN1, IN2 or EU1."""
    machine_type: Annotated[str, Field(pattern=r"^[1-8]x[A-Za-z0-9][A-Za-z0-9 _-]{0,30}$")]
    """The number and type of the GPUs, such as 1xH100."""
    market: Literal["standard"] = "standard"
    """The market of the machine: standard. Jarvis Labs has spot containers, and no spot VMs."""

    @model_validator(mode="after")
    def _europe(self) -> JarvisOffer:
        if self.zone == EUROPE and self.machine_type not in _EUROPE_MACHINES:
            raise ValueError(f"machineType: {EUROPE} has {' and '.join(_EUROPE_MACHINES)} only")
        return self


@dataclass(frozen=True, config=CONFIGURED, kw_only=True)
class JarvisPool(Pool):
    """A pool on Jarvis Labs."""

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,9}[a-z0-9])?$")]
    """The name of the pool: 1 to 11 lower-case letters, digits and dashes. A VM's name has 40 characters at most."""
    account: Annotated[str, Field(min_length=1)]
    """The user id of the account, as the API's users/user_info returns it."""
    template: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The SHA-256 of the definition of the machines, an object <manager>/templates/<sha256>.json of the mailbox."""
    rungs: Rungs[JarvisOffer]
    """The regions where the manager requests machines, in order."""
    registered_by: Literal["manager"] = "manager"
    """The program that registers the runners: the manager."""
    mailbox: Bucket
    """The bucket for messages between the manager and its machines. All pools of a manager have the same."""
    storage_gb: int = Field(default=100, ge=100)
    """The size of the disk in GB, at least 100. A stopped machine costs its disk."""

    reuse: int = Field(default=0, ge=0, le=50)
    """The most jobs of one host, 2 to 50; 0 if a host is deleted after its job."""

    @model_validator(mode="after")
    def _stopped(self) -> JarvisPool:
        name = "standby" if self.standby else "reuse"
        if self.kept and self.mailbox.region:
            # A URL that a role has signed ends with the role's session, after 1 to 12 hours.
            raise ValueError(f"{name}: needs a mailbox in Cloud Storage, whose signed URLs are valid for 7 days")
        if self.reuse and self.runner_group == "Default":
            raise ValueError("reuse: needs a runner group that only listed private repositories may use, not Default")
        return self
