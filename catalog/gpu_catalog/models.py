"""The catalog's types: machines and their GPUs, and what is known of them besides, such as prices and quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from .locations import nearest_locations, region_of

Cloud = Literal["gcp", "aws"]
Market = Literal["standard", "spot", "flex-start", "reservation", "capacity-block"]
Architecture = Literal["x86_64", "arm64"]

CLOUDS: tuple[Cloud, ...] = get_args(Cloud)
MARKETS: tuple[Market, ...] = get_args(Market)


@dataclass(frozen=True, slots=True)
class Source:
    """Where facts were read."""

    key: str
    what: str
    date: str | None
    """YYYY-MM-DD, YYYY-MM or YYYY; None for an undated one."""
    certain: bool
    """False for general knowledge, inference and second-hand tables: verify before relying on it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row that knows where each of its facts comes from."""

    sources: Mapping[str, tuple[str, ...]] = field(repr=False, compare=False, kw_only=True)
    """Source keys by field; a fact about one market stands under such as markets.flex-start."""
    uncertain: tuple[str, ...] = field(repr=False, compare=False, kw_only=True)
    """The fields that no vendor's text was read for."""


@dataclass(frozen=True, slots=True)
class Gpu(Row):
    """One model of card."""

    key: str
    """Such as l4, a100-40gb or rtx-pro-6000."""
    name: str
    vendor: Literal["nvidia", "amd"]
    device_name: str
    """Words that are in the name the driver gives the device."""
    architecture: str
    compute_capability: str
    """Such as 8.9; empty for a card without CUDA."""
    memory_gib: int
    """The nominal size: what its vendor's table of products calls GB, for the form in which clouds have the card.

    So 270 for the B300 and 279 for the GB300, not the 288 of the chips mounted. A driver counts in GiB and keeps a
    little: 268.6 of those 270, 179.1 of a B200's 180, 22.5 of an L4's 24. What a cloud reports, or a fraction has, is
    `Machine.gpu_memory_gib`.
    """
    first_driver_branch: int | None
    last_driver_branch: int | None
    """None while new branches support it."""
    kernel_module: Literal["proprietary", "open", "either", ""]
    """Which of NVIDIA's kernel modules can drive it; empty for what NVIDIA did not make."""
    accelerators: tuple[str, ...]
    """Google's accelerator types of this card."""

    @property
    def is_nvidia(self) -> bool:
        return self.vendor == "nvidia"

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability as numbers that compare; (0, 0) without CUDA."""
        major, _, minor = self.compute_capability.partition(".")
        return (int(major), int(minor)) if major else (0, 0)


@dataclass(frozen=True, slots=True)
class LocalDisks:
    """Disks inside the machine, gone with it."""

    mode: Literal["none", "optional", "bundled", "unknown"]
    counts: tuple[int, ...] = ()
    """How many there can be; for bundled ones how many there are, where that is known."""
    size_gib: float | None = None
    """All bundled ones together."""
    only_zones: tuple[str, ...] = ()
    not_zones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine(Row):
    """A machine type with its GPUs; for N1, the machine type and what is attached to it."""

    cloud: Cloud
    machine_type: str
    family: str
    gpu: Gpu
    gpu_count: float
    """Below 1 for a fraction of a GPU."""
    gpu_memory_gib: float
    """Of one GPU, or of the fraction, as the cloud gives it: nominal on Google Cloud, usable on AWS."""
    vcpus: int
    memory_gib: float
    architecture: Architecture
    markets: tuple[Market, ...]
    unverified_markets: tuple[Market, ...] = ()
    """Neither known to be sold nor known not to be."""
    accelerator: str = ""
    """Google's accelerator type."""
    api_gpu_count: int = 0
    """What Google's API counts: 1 for a fraction."""
    attached: bool = False
    """Whether the GPUs are attached to an N1 machine, rather than built in."""
    boot_disks: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    rdma_nic: str = ""
    gpudirect: str = ""
    """tcpx, tcpxo or rdma; empty for none known."""
    efa_interfaces: int = 0
    network_mbps: int | None = None
    hypervisor: str = ""
    local_disks: LocalDisks = field(default_factory=lambda: LocalDisks("none"))
    zones: tuple[str, ...] = ()
    """Google's zones that some source names; AWS publishes regions only."""
    zoneless_regions: tuple[str, ...] = ()
    """Regions that have it in zones no source names."""
    unlisted_regions: tuple[str, ...] = ()
    """Those of its regions that the cloud's own page does not name. They may be open to some projects only."""
    ami_types: tuple[str, ...] = ()
    quota: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """Quota metrics by market; several where sources disagree."""
    custom_memory_gib: tuple[float, float] | None = None
    """The least and most memory the same machine can be ordered with."""
    legacy: bool = False
    """Known by name so that a question has an answer; never to be chosen."""
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        """One text for cloud, machine type and attachment: gcp/n1-standard-8+nvidia-tesla-t4x1, aws/g6.xlarge."""
        plus = f"+{self.accelerator}x{self.api_gpu_count}" if self.attached else ""
        return f"{self.cloud}/{self.machine_type}{plus}"

    @property
    def regions(self) -> tuple[str, ...]:
        """Every region known to have it, in alphabetical order."""
        return tuple(sorted({region_of(zone) for zone in self.zones} | set(self.zoneless_regions)))

    @property
    def nic(self) -> str:
        """The network interface it must have, empty where there is a choice."""
        return self.nics[0] if len(self.nics) == 1 else ""

    def is_in(self, place: str) -> bool:
        """Whether a zone or region has it, as far as anyone has published."""
        return place in self.zones or place in self.regions or region_of(place) in self.zoneless_regions

    def zones_near(self, zone: str) -> tuple[str, ...]:
        """Zones that have it: those of the same region, else all, the nearest first."""
        near = tuple(z for z in self.zones if region_of(z) == region_of(zone))
        return near or tuple(nearest_locations(zone, self.zones))


@dataclass(frozen=True, slots=True)
class Attachment:
    """A number of GPUs that attach to an N1 machine, and the largest machine that takes them."""

    accelerator: str
    count: int
    max_vcpus: int
    max_memory_gib: float
    smaller_zones: tuple[str, ...] = ()
    """Zones that allow less."""
    smaller_max_vcpus: int | None = None
    smaller_max_memory_gib: float | None = None

    def limit(self, zones: tuple[str, ...] | list[str] = ()) -> tuple[int, float]:
        """The most vCPUs and memory in GiB, in all of these zones."""
        if (
            self.smaller_max_vcpus is None
            or self.smaller_max_memory_gib is None
            or not {*zones} & {*self.smaller_zones}
        ):
            return self.max_vcpus, self.max_memory_gib
        return self.smaller_max_vcpus, self.smaller_max_memory_gib


@dataclass(frozen=True, slots=True)
class N1Shape:
    """An N1 machine type by itself, without GPUs."""

    machine_type: str
    vcpus: int
    memory_gib: float


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
