"""Look up machine types by name; gpu_catalog has the types with GPUs and their sources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import gpu_catalog

GENERAL_PATTERN = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+"
WORKSTATION = "-vws"  # the suffix of an accelerator type's virtual workstation variant, which is the same GPU


@dataclass(frozen=True)
class MachineType:
    """A machine type. `offer` is the entry of gpu_catalog for a type with built-in GPUs, with its zones and quotas."""

    name: str
    vcpus: int | None = None
    memory_gb: float | None = None
    offer: gpu_catalog.Machine | None = None

    @property
    def accelerator(self) -> str:
        return self.offer.accelerator if self.offer else ""

    @property
    def gpus(self) -> int:
        return self.offer.api_gpu_count if self.offer else 0


@cache
def machine(name: str) -> MachineType | None:
    """Return the machine type of this name; None if it is no name of a machine type."""
    if gpu_catalog.takes_accelerator(name):
        shape = gpu_catalog.n1_shape(name)
        return MachineType(name, shape.vcpus, shape.memory_gib)
    try:
        offer = gpu_catalog.machine(name, "gcp")
    except LookupError:
        return MachineType(name) if re.fullmatch(GENERAL_PATTERN, name) else None
    return None if offer.attached else MachineType(name, offer.vcpus, offer.memory_gib, offer)


def offer_of(machine_type: MachineType, attached: str = "") -> gpu_catalog.Machine | None:
    """Return the catalog entry that gives the zones and the quota of a machine.

    For an attached accelerator, this is one card on the smallest N1.
    """
    accelerator = attached.removesuffix(WORKSTATION)
    if machine_type.offer or accelerator not in gpu_catalog.attachable():
        return machine_type.offer
    return gpu_catalog.attached("n1-standard-1", accelerator)


def other_zones(offer: gpu_catalog.Machine | None, zone: str) -> list[str]:
    """Return the other zones of the region that offer the machine, as `zonesAvailable` of a stockout may name them."""
    return [one for one in gpu_catalog.zones(offer, gpu_catalog.region_of(zone)) if one != zone] if offer else []


def quota_metric(offer: gpu_catalog.Machine, spot: bool) -> str:
    """Return the quota that the GPUs count against, as the API names it in QUOTA_EXCEEDED."""
    metrics = offer.quota.get("spot" if spot else "standard", ()) or offer.quota["standard"]
    return metrics[0]
