"""The types of the catalog: machines, GPUs, prices, quotas and others.

A market is a way in which a cloud sells a machine, such as spot. A row describes one machine, GPU or AMI type. A fact
is one field of a row. Each fact has at least one source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from .locations import nearest_locations, region_of

Cloud = Literal["gcp", "aws", "jarvislabs"]
Market = Literal["standard", "spot", "flex-start", "reservation", "capacity-block"]
Architecture = Literal["x86_64", "arm64"]

CLOUDS: tuple[Cloud, ...] = get_args(Cloud)
MARKETS: tuple[Market, ...] = get_args(Market)


@dataclass(frozen=True, slots=True)
class Source:
    """A source of facts, such as a page of a vendor."""

    key: str
    what: str
    """The title of the source, as messages cite it."""
    date: str | None
    """The date as YYYY-MM-DD, YYYY-MM or YYYY; None if the source has none."""
    certain: bool
    """False for general knowledge, inference and second-hand tables. Verify such facts before you rely on them."""


@dataclass(frozen=True, slots=True)
class Row:
    """The base of rows: the sources of the facts of a row."""

    sources: Mapping[str, tuple[str, ...]] = field(repr=False, compare=False, kw_only=True)
    """Source keys by field. The key of a fact about one market is, for example, markets.flex-start."""
    uncertain: tuple[str, ...] = field(repr=False, compare=False, kw_only=True)
    """The fields without a vendor's source."""


@dataclass(frozen=True, slots=True)
class Gpu(Row):
    """One GPU model."""

    key: str
    """The key, such as l4, a100-40gb or rtx-pro-6000."""
    name: str
    vendor: Literal["nvidia", "amd"]
    device_name: str
    """A part of the device name that the driver reports."""
    architecture: str
    compute_capability: str
    """The compute capability, such as 8.9; empty for a GPU without CUDA."""
    memory_gib: int
    """The nominal size: the GB in the vendor's product table, for the variant of the GPU that clouds offer.

    The nominal size is 270 for the B300 and 279 for the GB300, although chips of 288 are mounted. A driver reserves
    some memory. It reports 268.6 GiB of a B300, 179.1 of a B200 (nominal 180) and 22.5 of an L4 (nominal 24).
    `Machine.gpu_memory_gib` has the size that a cloud reports, also for a fraction of a GPU.
    """
    first_driver_branch: int | None
    """The first driver branch that supports the GPU; None if it is unknown."""
    last_driver_branch: int | None
    """The last driver branch that supports the GPU; None while new branches support the GPU."""
    kernel_module: Literal["proprietary", "open", "either", ""]
    """The NVIDIA kernel modules that support the GPU; empty for an AMD GPU."""
    accelerators: tuple[str, ...]
    """Google's accelerator types of this GPU."""

    @property
    def is_nvidia(self) -> bool:
        return self.vendor == "nvidia"

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability as comparable numbers; (0, 0) without CUDA."""
        major, _, minor = self.compute_capability.partition(".")
        return (int(major), int(minor)) if major else (0, 0)


@dataclass(frozen=True, slots=True)
class LocalDisks:
    """Local disks of a machine. They are deleted with the machine."""

    mode: Literal["none", "optional", "bundled", "unknown"]
    counts: tuple[int, ...] = ()
    """The possible numbers of disks; for bundled disks the actual number, if known."""
    size_gib: float | None = None
    """The size of all bundled disks together."""
    only_zones: tuple[str, ...] = ()
    """If not empty: the zones that offer the disks."""
    not_zones: tuple[str, ...] = ()
    """The zones that do not offer the disks."""


@dataclass(frozen=True, slots=True)
class Machine(Row):
    """A machine type with its GPUs. For N1, it is the machine type with the attached GPUs."""

    cloud: Cloud
    machine_type: str
    family: str
    gpu: Gpu
    gpu_count: float
    """The number of GPUs; below 1 for a fraction of a GPU."""
    gpu_memory_gib: float
    """The memory of one GPU, or of the fraction of a GPU, as the cloud reports it.

    Google Cloud reports the nominal size, AWS the usable size.
    """
    vcpus: int
    memory_gib: float
    architecture: Architecture
    markets: tuple[Market, ...]
    unverified_markets: tuple[Market, ...] = ()
    """Markets for which no source confirms that the machine is sold."""
    accelerator: str = ""
    """Google's accelerator type."""
    api_gpu_count: int = 0
    """The number of GPUs in Google's API; 1 for a fraction."""
    attached: bool = False
    """True if the GPUs are attached to an N1 machine, False if they are built in."""
    boot_disks: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    rdma_nic: str = ""
    gpudirect: str = ""
    """The GPUDirect variant: tcpx, tcpxo or rdma; empty if none is known."""
    efa_interfaces: int = 0
    network_mbps: int | None = None
    hypervisor: str = ""
    local_disks: LocalDisks = field(default_factory=lambda: LocalDisks("none"))
    zones: tuple[str, ...] = ()
    """Google's zones with the machine, from any source. The other clouds publish regions only."""
    zoneless_regions: tuple[str, ...] = ()
    """Regions that have the machine, but no source names the zones."""
    unlisted_regions: tuple[str, ...] = ()
    """Regions that have the machine, but are missing on the cloud's own page.

    They may be open to some projects only.
    """
    undated_zones: tuple[str, ...] = ()
    """Those of `zones` that only an undated copy of the API names, and not the cloud's own page."""
    ami_types: tuple[str, ...] = ()
    quota: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """Quota metrics by market; several if sources disagree."""
    custom_memory_gib: tuple[float, float] | None = None
    """The minimum and maximum memory of a custom machine with the same vCPUs."""
    legacy: bool = False
    """True for a machine that is known by name only. It is never recommended."""
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        """The key, such as gcp/n1-standard-8+nvidia-tesla-t4x1 or aws/g6.xlarge."""
        plus = f"+{self.accelerator}x{self.api_gpu_count}" if self.attached else ""
        return f"{self.cloud}/{self.machine_type}{plus}"

    @property
    def regions(self) -> tuple[str, ...]:
        """Every region with the machine, in alphabetical order."""
        return tuple(sorted({region_of(zone) for zone in self.zones} | set(self.zoneless_regions)))

    @property
    def nic(self) -> str:
        """The network interface type if only one is possible; empty otherwise."""
        return self.nics[0] if len(self.nics) == 1 else ""

    def is_in(self, place: str) -> bool:
        """Return True if a source says that the zone or region has the machine."""
        return place in self.zones or place in self.regions or region_of(place) in self.zoneless_regions

    def zones_near(self, zone: str) -> tuple[str, ...]:
        """Return the zones of the same region that have the machine. If there are none, return all zones that have it.

        The nearest zone is first.
        """
        near = tuple(z for z in self.zones if region_of(z) == region_of(zone))
        return near or tuple(nearest_locations(zone, self.zones))


