"""What Compute Engine offers with a GPU: machine types, attachments, zones, disks (sources: gcp_machines.json)."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("gcp_machines.json")

# Google Cloud documentation "General-purpose machine family for Compute Engine"
# (docs.cloud.google.com/compute/docs/general-purpose-machines): N1 predefined types and their memory per vCPU.
N1_MEMORY_PER_VCPU = {"standard": 3.75, "highmem": 6.5, "highcpu": 0.9}
N1_VCPUS = {
    "standard": (1, 2, 4, 8, 16, 32, 64, 96),
    "highmem": (2, 4, 8, 16, 32, 64, 96),
    "highcpu": (2, 4, 8, 16, 32, 64, 96),
}
SHARED_CORE = ("f1-micro", "g1-small", "e2-micro", "e2-small", "e2-medium")
GENERAL_PATTERN = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+"
WORKSTATION = "-vws"  # the virtual workstation variant of an accelerator type is the same card


@dataclass(frozen=True)
class Machine:
    """A machine type; `accelerator` is what the type itself brings, empty for types that bring none."""

    name: str
    vcpus: int | None
    memory_gb: float | None
    family: str = ""
    accelerator: str = ""
    gpus: int = 0
    models: tuple[str, ...] = ()
    boot_disks: tuple[str, ...] = ()

    @property
    def takes_accelerators(self) -> bool:
        return self.name.startswith(("n1-", "custom-"))


@cache
def data() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DATA.read_text())
    return loaded


def known_types() -> list[str]:
    n1 = [f"n1-{kind}-{vcpus}" for kind, sizes in N1_VCPUS.items() for vcpus in sizes]
    return [*data()["machineTypes"], *n1, *SHARED_CORE]


def short(name: str) -> str:
    """The bare name of a machine type or accelerator type given as a URL."""
    return name.rsplit("/", 1)[-1]


@cache
def machine(name: str) -> Machine | None:
    """The machine type of that name; None when Compute Engine cannot have it."""
    bare = name.removesuffix("-nolssd")
    found = data()["machineTypes"].get(bare)
    if found and (bare == name or found.get("nolssd")):
        return _accelerated(name, found, found["memoryGb"])
    if custom := re.fullmatch(r"g2-custom-(\d+)-(\d+)", name):
        return _custom_g2(name, int(custom[1]), int(custom[2]) / 1024)
    if predefined := re.fullmatch(r"n1-(standard|highmem|highcpu)-(\d+)", name):
        kind, vcpus = predefined[1], int(predefined[2])
        if vcpus not in N1_VCPUS[kind]:
            return None
        return Machine(name, vcpus, vcpus * N1_MEMORY_PER_VCPU[kind], family="N1")
    if custom := re.fullmatch(r"(?:n1-)?custom-(\d+)-(\d+)(?:-ext)?", name):
        return Machine(name, int(custom[1]), int(custom[2]) / 1024, family="N1")
    if name.split("-")[0] in series() and name not in SHARED_CORE:
        return None  # a series whose types are all known, and this is none of them
    return Machine(name, None, None) if re.fullmatch(GENERAL_PATTERN, name) else None


def _accelerated(name: str, found: dict[str, Any], memory_gb: float) -> Machine:
    family = data()["families"][found["family"]]
    return Machine(
        name=name,
        vcpus=found["vcpus"],
        memory_gb=memory_gb,
        family=found["family"],
        accelerator=family["accelerator"],
        gpus=found["gpus"],
        models=tuple(found["models"].split()),
        boot_disks=tuple(family["bootDisks"]),
    )


def _custom_g2(name: str, vcpus: int, memory_gb: float) -> Machine | None:
    found = data()["machineTypes"].get(f"g2-standard-{vcpus}")
    if not found or not found["customMemoryGb"][0] <= memory_gb <= found["customMemoryGb"][1]:
        return None
    return _accelerated(name, found, memory_gb)


@cache
def series() -> frozenset[str]:
    """The series every type of which is in the data."""
    return frozenset(name.split("-")[0] for name in known_types() if name not in SHARED_CORE)


def did_you_mean(name: str) -> str:
    close = difflib.get_close_matches(name, known_types(), n=1, cutoff=0.75)
    return f"did you mean {close[0]}?" if close else ""


def n1_limit(accelerator: str, count: int, zones: list[str]) -> tuple[int, int] | None:
    """The most vCPUs and memory (GB) an N1 machine may have with that many GPUs; None for a count there is not."""
    limits = data()["n1Limits"]
    card = accelerator.removesuffix(WORKSTATION)
    found = limits["by"].get(card, {}).get(str(count))
    if found is None:
        return None
    special = limits["p100x4InZones"]
    if card == "nvidia-tesla-p100" and count == 4 and set(zones) & set(special["zones"]):
        found = special["limit"]
    return found[0], found[1]


def n1_counts(accelerator: str) -> list[int]:
    return [int(count) for count in data()["n1Limits"]["by"].get(accelerator.removesuffix(WORKSTATION), {})]


def attachable() -> list[str]:
    return list(data()["n1Limits"]["by"])


def family_of(chosen: Machine, attached: str = "") -> str:
    """The row of the zone table: the machine's own family, or the card attached to an N1; empty without a GPU."""
    if chosen.accelerator:
        return chosen.family
    card = attached.removesuffix(WORKSTATION)
    rows = data()["families"]
    return next((name for name, row in rows.items() if name.startswith("N1+") and row["accelerator"] == card), "")


def zones_of(family: str, region: str = "") -> list[str]:
    """The zones that have it, one region's or all; a region whose letters are unknown is left out."""
    table: dict[str, str] = data()["families"][family]["zones"]
    return [
        f"{place}-{letter}"
        for place, letters in table.items()
        if (not region or place == region) and letters != "*"
        for letter in letters.split()
    ]


def in_region(family: str, region: str) -> bool:
    return region in data()["families"][family]["zones"]


def in_zone(family: str, zone: str) -> bool:
    region, _, letter = zone.rpartition("-")
    letters = data()["families"][family]["zones"].get(region, "").split()
    return letter in letters or letters == ["*"]


@cache
def regions() -> frozenset[str]:
    """Every region that some row names: enough to tell a zone of another region from a misspelt one."""
    return frozenset(region for row in data()["families"].values() for region in row["zones"])


def quota_metric(family: str, spot: bool) -> str:
    """The quota a GPU of that family draws from, as the API names it in QUOTA_EXCEEDED."""
    metric: str = data()["families"][family]["quota"]
    return f"PREEMPTIBLE_{metric}" if spot and metric.startswith("NVIDIA_") else metric
