"""What is known beside the machines: prices, quotas, driver branches, divided cards and images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .models import Market


@dataclass(frozen=True, slots=True)
class Price:
    """What one machine costs while it runs."""

    usd_per_hour: float
    region: str
    market: Market
    date: str | None
    """The oldest date of what it is made of; None when a part is undated."""
    sources: tuple[str, ...]
    estimated: bool = False
    """True when it was computed from a saving, rather than listed."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit a machine draws from, and how much one machine takes."""

    metric: str
    """As Google's API names it, or the AWS quota code."""
    name: str
    gpu_family: str
    """The dimension of Google's newer quotas, such as NVIDIA_H100."""
    unit: Literal["GPU", "vCPU", "GB"]
    scope: Literal["region", "global"]
    quota_id: str
    """What to ask for in the Cloud Quotas API or in Service Quotas."""
    per_machine: float
    alternatives: tuple[str, ...] = ()
    """The metrics other sources name instead."""
    certain: bool = True


@dataclass(frozen=True, slots=True)
class DriverBranches:
    """The NVIDIA driver branches that support a card."""

    first: int
    last: int | None
    """None while new branches do."""
    certain: bool

    def __contains__(self, branch: int) -> bool:
        return self.first <= branch and (self.last is None or branch <= self.last)


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A way to divide a card."""

    gpu: str
    profile: str
    memory_gib: int
    max_instances: int
    gke_partition_size: str
    """What GKE calls it, empty where it does not offer it."""


@dataclass(frozen=True, slots=True)
class AmiType:
    """An EKS AMI type."""

    ami_type: str
    os: str
    architecture: str
    nvidia: bool
    retired: str
    """The day since which there are no new images, empty for none."""
