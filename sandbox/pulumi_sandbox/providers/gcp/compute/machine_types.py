"""What Compute Engine answers to the name of a machine type; what has GPUs is in gpu_catalog, with its sources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import gpu_catalog
from gpu_common.suggest import closest

SHARED_CORE = ("f1-micro", "g1-small", "e2-micro", "e2-small", "e2-medium")
GENERAL_PATTERN = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+"
WORKSTATION = "-vws"  # the virtual workstation variant of an accelerator type is the same card

# The API's words for what the catalog calls markets.
MODELS = {"standard": "STANDARD", "spot": "SPOT", "flex-start": "FLEX_START", "reservation": "RESERVATION_BOUND"}


@dataclass(frozen=True)
class MachineType:
    """A machine type; `offer` is what the catalog knows of one that brings GPUs itself."""

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

    @property
    def models(self) -> tuple[str, ...]:
        """The provisioning models it can be bought as."""
        if self.offer is None:
            return ()
        # What sources contradict each other on is refused by Google alone.
        return tuple(MODELS[market] for market in (*self.offer.markets, *self.offer.unverified_markets))

    @property
    def boot_disks(self) -> tuple[str, ...]:
        return self.offer.boot_disks if self.offer else ()

    @property
    def takes_accelerators(self) -> bool:
        return self.name.startswith(("n1-", "custom-"))


def known_types() -> list[str]:
    return [*gpu_catalog.machine_types("gcp"), *SHARED_CORE]


def short(name: str) -> str:
    """The bare name of a machine type or accelerator type given as a URL."""
    return name.rsplit("/", 1)[-1]


@cache
def machine(name: str) -> MachineType | None:
    """The machine type of that name; None when Compute Engine cannot have it."""
    if gpu_catalog.takes_accelerator(name):
        shape = gpu_catalog.n1_shape(name)
        return MachineType(name, shape.vcpus, shape.memory_gib)
    try:
        offer = gpu_catalog.machine(name, "gcp")
    except LookupError:
        if name.split("-")[0] in series() and name not in SHARED_CORE:
            return None  # a series whose types are all known, and this is none of them
        return MachineType(name) if re.fullmatch(GENERAL_PATTERN, name) else None
    return None if offer.attached else MachineType(name, offer.vcpus, offer.memory_gib, offer)


@cache
def series() -> frozenset[str]:
    """The series every type of which is in the catalog."""
    return frozenset(name.split("-")[0] for name in gpu_catalog.machine_types("gcp"))


def did_you_mean(name: str) -> str:
    near = closest(name, known_types(), cutoff=0.75)
    return f"did you mean {near}?" if near else ""


def n1_limit(accelerator: str, count: int, zones: list[str]) -> tuple[int, float] | None:
    """The most vCPUs and memory (GB) an N1 machine may have with that many GPUs; None for a count there is not."""
    rows = gpu_catalog.attachments(accelerator.removesuffix(WORKSTATION))
    return next((row.limit(zones) for row in rows if row.count == count), None)


def n1_counts(accelerator: str) -> tuple[int, ...]:
    """How many of them one machine can have; none for what is not attached."""
    card = accelerator.removesuffix(WORKSTATION)
    return gpu_catalog.attachment_counts(card) if card in gpu_catalog.attachable() else ()


def offer_of(chosen: MachineType, attached: str = "") -> gpu_catalog.Machine | None:
    """What says where it is and which quota it draws from: the machine's own GPUs, or one card on the smallest N1."""
    card = attached.removesuffix(WORKSTATION)
    if chosen.offer or card not in gpu_catalog.attachable():
        return chosen.offer
    return gpu_catalog.attached("n1-standard-1", card)


def accelerators_in(zone: str) -> list[str]:
    """Every accelerator type that some machine of the zone can have."""
    return sorted({each.accelerator for each in gpu_catalog.machines(cloud="gcp", zone=zone)})


def quota_metric(offer: gpu_catalog.Machine, spot: bool) -> str:
    """The quota its GPUs draw from, as the API names it in QUOTA_EXCEEDED."""
    metrics = offer.quota.get("spot" if spot else "standard", ()) or offer.quota["standard"]
    return metrics[0]
