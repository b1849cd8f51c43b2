"""Which Google machine has which GPU, where, and how it can be bought. Data and sources are in gcp.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# Shapes of the N1 series: vCPUs, and GB of memory for each (Google's N1 machine type table; general knowledge, as no
# copy of that page was at hand).
_N1_GB_PER_VCPU = {"standard": 3.75, "highmem": 6.5, "highcpu": 0.9}
_N1_VCPUS = (1, 2, 4, 8, 16, 32, 64, 96)

# Four P100 in these zones take at most 64 vCPUs and 208 GB (same source as the limits in gcp.json).
_SMALLER_P100_ZONES = frozenset({"us-east1-c", "europe-west1-b", "europe-west1-d"})


@dataclass(frozen=True)
class Gpus:
    """The GPUs of one machine: what they are, where they exist and how the machine is bought and booted."""

    accelerator: str
    name: str
    count: float
    memory_gb: int
    compute_capability: str
    markets: tuple[str, ...]
    boot_disks: tuple[str, ...]
    nic: str
    zones: tuple[str, ...]
    regions: tuple[str, ...]
    """Regions known to have the GPU in zones that no source names."""

    def is_in(self, zone: str) -> bool:
        """Whether the zone has this GPU, as far as anyone has published."""
        return zone in self.zones or region_of(zone) in self.regions

    def zones_near(self, zone: str) -> tuple[str, ...]:
        """Zones with this GPU: those of the same region, else all."""
        return tuple(z for z in self.zones if region_of(z) == region_of(zone)) or self.zones


def region_of(zone: str) -> str:
    """The region a zone is in: us-central1-a and us-south1-ai1b both name theirs before the last dash."""
    return zone.rpartition("-")[0]


def machine_types() -> tuple[str, ...]:
    """Every machine type that has a GPU, or can be given one."""
    return (*_data()["machineTypes"], *_n1_shapes())


def takes_accelerator(machine_type: str) -> bool:
    """Whether the GPU is attached to the machine, rather than built into it."""
    return machine_type in _n1_shapes()


def built_in(machine_type: str) -> Gpus:
    """The GPUs a machine type implies. KeyError for one that has none."""
    entry = _data()["machineTypes"][machine_type]
    return _gpus(entry["accelerator"], entry["count"], entry["family"], entry["markets"], entry["zones"])


def attached(accelerator: str, count: int) -> Gpus:
    """The GPUs of an N1 machine with this accelerator. KeyError for one that N1 does not take."""
    entry = _data()["attachments"][accelerator]
    return _gpus(accelerator, count, "N1", entry["markets"], entry["zones"])


def accelerators() -> tuple[str, ...]:
    """The accelerator types that can be attached."""
    return tuple(_data()["attachments"])


def counts(accelerator: str) -> tuple[int, ...]:
    """How many of an accelerator one machine can have."""
    return tuple(int(count) for count in _data()["attachments"][accelerator]["limits"])


def fits(machine_type: str, accelerator: str, count: int, zones: tuple[str, ...] = ()) -> str:
    """Why the machine is too big for these GPUs, or nothing when it is not."""
    vcpus, memory_gb = _n1_shapes()[machine_type]
    most_vcpus, most_memory_gb = _data()["attachments"][accelerator]["limits"][str(count)]
    if accelerator == "nvidia-tesla-p100" and count == 4 and _SMALLER_P100_ZONES & set(zones):
        most_vcpus, most_memory_gb = 64, 208
    if vcpus <= most_vcpus and memory_gb <= most_memory_gb:
        return ""
    most = f"{count} x {accelerator} takes at most {most_vcpus} vCPUs and {most_memory_gb} GB"
    return f"{most}; this has {vcpus} and {memory_gb:g}"


def _gpus(accelerator: str, count: float, family: str, markets: list[str], places: str) -> Gpus:
    data = _data()
    gpu, series, place = data["gpus"][accelerator], data["families"][family], data["places"][places]
    return Gpus(
        accelerator=accelerator,
        name=gpu["name"],
        count=count,
        memory_gb=gpu["memoryGb"],
        compute_capability=gpu["computeCapability"],
        markets=tuple(markets),
        boot_disks=tuple(series["bootDisks"]),
        nic=series.get("nic", ""),
        zones=tuple(place["zones"]),
        regions=tuple(place.get("regions", ())),
    )


@cache
def _n1_shapes() -> dict[str, tuple[int, float]]:
    return {
        f"n1-{shape}-{vcpus}": (vcpus, vcpus * each)
        for shape, each in _N1_GB_PER_VCPU.items()
        for vcpus in _N1_VCPUS
        if vcpus > 1 or shape == "standard"
    }


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(__file__).with_name("gcp.json").read_text(encoding="utf-8"))
    return data