@dataclass(frozen=True, slots=True)
class Attachment:
    """A number of GPUs that can be attached to an N1 machine, and the largest N1 machine that can have this number."""

    accelerator: str
    count: int
    max_vcpus: int
    max_memory_gib: float
    smaller_zones: tuple[str, ...] = ()
    """Zones with a lower limit."""
    smaller_max_vcpus: int | None = None
    smaller_max_memory_gib: float | None = None

    def limit(self, zones: tuple[str, ...] | list[str] = ()) -> tuple[int, float]:
        """Return the maximum vCPUs and memory in GiB that all of these zones allow."""
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
    """The price of one running machine."""

    usd_per_hour: float
    region: str
    market: Market
    date: str | None
    """The oldest date of the price's components; None if a component has no date."""
    sources: tuple[str, ...]
    estimated: bool = False
    """True if the price was computed from a published saving, False if it is listed."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota that a machine uses, and the amount for one machine."""

    metric: str
    """The metric in Google's API, or the AWS quota code."""
    name: str
    gpu_family: str
    """The GPU family of a newer Google quota, such as NVIDIA_H100; empty for other quotas."""
    unit: Literal["GPU", "vCPU", "GB"]
    scope: Literal["region", "global"]
    quota_id: str
    """The id in the Cloud Quotas API or in Service Quotas."""
    per_machine: float
    alternatives: tuple[str, ...] = ()
    """The metrics that other sources name instead."""
    certain: bool = True
    """False without a vendor's source."""


@dataclass(frozen=True, slots=True)
class DriverBranches:
    """The NVIDIA driver branches that support a GPU."""

    first: int
    last: int | None
    """The last branch; None while new branches support the GPU."""
    certain: bool
    """False without a vendor's source."""

    def __contains__(self, branch: int) -> bool:
        return self.first <= branch and (self.last is None or branch <= self.last)


@dataclass(frozen=True, slots=True)
class AmiType:
    """An EKS AMI type."""

    ami_type: str
    os: str
    architecture: str
    nvidia: bool
    retired: str
    """The day of the end of new images; empty for a current type."""


WEEK_SEC = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of one pool, with the fields that cost and quota need."""

    pool: str
    machine: Machine
    market: Market
    region: str
    max_machines: int
    machines_at_rest: float = 0
    """The number of machines that run without jobs, on average."""
    stopped_machines: int = 0
    """The number of stopped machines, in addition to `max_machines`. Each has a boot disk, but uses no GPU."""
    machines_of_a_check: int = 0
    """The number of machines that run for minutes while a template is checked. They count against quotas."""
    boot_disk: str = ""
    """Google's disk type; empty if the pool does not choose a disk type."""
    boot_disk_gib: int = 0
    local_ssd_gib: float = 0
    """The size of the local disks added to one machine, without bundled disks."""
    others: tuple[Machine, ...] = ()
    """Other machine types of the pool. They have the same GPUs and are not larger."""
    max_run_sec: int | None = None
    """The time after which a machine is deleted; None without a limit."""

    @property
    def most_machines(self) -> int:
        """The largest number of machines at one time."""
        return self.max_machines + self.machines_of_a_check

    @property
    def is_short_lived(self) -> bool:
        """True if the machines may use preemptible quota, even without spot. Google allows this for up to 7 days."""
        return self.max_run_sec is not None and self.max_run_sec <= WEEK_SEC
